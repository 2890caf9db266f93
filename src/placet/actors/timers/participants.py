"""Those who live in the time of a world that goes by its next event, and whom it waits for.

A task joins with its first `sleep_until`, and leaves with its end. From then on time stands still
while it is awake and has nothing in the queue: it thinks, or waits for something that is not of
this world, such as a model's answer. What it posted is decided when nobody thinks any more. One
who waits for something to see does not hold up time: it is time that brings it.
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
    """Sleepers who are known by their tasks.

    Args:
        clock: Says when it is.

    Attributes:
        version: How often something was done that time may have to wait for.
    """

    __slots__ = ("_names", "_news", "_pending", "_posters", "_thinking", "version")

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._names: dict[asyncio.Task[Any], str] = {}
        self._thinking: dict[asyncio.Task[Any], float] = {}  # since when, by the loop's time
        self._pending: Counter[asyncio.Task[Any]] = Counter()
        self._posters: dict[str, None] = {}
        self._news: asyncio.Future[None] | None = None
        self.version = 0

    async def sleep_until(self, due_ns: int, who: str = "") -> None:
        """Wait until simulated time reaches a moment; whoever does so belongs to the company.

        Raises:
            ClosedError, StoreError, TimeStalledError: The time of this world has ended.
        """
        task = asyncio.current_task()
        assert task is not None, "who sleeps is a task"
        if task not in self._names:
            task.add_done_callback(self._left)
        self._names[task] = who
        self._thinking.pop(task, None)
        self._tell()
        try:
            await super().sleep_until(due_ns, who)
        finally:
            self._thinks(task)

    @contextmanager
    def idle(self) -> Iterator[None]:
        """Wait inside for something that comes about in this world: that is no thought."""
        task = asyncio.current_task()
        if task not in self._thinking:
            yield
            return
        del self._thinking[task]
        self._tell()
        try:
            yield
        finally:
            self._thinks(task)

    def note_post(self, reply: "asyncio.Future[Any]", submitter: str) -> None:
        """Note that a batch was posted; who posted it waits for it, as far as time is concerned."""
        if len(self._posters) < _NAMES_MAX:
            self._posters[submitter] = None
        task = asyncio.current_task()
        if task is not None and task in self._names and not reply.done():
            self._pending[task] += 1
            reply.add_done_callback(lambda _: self._answered(task))
        self._tell()

    def reset(self) -> None:
        """Forget who posted."""
        self._posters.clear()

    @property
    def is_thinking(self) -> bool:
        """Somebody is awake and waits for no verdict. O(those who are awake)."""
        return any(task not in self._pending for task in self._thinking)

    @property
    def thinks_since(self) -> float:
        """When the longest of the present thoughts began, by the event loop's time; else never."""
        thoughts = (one for task, one in self._thinking.items() if task not in self._pending)
        return min(thoughts, default=inf)

    def thinkers(self) -> list[str]:
        """Name some of those who think."""
        names = [self._names[task] for task in self._thinking if task not in self._pending]
        return sorted(set(names))[:_NAMES_MAX]

    def posters(self) -> list[str]:
        """Name some of those who posted in this round."""
        return sorted(self._posters)

    async def wait_changed(self) -> None:
        """Wait until somebody sleeps, wakes, posts or leaves."""
        self._news = asyncio.get_running_loop().create_future()
        try:
            await self._news
        finally:
            self._news = None

    def _answered(self, task: "asyncio.Task[Any]") -> None:
        self._pending[task] -= 1
        if not self._pending[task]:
            del self._pending[task]
            if task in self._thinking:
                self._thinks(task)
                return
        self._tell()

    def _thinks(self, task: "asyncio.Task[Any]") -> None:
        self._thinking[task] = asyncio.get_running_loop().time()
        self._tell()

    def _left(self, task: "asyncio.Task[Any]") -> None:
        del self._names[task]
        self._thinking.pop(task, None)
        self._tell()

    def notify(self) -> None:
        """Let who waits for news look again, though nobody has done anything."""
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def _tell(self) -> None:
        self.version += 1
        self.notify()
