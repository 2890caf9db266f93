"""A distribution in a plain list: cheap enough for the path of every batch.

A sample costs one bisection and two additions (`benchmarks/` measures it); a Prometheus histogram
costs three times that. The buckets are fine enough to give percentiles, and hold among their
bounds the round numbers at which an exporter shows them.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final


class Histogram:
    """Counts samples per bucket; a sample belongs to the first bound that is not below it.

    Attributes:
        bounds: Upper bounds of the buckets, ascending; one more bucket holds values above the last.
        total: Sum of the samples.
    """

    __slots__ = ("_counts", "_largest", "bounds", "total")

    def __init__(self, bounds: Iterable[float]) -> None:
        self.bounds = tuple(bounds)
        self.total = 0.0
        self._counts = [0] * (len(self.bounds) + 1)
        self._largest = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Count one sample, or as many that are alike."""
        self._counts[bisect_left(self.bounds, value)] += times
        self.total += value * times
        if value > self._largest:  # noqa: PLR1730  # max() would cost as much as the bisection
            self._largest = value

    def observe_all(self, values: Sequence[float]) -> None:
        """Count the samples of a group: half the cost of one call each."""
        if not values:
            return
        counts, bounds = self._counts, self.bounds
        for value in values:
            counts[bisect_left(bounds, value)] += 1
        self.total += sum(values)
        self._largest = max(self._largest, *values)

    @property
    def count(self) -> int:
        """Number of samples. O(buckets)."""
        return sum(self._counts)

    def cumulative(self) -> list[int]:
        """Count the samples up to each bound, and at the end all of them. O(buckets).

        Safe to call from another thread than the one that observes.
        """
        return list(accumulate(self._counts[:]))

    def quantile(self, fraction: float) -> float | None:
        """Return the value below which a fraction of the samples lies; None if there are none.

        The answer is off by at most half the width of its bucket; above the last bound, by the
        distance to the largest sample. O(buckets).

        Raises:
            ValueError: The fraction is not within 0..1.
        """
        if not 0 <= fraction <= 1:
            raise ValueError(f"a quantile is a fraction in 0..1, got {fraction!r}")
        cumulative = self.cumulative()
        if not cumulative[-1]:
            return None
        rank = max(1, -int(-fraction * cumulative[-1] // 1))
        bucket = bisect_left(cumulative, rank)
        if bucket == len(self.bounds):
            return self._largest
        upper = self.bounds[bucket]
        lower = self.bounds[bucket - 1] if bucket else 0.0
        # The harmonic mean of the bounds has the smallest relative error at both of them.
        middle = 2 * lower * upper / (lower + upper) if lower else upper
        return min(middle, self._largest)


def _decades(first: int, last: int) -> list[float]:
    """Return bounds from 10**first to 10**last, each at most a tenth above the one before."""
    mantissas = [*range(100, 250, 10), *range(250, 500, 25), *range(500, 1000, 50)]
    decades = range(first, last)
    bounds = [float(f"{m}e{exponent - 2}") for exponent in decades for m in mantissas]
    return [*bounds, 10.0**last]


LATENCY_BOUNDS: Final = tuple(_decades(-7, 3))
"""100 ns to 1 000 s, ratio at most 1.1, so a percentile is off by less than 5 %."""

BATCH_BOUNDS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 512)


class LatencyHistogram(Histogram):
    """A histogram of seconds, 100 ns to 1 000 s, with percentiles within 5 %."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(LATENCY_BOUNDS)
