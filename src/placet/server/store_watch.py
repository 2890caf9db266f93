"""Watches the store of one served world: reopens the world after a failure, and checks readiness.

A store that failed stops its world, and nothing is written again on the same handle. So the world
is opened again from its log, as a restart of the process would, with growing pauses until the store
works. Two failures are final for this process: another process has taken the log over, or the log
was in memory. Then only a restart helps, and `/healthz` reports that.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from placet.runtime.orchestrator import Orchestrator
from placet.runtime.telemetry.world_logger import WorldLogger
from placet.schemas.errors import PlacetError, StoreError
from placet.stores.append_rules import FencedError, InUseError

if TYPE_CHECKING:
    from placet.server.config import ServeConfig

PAUSE_SECONDS: Final = 0.25
PAUSE_SECONDS_MAX: Final = 8.0
"""Pauses between attempts to reopen double, from the first to the second of these."""

STABLE_SECONDS: Final = 60.0
"""A world that failed later than this after it was opened is reopened at once, seconds."""

CHECK_AGE_SECONDS_MAX: Final = 1.0
CHECK_SECONDS_MAX: Final = 2.0


class StoreWatch:
    """A task that watches one world's store: reopens the world after a failure, checks readiness.

    Args:
        world: An open world.
        config: Configuration of the server.
        on_reopened: Called once the world is open again, with new actors.
        on_exit: Called instead of reopening, if the server exits on a store failure.

    Attributes:
        lost: Reason why only a restart of the process helps; None while none is needed.
    """

    def __init__(
        self,
        world: Orchestrator,
        config: "ServeConfig",
        *,
        on_reopened: Callable[[], None],
        on_exit: Callable[[StoreError], None],
    ) -> None:
        self.lost: str | None = None
        self._world = world
        self._is_exiting = config.exit_on_store_failure
        self._on_reopened = on_reopened
        self._on_exit = on_exit
        # Attempts to reopen since the world was last open for `STABLE_SECONDS`; sets the pause.
        self._attempts = 0
        self._opened_at = asyncio.get_running_loop().time()
        # The one check in progress, for which all callers wait; None between two checks.
        self._check: asyncio.Task[None] | None = None
        self._checked_at = float("-inf")
        self._unready: str | None = None
        self._task = asyncio.create_task(self._run(), name="store watch")

    async def stop(self) -> None:
        """Stop watching; call it before the world is closed."""
        tasks = [task for task in (self._task, self._check) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    def why_failed(self) -> str | None:
        """Return the reason why the world has failed; None if it has not."""
        failure = self._world.store.failure
        if failure is None:
            return None
        return self.lost or f"the store failed and is opened again: {failure}"

    async def why_not_ready(self) -> str | None:
        """Return the reason why the world could not decide and write a batch now; None if it could.

        The check writes to the store, at most once in `CHECK_AGE_SECONDS_MAX` seconds for all
        callers. This waits for it for at most `CHECK_SECONDS_MAX` seconds.
        """
        loop = asyncio.get_running_loop()
        failed = self.why_failed()
        if failed is not None:
            return failed
        if self._check is None and loop.time() - self._checked_at <= CHECK_AGE_SECONDS_MAX:
            return self._unready
        if self._check is None:
            self._check = asyncio.create_task(self._checked(), name="store check")
        done, _ = await asyncio.wait({self._check}, timeout=CHECK_SECONDS_MAX)
        return self._unready if done else "a world does not answer in time"

    async def _checked(self) -> None:
        try:
            await self._world.store.check_writable()
            self._unready = None
        except Exception as error:  # noqa: BLE001  # a probe: every failure is its answer
            self._unready = _reason_of(error)
        finally:
            self._checked_at = asyncio.get_running_loop().time()
            self._check = None

    async def _run(self) -> None:
        try:
            await self._keep_open()
        except Exception as error:  # noqa: BLE001  # a supervisor: a bug here is reported
            self._give_up(error)

    async def _keep_open(self) -> None:
        while self.lost is None:
            failure = await self._world.store.wait_failed()
            if self._is_exiting:
                self.lost = f"the server ends, because its store failed: {failure}"
                self._on_exit(failure)
            elif isinstance(failure, FencedError) or self._world.store.scheme == "memory":
                self._give_up(failure)
            else:
                await self._reopen(failure)

    async def _reopen(self, failure: StoreError) -> None:
        """Open the world again, with growing pauses, until it is open or lost."""
        began = asyncio.get_running_loop().time()
        if began - self._opened_at > STABLE_SECONDS:
            self._attempts = 0
        reported = str(failure)
        while self.lost is None:
            if self._attempts:
                await asyncio.sleep(pause_before(self._attempts))
            self._attempts += 1
            try:
                await self._world.store.reopen()
            except InUseError as error:
                self._give_up(error)
            except StoreError as error:
                if str(error) != reported:
                    reported = str(error)
                    self._report(f"the world cannot be opened again yet: {error}")
            else:
                self._opened_at = asyncio.get_running_loop().time()
                self._report(f"the world is open again, after {self._opened_at - began:.1f} s")
                self._on_reopened()
                return

    def _give_up(self, error: Exception) -> None:
        is_taken = isinstance(error, FencedError | InUseError)
        remedy = "stop it, or restart it once no other process writes" if is_taken else "restart it"
        self.lost = f"this process cannot open the store again, {remedy}: {_reason_of(error)}"
        self._report(self.lost)

    def _report(self, message: str) -> None:
        config = self._world.config
        WorldLogger(config.log_format, config.log_level, config.world).warning(message)


def _reason_of(error: Exception) -> str:
    return str(error) if isinstance(error, PlacetError) else repr(error)


def pause_before(attempt: int) -> float:
    """Return the seconds to wait before an attempt to reopen a world; attempts count from 1."""
    return float(min(PAUSE_SECONDS_MAX, PAUSE_SECONDS * 2 ** min(attempt - 1, 10)))
