"""Task ownership: a supervisor restarts failed tasks within a budget, and then escalates.

Every task of a world runs under one supervisor; no task is detached.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

import anyio

from placet.actors.ports import Clock
from placet.schemas.limits import SECOND_NS, Limits

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

FaultReport = Callable[[str, BaseException], None]

_BACKOFF_FIRST_S = 0.01
_BACKOFF_MAX_S = 5.0


class TaskFailure(NamedTuple):
    """A failure of a task: name of the task, its exception, and whether the task is restarted."""

    name: str
    error: BaseException
    is_restarted: bool


class Supervisor:
    """The owner of the tasks of one world; restarts a failed task within a budget.

    Args:
        limits: `restarts_max` within `restart_window_s` is the budget of each task.
        clock: Measures the window.
        on_fault: Called with every failure.
    """

    def __init__(
        self, limits: Limits, clock: Clock, on_fault: Callable[[TaskFailure], None]
    ) -> None:
        self._limits = limits
        self._clock = clock
        self._on_fault = on_fault
        self._group: TaskGroup | None = None
        self._stop = anyio.Event()
        self._scopes: dict[str, anyio.CancelScope] = {}
        self._failures: dict[str, list[int]] = {}
        self.restarts = 0

    async def run(self, started: anyio.Event) -> None:
        """Run the tasks until `stop`; the owner of the world awaits this."""
        async with anyio.create_task_group() as group:
            self._group = group
            started.set()
            await self._stop.wait()
            group.cancel_scope.cancel()

    def start(
        self,
        name: str,
        run: Callable[[], Awaitable[None]],
        give_up: FaultReport,
        *,
        restarts: bool = True,
    ) -> None:
        """Start a task; if it fails, run it again after a growing pause.

        Args:
            name: Name of the task, for `cancel` and for messages.
            run: The task; once it returns, it is not run again.
            give_up: Escalation: called with the failure that exceeds the budget.
            restarts: False to escalate the first failure.
        """
        assert self._group is not None, "a supervisor starts tasks while it runs"
        self._group.start_soon(self._watch, name, run, give_up, restarts)

    def cancel(self, name: str) -> None:
        """Cancel one task; harmless if it has ended."""
        scope = self._scopes.get(name)
        if scope is not None:
            scope.cancel()

    def forgive(self, name: str) -> None:
        """Reset the failures counted against a task's budget; harmless if it has ended."""
        self._failures.get(name, []).clear()

    def stop(self) -> None:
        """Cancel all tasks and let `run` return."""
        self._stop.set()

    async def _watch(
        self,
        name: str,
        run: Callable[[], Awaitable[None]],
        give_up: FaultReport,
        restarts: bool,
    ) -> None:
        failures: list[int] = []
        with anyio.CancelScope() as scope:
            self._scopes[name], self._failures[name] = scope, failures
            try:
                while True:
                    try:
                        await run()
                    except Exception as error:  # noqa: BLE001  # the supervisor: it is reported, and restarted or escalated
                        if not restarts or not self._may_restart(failures):
                            self._on_fault(TaskFailure(name, error, is_restarted=False))
                            give_up(name, error)
                            return
                        self._on_fault(TaskFailure(name, error, is_restarted=True))
                    else:
                        return
                    self.restarts += 1
                    pause = _BACKOFF_FIRST_S * 2 ** (len(failures) - 1)
                    await anyio.sleep(min(pause, _BACKOFF_MAX_S))
            finally:
                if self._scopes.get(name) is scope:
                    del self._scopes[name], self._failures[name]

    def _may_restart(self, failures: list[int]) -> bool:
        now_ns = self._clock.monotonic_ns()
        oldest = now_ns - self._limits.restart_window_s * SECOND_NS
        failures[:] = [at for at in failures if at >= oldest]
        failures.append(now_ns)
        return len(failures) <= self._limits.restarts_max
