"""Mission: duration of the voyage, number of people, and speed regime.

Method: definitions. Valid for any mission.
"""

import math
from collections.abc import Mapping
from typing import Final

from placet.schemas.codec import Json
from placet_design.phases.dimensions import LENGTH
from placet_design.phases.phase import (
    INCONSISTENT,
    Flag,
    PhaseOutcome,
    assumed,
    declare,
    required,
)
from placet_design.phases.sea import GRAVITY_M_PER_S2, KNOT_M_PER_S

METHOD: Final = "mission-definitions"
DISPLACEMENT_FROUDE_MAX: Final = 0.4
PLANING_FROUDE_MIN: Final = 1.0


def endurance_h(range_nm: float, speed_kts: float) -> float:
    """Return the time to cover the range, t = R / V, in hours."""
    return range_nm / speed_kts


def froude(speed_kts: float, length_m: float) -> float:
    """Return the Froude number Fn = V / √(gL), from a speed in knots."""
    return speed_kts * KNOT_M_PER_S / math.sqrt(GRAVITY_M_PER_S2 * length_m)


def regime(froude_number: float) -> str:
    """Return the regime by Froude number.

    Below 0.4 displacement, to 1.0 semi_displacement, above it planing.
    """
    if froude_number < DISPLACEMENT_FROUDE_MAX:
        return "displacement"
    return "semi_displacement" if froude_number <= PLANING_FROUDE_MIN else "planing"


def _compute(values: Mapping[str, Json]) -> PhaseOutcome:
    cruise_kts, max_kts = values["cruise_speed_kts"], values["max_speed_kts"]
    hours = endurance_h(values["range_nm"], cruise_kts)
    froude_cruise = froude(cruise_kts, values["length_m"])
    froude_max = froude(max_kts, values["length_m"])
    outputs = {
        "endurance_h": hours,
        "complement": values["crew_berthed"] + values["passengers"],
        "froude_cruise": froude_cruise,
        "froude_max": froude_max,
        "regime_cruise": regime(froude_cruise),
        "regime_max": regime(froude_max),
    }
    return PhaseOutcome(outputs, _cruise_above_max(cruise_kts, max_kts), METHOD)


def _cruise_above_max(cruise_kts: float, max_kts: float) -> tuple[Flag, ...]:
    if cruise_kts <= max_kts:
        return ()
    message = (
        f"the cruise speed, {cruise_kts:g} kts, is above the max speed, {max_kts:g} kts; "
        "lower the one or raise the other"
    )
    return (Flag(INCONSISTENT, message, "mission.cruise_speed_kts"),)


MISSION: Final = declare(
    "mission",
    METHOD,
    (),
    (
        LENGTH,
        required("mission.range_nm", "range_nm"),
        required("mission.cruise_speed_kts", "cruise_speed_kts"),
        required("mission.max_speed_kts", "max_speed_kts"),
        assumed("crew_berthed", 0, 0, 1e6, "none is set", path="mission.crew_berthed"),
        assumed("passengers", 0, 0, 1e6, "none is set", path="mission.passengers"),
    ),
    _compute,
)
