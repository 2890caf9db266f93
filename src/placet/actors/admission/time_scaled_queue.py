"""Overflow policy `dilate`: simulated time slows while batches wait, so that few are refused.

Batches submitted under load go to the wait queue, as in `wait`. Deadlines in seconds are simulated
seconds: a batch that may wait ten seconds has them in the world's time, however long that takes.

The queue reports to the clock how long a batch submitted now would wait: the number of queued
batches times the time that each takes. It reports on submissions and takes, and on a timer while
time is slowed, at most a hundred times a second.

    Source: "time dilation" of EVE Online (CCP Games, 2011), which slows a crowded star system. The
    wait is predicted (Little's law). The age of the batches taken is no substitute: it lags behind
    by the length of the queue, and a control loop on it oscillates.
"""

import asyncio
from math import exp
from typing import Final

from placet.actors.admission.overload import Overload
from placet.actors.admission.wait_queue import WaitingQueue
from placet.actors.ports import DilatingClock
from placet.actors.queued_batch import QueuedBatch
from placet.schemas.limits import SECOND_NS, Limits

_REPORT_NS: Final = 10_000_000
_DELAY_S_MIN: Final = 0.001


WAIT_MS: Final = 100
"""How long a batch may wait before time slows; milliseconds."""

FACTOR_MIN: Final = 0.05
"""The lowest time scale: a twentieth of real time."""

_SMOOTHED_NS: Final = 50_000_000
"""Time constant of the smoothing: the factor covers 63 % of a change in this time."""

_NEARLY: Final = 0.999
_CHANGE_RATIO: Final = 2.0


class Dilation:
    """The time scale of a simulation: slows simulated time as batches wait longer.

    The factor is the intended wait divided by the predicted one. It settles where batches are
    submitted as fast as they can be decided, because agents submit in simulated time.

    Args:
        wait_ms: How long a batch may wait before time slows; real milliseconds.
        factor_min: The lowest factor; above 0, at most 1.

    Attributes:
        factor: Simulated seconds per real second; 1 without load.
        lowest: The lowest factor so far.

    Raises:
        ValueError: An argument is out of its range.
    """

    __slots__ = ("_announced", "_factor_min", "_wait_ns", "factor", "lowest")

    def __init__(self, wait_ms: int = WAIT_MS, factor_min: float = FACTOR_MIN) -> None:
        if type(wait_ms) is not int or wait_ms < 1:
            raise ValueError(f"dilation_wait_ms must be an int >= 1, got {wait_ms!r}")
        if isinstance(factor_min, bool) or not 0 < factor_min <= 1:
            raise ValueError(f"dilation_factor_min must be above 0 and <= 1, got {factor_min!r}")
        self._wait_ns = wait_ms * 1_000_000
        self._factor_min = float(factor_min)
        self._announced = 1.0
        self.factor = 1.0
        self.lowest = 1.0

    def follow(self, wait_ns: int, elapsed_ns: int) -> float:
        """Move the factor smoothly towards the value for a predicted wait, and return it.

        Args:
            wait_ns: Predicted wait of a batch submitted now; real nanoseconds.
            elapsed_ns: Real nanoseconds since the last call.
        """
        wanted = 1.0
        if wait_ns > self._wait_ns:
            wanted = max(self._factor_min, self._wait_ns / wait_ns)
        self.factor += (wanted - self.factor) * (1.0 - exp(-elapsed_ns / _SMOOTHED_NS))
        if wanted == 1.0 and self.factor > _NEARLY:
            self.factor = 1.0
        self.lowest = min(self.lowest, self.factor)
        return self.factor

    def take_change(self) -> bool:
        """Return whether the factor halved, doubled or returned to 1 since the last True."""
        factor, announced = self.factor, self._announced
        is_over = factor == 1.0 and announced < 1.0
        is_change = is_over or not announced / _CHANGE_RATIO < factor < announced * _CHANGE_RATIO
        if is_change:
            self._announced = factor
        return is_change


class DilatingQueue(WaitingQueue):
    """The queue of `backpressure="dilate"`: simulated time slows while batches wait.

    Args:
        limits: Bounds of the queue and of the wait queue.
        clock: Measures waits, and slows simulated time for a predicted wait.
    """

    def __init__(
        self,
        limits: Limits,
        clock: DilatingClock,
    ) -> None:
        super().__init__(limits, clock)
        self._dilating = clock
        self._report_timer: asyncio.TimerHandle | None = None
        self._reported_ns = 0
        self._ns_per_batch = 0
        self._taken_ns = 0
        self._has_left = False

    def post_nowait(self, message: QueuedBatch, size: int = 0) -> int:
        """Enqueue a batch if the wait queue is empty; return the number of batches before it.

        Raises:
            MailboxFull: The queue is full, or the wait queue is not empty.
        """
        message.simulated_ns = self._dilating.now_ns()
        if not len(self):
            self._taken_ns = message.since_ns  # the first wait begins now
        ahead = super().post_nowait(message, size)
        if message.since_ns - self._reported_ns >= _REPORT_NS:
            self._report(message.since_ns)
        return ahead

    def enqueue_under_load(self, waiting: QueuedBatch, load: Overload) -> Overload | None:
        """Add a batch to the wait queue as `WaitingQueue` does, and note its simulated time.

        Return None if it was added. If the wait queue is full, or the submitter has used its share,
        return the load signal that states why the batch is refused.
        """
        waiting.simulated_ns = self._dilating.now_ns()
        return super().enqueue_under_load(waiting, load)

    def take(self, count_max: int, intents_max: int | None = None) -> list[QueuedBatch]:
        """Remove and return batches as `WaitingQueue.take`, and report the rest to the clock."""
        taken = super().take(count_max, intents_max)
        now_ns = self._dilating.monotonic_ns()
        if taken:
            self._note_pace(len(taken), now_ns)
        self._has_left = self._has_backlog
        if self._has_left and now_ns - self._reported_ns >= _REPORT_NS:
            self._report(now_ns)
        return taken

    def take_all(self) -> list[QueuedBatch]:
        """Remove and return every batch, including the wait queue.

        The time scale does not change.
        """
        if self._report_timer is not None:
            self._report_timer.cancel()
            self._report_timer = None
        return super().take_all()

    def waited_ns(self, waiting: QueuedBatch, now_ns: int) -> int:
        """Return how long a batch has waited, in simulated nanoseconds; `now_ns` is not used."""
        return self._dilating.now_ns() - waiting.simulated_ns

    @property
    def _backlog(self) -> int:
        return len(self) + self.waiters_count

    @property
    def _has_backlog(self) -> bool:
        return self._backlog > 0 and not self.is_paused

    def _note_pace(self, count: int, now_ns: int) -> None:
        if self._has_left:  # else a part of the time passed without batches
            pace_ns = (now_ns - self._taken_ns) // count
            self._ns_per_batch = (3 * (self._ns_per_batch or pace_ns) + pace_ns) // 4
        self._taken_ns = now_ns

    def _report(self, now_ns: int) -> None:
        """Report the predicted wait of one more batch to the clock; repeat while time is slowed."""
        wait_ns = 0
        if self._has_backlog:  # includes the time since the last take: a store may hang
            wait_ns = self._backlog * self._ns_per_batch + now_ns - self._taken_ns
        self._reported_ns = now_ns
        is_slow = self._dilating.follow(wait_ns)
        if is_slow and self._report_timer is None:
            loop = asyncio.get_running_loop()
            self._report_timer = loop.call_later(_REPORT_NS / SECOND_NS, self._report_again)

    def _report_again(self) -> None:
        self._report_timer = None
        self._report(self._dilating.monotonic_ns())

    # deadlines in the wait queue, in simulated time

    def _time(self) -> float:
        return self._dilating.now_ns() / SECOND_NS

    def _schedule_expiry(self, ends: float) -> None:
        """Schedule the expiry in real time: if early, it is repeated; it is never late."""
        if self._deadline_timer is not None:
            self._deadline_timer.cancel()
        delay_s = max(ends - self._time(), _DELAY_S_MIN)
        self._deadline_timer = asyncio.get_running_loop().call_later(delay_s, self._expire_due, 0.0)
