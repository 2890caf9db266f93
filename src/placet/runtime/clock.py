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

_NOTIFY_NS: Final = 1_000_000_000


class RealtimeClock:
    """A clock whose simulated time runs at the speed of the machine's monotonic clock.

    Args:
        start_ns: Simulated time to continue from: that of the last record of the log.
        monotonic_ns: The machine's clock; a test hands in its own.

    Attributes:
        monotonic_ns: Returns the machine's monotonic time, nanoseconds. It is the function itself,
            without a method around it, because it is called several times for each batch.
    """

    monotonic_ns: Callable[[], int]

    def __init__(
        self, start_ns: int = 0, *, monotonic_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self.monotonic_ns = monotonic_ns
        # Not the wall clock: that is set back by people and by time servers.
        self._offset_ns = start_ns - monotonic_ns()

    def now_ns(self) -> int:
        """Return the simulated time, nanoseconds."""
        return self.monotonic_ns() + self._offset_ns

    def skip(self, dt_ns: int) -> None:
        """Advance simulated time at once, by nanoseconds."""
        assert dt_ns >= 0, "time never goes back"
        self._offset_ns += dt_ns


class DilatedClock(RealtimeClock):
    """A clock whose simulated time runs slower than the machine's under load.

    The time never goes back and never jumps: a new factor applies from the present on.

    Args:
        start_ns: Simulated time to continue from, nanoseconds.
        dilation: Computes the factor from the load.
        monotonic_ns: The machine's clock; a test hands in its own.
        on_change: Called with the dilation and the predicted wait in nanoseconds, when the factor
            has halved or doubled (at most once a second), and when it is 1 again.
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
        self._on_change = on_change
        self._notified_ns = monotonic_ns() - _NOTIFY_NS
        self._set_ns = monotonic_ns()  # when the present factor was set, and the time it was then
        self._then_ns = start_ns
        self._parts = self._PARTS  # in whole parts, so that a sum of times is exact

    def now_ns(self) -> int:
        """Return the simulated time, nanoseconds."""
        return self._then_ns + (self.monotonic_ns() - self._set_ns) * self._parts // self._PARTS

    def skip(self, dt_ns: int) -> None:
        """Advance simulated time at once, by nanoseconds."""
        super().skip(dt_ns)
        self._then_ns += dt_ns

    def follow(self, wait_ns: int) -> bool:
        """Adjust the speed of simulated time to the predicted wait of a batch, nanoseconds.

        Return True while simulated time is slowed.
        """
        machine_ns = self.monotonic_ns()
        elapsed_ns = machine_ns - self._set_ns if self._parts < self._PARTS else _BEGIN_NS
        factor = self.dilation.follow(wait_ns, elapsed_ns)
        self._then_ns += (machine_ns - self._set_ns) * self._parts // self._PARTS
        self._set_ns = machine_ns
        self._parts = max(1, round(factor * self._PARTS))
        may_notify = machine_ns - self._notified_ns >= _NOTIFY_NS or factor == 1.0
        if may_notify and self.dilation.take_change():
            self._notified_ns = machine_ns
            self._on_change(self.dilation, wait_ns)
        return factor < 1.0

    @property
    def behind_ns(self) -> int:
        """Nanoseconds that simulated time has lost to real time since the clock was created."""
        return self.monotonic_ns() + self._offset_ns - self.now_ns()


class SteppedClock:
    """A clock whose simulated time advances only when the host program advances it.

    `monotonic_ns`, by which waits are measured, is real time.

    Args:
        start_ns: Simulated time to continue from.
    """

    def __init__(self, start_ns: int = 0) -> None:
        self._now_ns = start_ns

    def advance(self, dt_ns: int) -> int:
        """Advance simulated time by nanoseconds, and return the new time.

        Raises:
            ValueError: The step is negative.
        """
        if dt_ns < 0:
            raise ValueError(f"time never goes back: expected a step >= 0 ns, got {dt_ns}")
        self._now_ns += dt_ns
        return self._now_ns

    def now_ns(self) -> int:
        """Return the simulated time, nanoseconds."""
        return self._now_ns

    def monotonic_ns(self) -> int:
        """Return the machine's monotonic time, nanoseconds."""
        return time.monotonic_ns()
