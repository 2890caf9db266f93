"""The share of continuations from one state in which an outcome occurs, with its interval."""

from typing import NamedTuple

from placet.lab.intervals import Interval, wilson
from placet.schemas.codec import Json


class Point(NamedTuple):
    """P(outcome | state), estimated from continuations with other seeds.

    Attributes:
        tick: Number of completed ticks of the state.
        hits: Number of continuations in which the outcome occurs.
        seeds: Number of continuations.
    """

    tick: int
    hits: int
    seeds: int

    @property
    def share(self) -> float:
        """The estimate, 0..1."""
        return self.hits / self.seeds

    @property
    def interval(self) -> Interval:
        """Wilson's interval of the estimate, at 95 %."""
        return wilson(self.hits, self.seeds)

    def side(self, threshold: float) -> int:
        """Return 1 if the interval lies above a threshold, -1 if below it, 0 if around it."""
        low, high = self.interval
        return (low > threshold) - (high < threshold)

    def as_dict(self) -> dict[str, Json]:
        """Return the point as a row of a table."""
        low, high = self.interval
        return {
            "tick": self.tick,
            "p": self.share,
            "low": round(low, 6),
            "high": round(high, 6),
            "hits": self.hits,
            "seeds": self.seeds,
        }
