"""`dilate`: simulated time slows while much is queued, so that batches need not be refused.

Batches submitted under load go to the wait queue, as in `wait`. Deadlines in seconds are simulated
seconds: a batch that may wait ten seconds has them in the world's time, however long that takes.

This queue tells the clock how long a batch that comes now would wait: as many as wait, at the pace
at which they are taken. It does so as batches come and are taken, and while time is slow by itself,
at most a hundred times a second.
"""

import asyncio
from math import exp
from typing import Final

from placet.actors.admission.overload import Overload
from placet.actors.admission.wait_queue import WaitingQueue
from placet.actors.committer import QueuedBatch
from placet.actors.ports import DilatingClock
from placet.schemas.limits import SECOND_NS, Limits

_LOOK_NS: Final = 10_000_000
_SOONEST_S: Final = 0.001


WAIT_MS: Final = 100
"""How long a batch may wait before time slows."""

FACTOR_MIN: Final = 0.05
"""Time runs at a twentieth of the machine's at the slowest."""

_SMOOTHED_NS: Final = 50_000_000
"""The factor goes two thirds of its way in so long a time."""

_NEARLY: Final = 0.999
_NEWS: Final = 2.0


class Dilation:
    """The factor, and how low it went.

    Args:
        wait_ms: How long a batch may wait before time slows; milliseconds of the machine.
        factor_min: Where the factor ends; above 0, at most 1.

    Attributes:
        factor: Simulated seconds in a second of the machine; 1 where little waits.
        lowest: The least it has been.

    Raises:
        ValueError: An argument is out of its range.
    """

    __slots__ = ("_factor_min", "_told", "_wait_ns", "factor", "lowest")

    def __init__(self, wait_ms: int = WAIT_MS, factor_min: float = FACTOR_MIN) -> None:
        if type(wait_ms) is not int or wait_ms < 1:
            raise ValueError(f"dilation_wait_ms must be an int >= 1, got {wait_ms!r}")
        if isinstance(factor_min, bool) or not 0 < factor_min <= 1:
            raise ValueError(f"dilation_factor_min must be above 0 and <= 1, got {factor_min!r}")
        self._wait_ns = wait_ms * 1_000_000
        self._factor_min = float(factor_min)
        self._told = 1.0
        self.factor = 1.0
        self.lowest = 1.0

    def follow(self, wait_ns: int, elapsed_ns: int) -> float:
        """Move the factor towards the value that a wait calls for, and return it.

        Args:
            wait_ns: How long a batch that comes now would wait.
            elapsed_ns: Since it was last asked; both are the machine's time.
        """
        wanted = 1.0
        if wait_ns > self._wait_ns:
            wanted = max(self._factor_min, self._wait_ns / wait_ns)
        self.factor += (wanted - self.factor) * (1.0 - exp(-elapsed_ns / _SMOOTHED_NS))
        if wanted == 1.0 and self.factor > _NEARLY:
            self.factor = 1.0
        self.lowest = min(self.lowest, self.factor)
        return self.factor

    def take_news(self) -> bool:
        """Return whether the factor halved or doubled since this was last true, or is 1 again."""
        factor, told = self.factor, self._told
        is_over = factor == 1.0 and told < 1.0
        is_news = is_over or not told / _NEWS < factor < told * _NEWS
        if is_news:
            self._told = factor
        return is_news


class DilatingQueue(WaitingQueue):
    """A queue with a line before it, and a hand on the clock.

    Args:
        limits: As of `WaitingQueue`; likewise the others.
        clock: Says when it is, and runs slower when it is told of a wait.
    """

    __slots__ = ("_dilating", "_has_left", "_look", "_looked_ns", "_ns_per_batch", "_taken_ns")

    def __init__(
        self,
        limits: Limits,
        clock: DilatingClock,
    ) -> None:
        super().__init__(limits, clock)
        self._dilating = clock
        self._look: asyncio.TimerHandle | None = None
        self._looked_ns = 0
        self._ns_per_batch = 0
        self._taken_ns = 0
        self._has_left = False

    def post_nowait(self, message: QueuedBatch, size: int = 0) -> int:
        """Put a batch into the queue, unless others stand in line for it.

        Raises:
            MailboxFull: It would hold more than it may, or there is a line.
        """
        message.simulated_ns = self._dilating.now_ns()
        if not len(self):
            self._taken_ns = message.since_ns  # from here on it waits
        ahead = super().post_nowait(message, size)
        if message.since_ns - self._looked_ns >= _LOOK_NS:
            self._tell(message.since_ns)
        return ahead

    def enqueue_under_load(self, waiting: QueuedBatch, load: Overload) -> Overload | None:
        """Put a batch into the line, behind those of its owner."""
        waiting.simulated_ns = self._dilating.now_ns()
        return super().enqueue_under_load(waiting, load)

    def take(self, count_max: int, intents_max: int | None = None) -> list[QueuedBatch]:
        """Take batches as from a wait queue, and report the remaining queue to the clock."""
        taken = super().take(count_max, intents_max)
        now_ns = self._dilating.monotonic_ns()
        if taken:
            self._note_pace(len(taken), now_ns)
        self._has_left = self._is_waited_for
        if self._has_left and now_ns - self._looked_ns >= _LOOK_NS:
            self._tell(now_ns)
        return taken

    def take_all(self) -> list[QueuedBatch]:
        """Take every batch, those in line too; time is left as it runs."""
        if self._look is not None:
            self._look.cancel()
            self._look = None
        return super().take_all()

    def waited_ns(self, waiting: QueuedBatch, now_ns: int) -> int:
        """Return how long a batch has waited, in simulated time."""
        return self._dilating.now_ns() - waiting.simulated_ns

    @property
    def _backlog(self) -> int:
        return len(self) + self.in_line

    @property
    def _is_waited_for(self) -> bool:
        return self._backlog > 0 and not self.is_paused

    def _note_pace(self, count: int, now_ns: int) -> None:
        if self._has_left:  # else part of the time went by for want of batches
            pace_ns = (now_ns - self._taken_ns) // count
            self._ns_per_batch = (3 * (self._ns_per_batch or pace_ns) + pace_ns) // 4
        self._taken_ns = now_ns

    def _tell(self, now_ns: int) -> None:
        """Report the predicted wait of one more batch to the clock.

        Repeat while time is slowed.
        """
        wait_ns = 0
        if self._is_waited_for:  # also for what does not come, such as a store that hangs
            wait_ns = self._backlog * self._ns_per_batch + now_ns - self._taken_ns
        self._looked_ns = now_ns
        is_slow = self._dilating.follow(wait_ns)
        if is_slow and self._look is None:
            loop = asyncio.get_running_loop()
            self._look = loop.call_later(_LOOK_NS / SECOND_NS, self._tell_again)

    def _tell_again(self) -> None:
        self._look = None
        self._tell(self._dilating.monotonic_ns())

    # deadlines of those in line, in simulated time

    def _time(self) -> float:
        return self._dilating.now_ns() / SECOND_NS

    def _ring_at(self, ends: float) -> None:
        """Ring as if time were not slow: early, perhaps, and then again, but never late."""
        if self._bell is not None:
            self._bell.cancel()
        delay_s = max(ends - self._time(), _SOONEST_S)
        self._bell = asyncio.get_running_loop().call_later(delay_s, self._expire_due, 0.0)
