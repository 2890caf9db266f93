"""Convert resistance to engine power at one speed; find the speed that a power allows.

P_D = P_E/QPC, P_S = P_D/η_S, P_B = P_S·(1 + sea margin)/MCR fraction. Source: textbook definitions.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from placet_design.phases.phase import OutOfRangeError

SPEED_KTS_MIN: Final = 1.0
SPEED_KTS_MAX: Final = 60.0
"""Between these an attainable speed is looked for: the bounds of mission.max_speed_kts."""
_STEP_KTS: Final = 0.5
_HALVINGS: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Drive:
    """The drive train between the propeller and the engine's nameplate.

    Attributes:
        shaft_efficiency: η_S, 0.97 to 0.99.
        sea_margin: Power added for wind, waves and fouling, as a fraction.
        mcr_fraction: Part of the installed power that is used in service, 0.85 to 0.90.
    """

    shaft_efficiency: float
    sea_margin: float
    mcr_fraction: float

    def shaft_kw(self, effective_kw: float, quasi_propulsive_coefficient: float) -> float:
        """Return P_S, the shaft power in calm water, in kW."""
        return effective_kw / quasi_propulsive_coefficient / self.shaft_efficiency

    def service_kw(self, shaft_kw: float) -> float:
        """Return the shaft power with the sea margin, in kW, which determines fuel consumption."""
        return shaft_kw * (1.0 + self.sea_margin)

    def brake_kw(self, shaft_kw: float) -> float:
        """Return P_B, the engine power to install for this shaft power in calm water, in kW."""
        return self.service_kw(shaft_kw) / self.mcr_fraction


def attainable_speed_kts(required_kw: Callable[[float], float], installed_kw: float) -> float:
    """Find the lowest speed at which the required power is the installed power.

    The speed is bracketed in steps of 0.5 kts, because humps make the power curve uneven, and then
    bisected.

    Raises:
        OutOfRangeError: No speed between 1 and 60 kts requires that power.
    """
    slower = SPEED_KTS_MIN
    if required_kw(slower) > installed_kw:
        message = f"{installed_kw:g} kW do not reach {slower:g} kts, the least speed looked for"
        raise OutOfRangeError("attainable_speed_kts", message)
    for faster in _speeds_kts():
        if required_kw(faster) >= installed_kw:
            return _bisected(required_kw, installed_kw, slower, faster)
        slower = faster
    message = f"{installed_kw:g} kW allow more than {SPEED_KTS_MAX:g} kts, the most looked for"
    raise OutOfRangeError("attainable_speed_kts", message)


def _speeds_kts() -> Iterator[float]:
    steps = round((SPEED_KTS_MAX - SPEED_KTS_MIN) / _STEP_KTS)
    return (SPEED_KTS_MIN + step * _STEP_KTS for step in range(1, steps + 1))


def _bisected(
    required_kw: Callable[[float], float], installed_kw: float, slower: float, faster: float
) -> float:
    for _ in range(_HALVINGS):
        middle = (slower + faster) / 2.0
        if required_kw(middle) < installed_kw:
            slower = middle
        else:
            faster = middle
    return (slower + faster) / 2.0


def admiralty_coefficient(displacement_t: float, speed_kts: float, power_kw: float) -> float:
    """Return the Admiralty coefficient Δ^⅔·V³/P (t, kts, kW): 300 to 700 for most ships."""
    return math.pow(displacement_t, 2.0 / 3.0) * speed_kts**3 / power_kw
