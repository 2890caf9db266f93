"""Waits for simulated time: one heap, and one event-loop timer where time runs by itself.

Where the host or `next_event` moves time, it calls `wake` afterwards. The caller's own task waits,
so there are as many entries as the program has sleeping tasks.
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
"""Added to each delay: timers of the loop may fire early by their resolution."""


class OneShotTimer:
    """A timer of the event loop that is set in simulated time.

    Args:
        clock: The world's clock.
        wake: Called in the event loop when the time has come.
    """

    __slots__ = ("_clock", "_timer", "_wake")

    def __init__(self, clock: Clock, wake: Callable[[], None]) -> None:
        self._clock = clock
        self._wake = wake
        self._timer: asyncio.TimerHandle | None = None

    def set(self, due_ns: int | None) -> None:
        """Set the timer to a simulated time, replacing the previous one; None clears it."""
        self.clear()
        if due_ns is None:
            return
        delay_s = max(0, due_ns - self._clock.now_ns()) / SECOND_NS + _SLACK_S
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._wake)

    def clear(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


_CANCELED_MAX: Final = 64
_IDLE: Final = nullcontext()


class TimerQueue:
    """The sleeping tasks of one world, ordered by wake time, then by arrival.

    Args:
        clock: The world's clock.
    """

    __slots__ = ("_asleep", "_clock", "_end", "_heap", "_number", "_timer")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[int, int, asyncio.Future[None]]] = []
        self._number = 0
        self._asleep = 0
        self._end: BaseException | None = None
        self._timer = None if isinstance(clock, HostClock) else OneShotTimer(clock, self.wake)

    async def sleep_until(self, due_ns: int, who: str = "") -> None:
        """Wait until a simulated time; a time in the past yields to the event loop once.

        Args:
            due_ns: The time, in nanoseconds.
            who: Name of the sleeper in error messages; not used by this class.

        Raises:
            ClosedError, StoreError: The world was closed, or failed.
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
            self._set_timer()
        try:
            await woken
        finally:
            self._asleep -= 1
            if woken.cancelled():
                self._drop_canceled()

    def idle(self) -> AbstractContextManager[None]:
        """Return a context without effect: in this class, time is independent of waiting tasks."""
        return _IDLE

    def wake(self) -> None:
        """Wake all tasks whose time has come."""
        now_ns, heap = self._clock.now_ns(), self._heap
        while heap and (heap[0][0] <= now_ns or heap[0][2].done()):
            woken = heappop(heap)[2]
            if not woken.done():
                woken.set_result(None)
        self._set_timer()

    def end(self, failure: BaseException | None = None) -> None:
        """Wake all tasks with an error: `failure`, or `ClosedError` if it is None."""
        self._end = failure or ClosedError("the world is closed, and its time has ended")
        for _, _, woken in self._heap:
            if not woken.done():
                woken.set_exception(self._end)
        self._heap.clear()
        self._set_timer()

    @property
    def next_ns(self) -> int | None:
        """When the first sleeping task wakes, in simulated nanoseconds; None if none sleeps."""
        heap = self._heap
        while heap and heap[0][2].done():
            heappop(heap)
        return heap[0][0] if heap else None

    def __len__(self) -> int:
        return self._asleep

    def _set_timer(self) -> None:
        # Computed for undilated time. Under dilation it fires early and is set again, never late.
        if self._timer is not None:
            self._timer.set(self.next_ns)

    def _drop_canceled(self) -> None:
        """Drop canceled entries, once they outnumber the sleeping tasks."""
        if len(self._heap) > 2 * self._asleep + _CANCELED_MAX:
            self._heap = [entry for entry in self._heap if not entry[2].done()]
            heapify(self._heap)
