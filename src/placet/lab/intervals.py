"""Confidence intervals: of a proportion, and of the mean of paired differences."""

from collections.abc import Iterable, Sequence
from math import atan, cos, isfinite, pi, sin, sqrt
from statistics import NormalDist, mean, stdev
from typing import Final, NamedTuple

LEVEL: Final = 0.95


class Interval(NamedTuple):
    """A two-sided confidence interval, both ends included."""

    low: float
    high: float


def is_finite(value: object) -> bool:
    """Return whether a cell of a table is a number, and neither NaN nor infinite as a float."""
    try:
        return isinstance(value, int | float) and isfinite(value)
    except OverflowError:  # an integer above the largest float
        return False


def not_finite(values: Iterable[object]) -> int:
    """Return how many of the cells of a column are NaN or infinite."""
    return sum(isinstance(value, float) and not isfinite(value) for value in values)


def left_out_note(count: int) -> str:
    """Return a clause about the values that a figure leaves out; empty if there is none."""
    return f"; {count} not finite, left out" if count else ""


def wilson(hits: int, count: int, level: float = LEVEL) -> Interval:
    """Return the score interval of a proportion of `hits` in `count` independent trials.

    It stays within 0..1 and is sound for few trials, and for none or all of them as hits.

    Source: Wilson, J. Am. Stat. Assoc. 22 (1927).
    """
    z = NormalDist().inv_cdf((1 + level) / 2)
    share, spread = hits / count, z * z / count
    center = (share + spread / 2) / (1 + spread)
    half = z * sqrt(share * (1 - share) / count + spread / (4 * count)) / (1 + spread)
    return Interval(max(0.0, center - half), min(1.0, center + half))


def mean_interval(values: Sequence[float], level: float = LEVEL) -> Interval:
    """Return Student's t interval of a mean; `values` are at least two.

    Raises:
        ValueError: There are fewer than two values.
    """
    if len(values) < 2:  # noqa: PLR2004  # one value has no spread
        raise ValueError(f"an interval of a mean needs two values at least, got {len(values)}")
    half = t_quantile((1 + level) / 2, len(values) - 1) * stdev(values) / sqrt(len(values))
    center = mean(values)
    return Interval(center - half, center + half)


def t_quantile(probability: float, freedom: int) -> float:
    """Return the quantile of Student's t distribution, for a probability above 1/2.

    Source: bisection on the closed form of the distribution function for whole degrees of
    freedom, Abramowitz & Stegun 26.7.3 and 26.7.4.
    """
    low, high = 0.0, 1.0
    while _t_within(high, freedom) < 2 * probability - 1:
        high *= 2
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        if middle in {low, high}:
            break
        if _t_within(middle, freedom) < 2 * probability - 1:
            low = middle
        else:
            high = middle
    return high


def _t_within(t: float, freedom: int) -> float:
    """Return the probability that a t-distributed value lies between -t and t."""
    angle = atan(t / sqrt(freedom))
    sine, cosine = sin(angle), cos(angle)
    is_odd = freedom % 2
    term = cosine if is_odd else 1.0
    total = 0.0
    for power in range(1 + is_odd, freedom, 2):  # freedom // 2 terms
        total += term
        term *= cosine * cosine * power / (power + 1)
    if is_odd:
        return 2 / pi * (angle + sine * total)
    return sine * total
