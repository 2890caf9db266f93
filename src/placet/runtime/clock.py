"""Where simulated time comes from: the machine, the host program, or a test.

The kernel never reads a clock; it is passed the time. A clock here chooses that time, and none of
them moves backwards.
"""

import time
from collections.abc import Callable
from typing import Final

from placet.actors.admission.time_scaled_queue import Dilation

_BEGIN_NS: Final = 10_000_000
"""A first slowing is as if the load had come so long ago: time is not torn down at once."""

_NEWS_NS: Final = 1_000_000_000


class RealtimeClock:
    """Simulated time runs with the machine's monotonic clock.

    Args:
        start_ns: Simulated time to continue from: that of the last record of the log.
        monotonic_ns: The machine's clock; a test hands in its own.

    Attributes:
        monotonic_ns: Gives the machine's monotonic time. It is that clock itself: it is asked
            several times for each batch.
    """

    monotonic_ns: Callable[[], int]

    def __init__(
        self, start_ns: int = 0, *, monotonic_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self.monotonic_ns = monotonic_ns
        # Not the wall clock: that is set back by people and by time servers.
        self._offset_ns = start_ns - monotonic_ns()

    def now_ns(self) -> int:
        """Return the simulated time."""
        return self.monotonic_ns() + self._offset_ns


class DilatedClock(RealtimeClock):
    """Simulated time runs with the machine's, or slower by a factor that follows the load.

    It never goes back and never leaps: a new factor holds from the present on.

    Args:
        start_ns: As of `RealtimeClock`.
        dilation: Chooses the factor.
        monotonic_ns: The machine's clock; a test hands in its own.
        on_change: Told when the factor halved or doubled, once a second, and when it is 1 again.
    """

    _PARTS = 1_000_000

    def __init__(
        self,
        start_ns: int = 0,
        dilation: Dilation | None = None,
        *,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
        on_change: Callable[[Dilation, int], None] = lambda _dilation, _wait_ns: None,
    ) -> None:
        super().__init__(start_ns, monotonic_ns=monotonic_ns)
        self.dilation = dilation or Dilation()
        self._on_news = on_change
        self._told_ns = monotonic_ns() - _NEWS_NS
        self._set_ns = monotonic_ns()  # when the present factor was set, and the time it was then
        self._then_ns = start_ns
        self._parts = self._PARTS  # in whole parts, so that a sum of times is exact

    def now_ns(self) -> int:
        """Return the simulated time."""
        return self._then_ns + (self.monotonic_ns() - self._set_ns) * self._parts // self._PARTS

    def follow(self, wait_ns: int) -> bool:
        """Take in how long a batch that comes now would wait; True while time runs slower."""
        machine_ns = self.monotonic_ns()
        elapsed_ns = machine_ns - self._set_ns if self._parts < self._PARTS else _BEGIN_NS
        factor = self.dilation.follow(wait_ns, elapsed_ns)
        self._then_ns += (machine_ns - self._set_ns) * self._parts // self._PARTS
        self._set_ns = machine_ns
        self._parts = max(1, round(factor * self._PARTS))
        may_tell = machine_ns - self._told_ns >= _NEWS_NS or factor == 1.0
        if may_tell and self.dilation.take_change():
            self._told_ns = machine_ns
            self._on_news(self.dilation, wait_ns)
        return factor < 1.0

    @property
    def behind_ns(self) -> int:
        """How far simulated time fell behind the machine's since the clock was made."""
        return self.monotonic_ns() + self._offset_ns - self.now_ns()


class SteppedClock:
    """Simulated time stands still until the host moves it. Waits are still measured in real time.

    Args:
        start_ns: Simulated time to continue from.
    """

    def __init__(self, start_ns: int = 0) -> None:
        self._now_ns = start_ns

    def advance(self, dt_ns: int) -> int:
        """Advance simulated time and return the new time.

        Raises:
            ValueError: The step is negative.
        """
        if dt_ns < 0:
            raise ValueError(f"time never goes back: expected a step >= 0 ns, got {dt_ns}")
        self._now_ns += dt_ns
        return self._now_ns

    def now_ns(self) -> int:
        """Return the simulated time."""
        return self._now_ns

    def monotonic_ns(self) -> int:
        """Return the machine's monotonic time."""
        return time.monotonic_ns()


class ManualClock(SteppedClock):
    """For tests: both times are the same, and stand still until the test moves them."""

    def monotonic_ns(self) -> int:
        """Return the simulated time: a wait is as long as the test says."""
        return self.now_ns()
