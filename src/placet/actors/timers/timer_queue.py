"""Those who wait for a moment of simulated time: one heap, and one timer where time runs by itself.

Where the host or the next event moves time, whoever moves it says so: `wake`. The wait is of the
caller's own task, so there are as many here as the program has tasks asleep.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from heapq import heapify, heappop, heappush
from typing import Final

from placet.actors.ports import Clock, HostClock
from placet.schemas.errors import ClosedError
from placet.schemas.limits import SECOND_NS

_SLACK_S = 0.0005
"""The loop's timers may be early by their resolution, and early is too early."""


class OneShotTimer:
    """One timer of the event loop.

    Args:
        clock: Says when it is.
        wake: Called, in the event loop, once it is time.
    """

    __slots__ = ("_clock", "_timer", "_wake")

    def __init__(self, clock: Clock, wake: Callable[[], None]) -> None:
        self._clock = clock
        self._wake = wake
        self._timer: asyncio.TimerHandle | None = None

    def set(self, due_ns: int | None) -> None:
        """Wake at a simulated time instead of the one set before; None is never."""
        self.clear()
        if due_ns is None:
            return
        delay_s = max(0, due_ns - self._clock.now_ns()) / SECOND_NS + _SLACK_S
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._wake)

    def clear(self) -> None:
        """Do not wake."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


_GONE_MAX: Final = 64
_RESTING: Final = nullcontext()


class TimerQueue:
    """The sleepers of one world, the earliest first; of as early, who came first.

    Args:
        clock: Says when it is.
    """

    __slots__ = ("_alarm", "_asleep", "_clock", "_end", "_heap", "_number")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[int, int, asyncio.Future[None]]] = []
        self._number = 0
        self._asleep = 0
        self._end: BaseException | None = None
        self._alarm = None if isinstance(clock, HostClock) else OneShotTimer(clock, self.wake)

    async def sleep_until(self, due_ns: int, who: str = "") -> None:
        """Wait until simulated time reaches a moment; one that has passed costs one turn.

        Args:
            due_ns: The moment.
            who: For people, where it matters who sleeps.

        Raises:
            ClosedError, StoreError: The world was closed, or failed, before.
        """
        if self._end is not None:
            raise self._end
        if due_ns <= self._clock.now_ns():
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._number += 1
        heappush(self._heap, (due_ns, self._number, woken))
        self._asleep += 1
        if self._heap[0][2] is woken:
            self._set_alarm()
        try:
            await woken
        finally:
            self._asleep -= 1
            if woken.cancelled():
                self._forget_gone()

    def idle(self) -> AbstractContextManager[None]:
        """Wait inside for something that comes about in this world, where that is told apart."""
        return _RESTING

    def wake(self) -> None:
        """Wake everybody whose moment has come."""
        now_ns, heap = self._clock.now_ns(), self._heap
        while heap and (heap[0][0] <= now_ns or heap[0][2].done()):
            woken = heappop(heap)[2]
            if not woken.done():
                woken.set_result(None)
        self._set_alarm()

    def end(self, failure: BaseException | None = None) -> None:
        """Let nobody sleep any more: all are told that the world is closed, or has failed."""
        self._end = failure or ClosedError("the world is closed, and its time with it")
        for _, _, woken in self._heap:
            if not woken.done():
                woken.set_exception(self._end)
        self._heap.clear()
        self._set_alarm()

    @property
    def next_ns(self) -> int | None:
        """When the first of them wakes; None if nobody sleeps."""
        heap = self._heap
        while heap and heap[0][2].done():
            heappop(heap)
        return heap[0][0] if heap else None

    def __len__(self) -> int:
        return self._asleep

    def _set_alarm(self) -> None:
        # As if time ran with the machine's. Where it is slower that is early: it is set again.
        if self._alarm is not None:
            self._alarm.set(self.next_ns)

    def _forget_gone(self) -> None:
        """Keep no more of those who gave up than there are asleep."""
        if len(self._heap) > 2 * self._asleep + _GONE_MAX:
            self._heap = [entry for entry in self._heap if not entry[2].done()]
            heapify(self._heap)
