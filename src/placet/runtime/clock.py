"""Where simulated time comes from: the machine, the host program, or a test.

The kernel never asks a clock; it is told. A clock here only decides what it is told, and every
one of them goes forward or stands still.
"""

import time
from collections.abc import Callable


class RealtimeClock:
    """Simulated time runs with the machine's monotonic clock.

    Args:
        start_ns: Simulated time at which to go on: that of the last record of the log.
        monotonic_ns: The machine's clock; a test hands in its own.
    """

    def __init__(
        self, start_ns: int = 0, *, monotonic_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._machine_ns = monotonic_ns
        # Not the wall clock: that is set back by people and by time servers.
        self._offset_ns = start_ns - monotonic_ns()

    def now_ns(self) -> int:
        """Give the simulated time."""
        return self._machine_ns() + self._offset_ns

    def monotonic_ns(self) -> int:
        """Give the machine's monotonic time."""
        return self._machine_ns()


class SteppedClock:
    """Simulated time stands still until the host moves it. Waits are still measured in real time.

    Args:
        start_ns: Simulated time at which to go on.
    """

    def __init__(self, start_ns: int = 0) -> None:
        self._now_ns = start_ns

    def advance(self, dt_ns: int) -> int:
        """Move simulated time forward and give the new one.

        Raises:
            ValueError: The step is negative.
        """
        if dt_ns < 0:
            raise ValueError(f"time never goes back: expected a step >= 0 ns, got {dt_ns}")
        self._now_ns += dt_ns
        return self._now_ns

    def now_ns(self) -> int:
        """Give the simulated time."""
        return self._now_ns

    def monotonic_ns(self) -> int:
        """Give the machine's monotonic time."""
        return time.monotonic_ns()


class ManualClock(SteppedClock):
    """For tests: both times are the same, and stand still until the test moves them."""

    def monotonic_ns(self) -> int:
        """Give the simulated time: a wait is as long as the test says."""
        return self.now_ns()
