"""How fast simulated time runs under load: as much slower as more waits than should.

What the agents of a simulation offer, they offer in its time. So a world that cannot keep up is
helped by a slower time as by nothing else: the same is asked of it, spread over more real seconds,
and nothing needs to be refused. The factor is the wait that should be, over the wait that is; it
settles where as much comes as can be decided.

    Source: "time dilation" of EVE Online (CCP Games, 2011), which slows a crowded star system.
    The wait is told ahead, from what is there and how fast it goes (Little's law), not by the
    age of what leaves: that is as old as the queue is long, and a loop about it swings.
"""

from math import exp
from typing import Final

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
        """Move the factor towards what a wait calls for, and give it.

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
