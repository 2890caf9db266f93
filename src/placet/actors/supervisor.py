"""Task ownership: a supervisor restarts failed tasks within a budget, and then escalates.

Every task of a world runs under one supervisor; no task is detached. All run in one event loop, and
only tasks of that loop can wait for them: a future of one loop never wakes a task of another. So
each public call that waits, or that an actor answers, checks the loop first (`HomeLoop`).
"""

from asyncio import get_running_loop
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

import anyio

from placet.actors.ports import Clock
from placet.schemas.limits import SECOND_NS, Limits

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

T = TypeVar("T")

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


class HomeLoop:
    """The event loop in which an object was made, and in which alone it is used.

    Attributes:
        loop: The event loop.

    Raises:
        RuntimeError: No event loop runs.
    """

    __slots__ = ("loop",)

    def __init__(self) -> None:
        self.loop = get_running_loop()

    @property
    def is_closed(self) -> bool:
        """Whether the loop has ended, and its tasks with it."""
        return self.loop.is_closed()

    def require(self) -> None:
        """Check that the caller runs in this loop. One comparison.

        Raises:
            RuntimeError: It runs in another loop, or in none; the message names both.
        """
        try:
            if get_running_loop() is self.loop:
                return
        except RuntimeError:  # no loop runs here
            pass
        raise RuntimeError(self._message())

    async def guarded(self, items: AsyncIterator[T]) -> AsyncGenerator[T]:
        """Yield the items of an iterator of this loop; check the loop before each.

        Raises:
            RuntimeError: The iterator is read in another loop.
        """
        async with aclosing(cast("AsyncGenerator[T]", items)):
            self.require()
            async for item in items:
                yield item
                self.require()

    def _message(self) -> str:
        try:
            here = repr(get_running_loop())
        except RuntimeError:
            here = "no event loop"
        state = "was closed" if self.is_closed else "is another one"
        return (
            f"the world was opened in the event loop {self.loop!r}, which {state}, and is used in "
            f"{here}: it would wait for ever. Open, use and close a world inside one "
            "`asyncio.run(main())`; from another thread, use `asyncio.run_coroutine_threadsafe` "
            "with its loop"
        )


def ignore(name: str, error: BaseException) -> None:
    """Escalate no further: the supervisor has reported the failure, and the world continues."""
