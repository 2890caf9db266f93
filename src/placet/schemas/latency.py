"""Latency models of observations, in simulated seconds."""

from dataclasses import dataclass, fields
from math import isfinite
from typing import Final, TypeAlias

from placet.schemas.keywords import explain_keywords
from placet.schemas.limits import SECOND_NS

_DELAY_NS_MAX: Final = 1 << 62
"""A longer delay ends after the end of simulated time, in a world of any age."""


@dataclass(frozen=True, slots=True)
class Constant:
    """Every observation is delivered a constant number of simulated seconds late."""

    seconds: float

    def __post_init__(self) -> None:
        _check(self)


@dataclass(frozen=True, slots=True)
class Uniform:
    """Every commit is delivered after a random delay, uniform from `least` to `most` seconds.

    The delay is drawn from the world's seed, so a world run again has the same delays. A commit
    with a shorter delay than an earlier one waits for it, so order is kept.

    Attributes:
        least: Shortest delay, simulated seconds; 0 or more.
        most: Longest delay, simulated seconds; at least `least`.

    Raises:
        ValueError: A delay is negative or not finite, or `most` is less than `least`.
    """

    least: float
    most: float

    def __post_init__(self) -> None:
        _check(self)
        if self.most < self.least:
            raise ValueError(f"a latency goes from least to most, got {self.least} and {self.most}")


@explain_keywords
@dataclass(frozen=True, slots=True, kw_only=True)
class ByDistance:
    """Latency grows with distance: `base` seconds, plus `per_unit` for each unit of distance.

    The distance is that of the domain's visibility policy from the agent's own entity; an entity
    without a position has distance 0.
    """

    per_unit: float
    base: float = 0.0

    def __post_init__(self) -> None:
        _check(self)


Latency: TypeAlias = Constant | Uniform | ByDistance


def delay_ns(latency: Latency, chance: float, distance: float) -> int:
    """Return the delay of a delivery, in simulated nanoseconds.

    Args:
        latency: The model.
        chance: Random number in [0, 1); used by `Uniform`.
        distance: Distance from the agent; used by `ByDistance`.
    """
    return round(min(_delay_s(latency, chance, distance) * SECOND_NS, _DELAY_NS_MAX))


def _delay_s(latency: Latency, chance: float, distance: float) -> float:
    if isinstance(latency, Constant):
        return latency.seconds
    if isinstance(latency, Uniform):
        return latency.least + chance * (latency.most - latency.least)
    return latency.base + latency.per_unit * distance


def _check(latency: Latency) -> None:
    for field in fields(latency):
        value = getattr(latency, field.name)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (is_number and isfinite(value) and value >= 0):
            raise ValueError(f"{field.name} must be finite seconds >= 0, got {value!r}")
