"""Tasks registered on the `next_event` clock; time does not advance while one is runnable.

A task joins with its first `sleep_until` and leaves when it ends. In between, simulated time stands
while the task is awake without a batch in the queue: it computes, or waits for something outside
the world, such as a model's answer. Its batches are decided when no task is runnable. A task that
waits for an observation does not hold time, because only advancing time can bring it.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from typing import Any, Final

from placet.actors.ports import Clock
from placet.actors.timers.timer_queue import TimerQueue

_NAMES_MAX: Final = 8


class TimeParticipants(TimerQueue):
    """A timer queue that also records which tasks sleep, compute, or wait for a verdict.

    Args:
        clock: The world's clock.

    Attributes:
        version: Counts the events that time may have to wait for: sleep, wake, post, leave.
    """

    __slots__ = ("_changed", "_names", "_pending", "_submitters", "_thinking", "version")

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._names: dict[asyncio.Task[Any], str] = {}
        self._thinking: dict[asyncio.Task[Any], float] = {}  # runnable since, loop time
        self._pending: Counter[asyncio.Task[Any]] = Counter()
        self._submitters: dict[str, None] = {}
        self._changed: asyncio.Future[None] | None = None
        self.version = 0

    async def sleep_until(self, due_ns: int, who: str = "") -> None:
        """Wait until a simulated time, nanoseconds; the calling task becomes a participant.

        `who` names the task in error messages.

        Raises:
            ClosedError, StoreError, TimeStalledError: The time of this world has ended.
        """
        task = asyncio.current_task()
        assert task is not None, "sleep_until is called in a task"
        if task not in self._names:
            task.add_done_callback(self._leaves)
        self._names[task] = who
        self._thinking.pop(task, None)
        self._note_change()
        try:
            await super().sleep_until(due_ns, who)
        finally:
            self._wakes(task)

    @contextmanager
    def idle(self) -> Iterator[None]:
        """Return the context of a wait in this world; simulated time may advance inside it."""
        task = asyncio.current_task()
        if task not in self._thinking:
            yield
            return
        del self._thinking[task]
        self._note_change()
        try:
            yield
        finally:
            self._wakes(task)

    def note_post(self, reply: "asyncio.Future[Any]", submitter: str) -> None:
        """Record that the calling task submitted a batch; time may advance until `reply` is set."""
        if len(self._submitters) < _NAMES_MAX:
            self._submitters[submitter] = None
        task = asyncio.current_task()
        if task is not None and task in self._names and not reply.done():
            self._pending[task] += 1
            reply.add_done_callback(lambda _: self._answered(task))
        self._note_change()

    def reset(self) -> None:
        """Clear the list of submitters, because the next group is decided."""
        self._submitters.clear()

    @property
    def is_thinking(self) -> bool:
        """Whether a participant computes: it is awake without a pending verdict. O(awake tasks)."""
        return any(task not in self._pending for task in self._thinking)

    @property
    def thinks_since(self) -> float:
        """Event-loop time at which the longest-computing participant woke; infinity if none."""
        starts = (since for task, since in self._thinking.items() if task not in self._pending)
        return min(starts, default=inf)

    def thinkers(self) -> list[str]:
        """Return the names of at most 8 tasks that are awake without a pending verdict, sorted.

        Simulated time waits for these tasks; an error message names them.
        """
        names = [self._names[task] for task in self._thinking if task not in self._pending]
        return sorted(set(names))[:_NAMES_MAX]

    def submitters(self) -> list[str]:
        """Return the names of at most 8 submitters since the last `reset`, sorted."""
        return sorted(self._submitters)

    async def wait_changed(self) -> None:
        """Wait until a participant sleeps, wakes, submits or leaves."""
        self._changed = asyncio.get_running_loop().create_future()
        try:
            await self._changed
        finally:
            self._changed = None

    def _answered(self, task: "asyncio.Task[Any]") -> None:
        self._pending[task] -= 1
        if not self._pending[task]:
            del self._pending[task]
            if task in self._thinking:
                self._wakes(task)
                return
        self._note_change()

    def _wakes(self, task: "asyncio.Task[Any]") -> None:
        self._thinking[task] = asyncio.get_running_loop().time()
        self._note_change()

    def _leaves(self, task: "asyncio.Task[Any]") -> None:
        del self._names[task]
        self._thinking.pop(task, None)
        self._note_change()

    def notify(self) -> None:
        """Wake the task that waits in `wait_changed`, although no participant did anything."""
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    def _note_change(self) -> None:
        self.version += 1
        self.notify()
