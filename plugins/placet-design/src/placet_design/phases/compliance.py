"""Compliance: the intact stability criteria of the IMO 2008 IS Code, part A 2.2.

A criterion is met, not met, or not assessable: beyond the deck-edge angle the wall-sided formula is
not valid, and its result there is shown but not asserted.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

from placet.schemas.codec import Json
from placet_design.phases.phase import (
    NOT_ASSESSABLE,
    NOT_MET,
    Flag,
    PhaseOutcome,
    assumed,
    declare,
    result,
)
from placet_design.phases.stability import righting_area_m_rad, righting_lever_m

METHOD: Final = "imo-2008-is-code-a-2.2"
MET: Final = "met"
GM_M_MIN: Final = 0.15
AREA_30_MIN: Final = 0.055
AREA_40_MIN: Final = 0.090
AREA_30_TO_40_MIN: Final = 0.030
LEVER_M_MIN: Final = 0.20
LEVER_ANGLE_DEG: Final = 30.0
PEAK_ANGLE_DEG_MIN: Final = 25.0


@dataclass(frozen=True, slots=True)
class Criterion:
    """One requirement: `actual` at least `required`, and whether that can be asserted.

    `actual` of a criterion that is not assessable is the formula's result outside its validity.
    """

    name: str
    unit: str
    required: float
    actual: float
    status: str


def criteria(gm: float, bm: float, deck_edge_deg: float, gm_required_m: float) -> list[Criterion]:
    """Return the stability criteria with their values. Lengths in m, areas in m·rad, angles in °.

    GZ rises up to the deck-edge angle when GM is positive, so its maximum is no earlier than that.
    """
    area_30, area_40 = (righting_area_m_rad(angle, gm, bm) for angle in (30.0, 40.0))
    lever_deg = max(LEVER_ANGLE_DEG, deck_edge_deg)
    return [
        _judged("gm", "m", max(GM_M_MIN, gm_required_m), gm),
        _judged("area_0_30", "m·rad", AREA_30_MIN, area_30, deck_edge_deg >= 30.0),
        _judged("area_0_40", "m·rad", AREA_40_MIN, area_40, deck_edge_deg >= 40.0),
        _judged("area_30_40", "m·rad", AREA_30_TO_40_MIN, area_40 - area_30, deck_edge_deg >= 40.0),
        _judged(
            "gz_from_30",
            "m",
            LEVER_M_MIN,
            righting_lever_m(lever_deg, gm, bm),
            deck_edge_deg >= LEVER_ANGLE_DEG,
        ),
        _judged(
            "angle_of_max_gz",
            "deg",
            PEAK_ANGLE_DEG_MIN,
            deck_edge_deg,
            gm > 0 and deck_edge_deg >= PEAK_ANGLE_DEG_MIN,
        ),
    ]


def _judged(
    name: str, unit: str, needed: float, actual: float, is_assessable: bool = True
) -> Criterion:
    status = NOT_ASSESSABLE
    if is_assessable:
        status = MET if actual >= needed else NOT_MET
    return Criterion(name, unit, needed, actual, status)


def _overall(results: list[Criterion]) -> str:
    """Return the overall status: `not met` before `not assessable` before `met`."""
    statuses = [criterion.status for criterion in results]
    return next((status for status in (NOT_MET, NOT_ASSESSABLE) if status in statuses), MET)


def _flag(criterion: Criterion, deck_edge_deg: float) -> Flag:
    name, actual, unit = criterion.name, criterion.actual, criterion.unit
    if criterion.status == NOT_MET:
        message = f"{name} is {actual:.4g} {unit}, must be at least {criterion.required:g} {unit}"
    else:
        message = (
            f"{name} is not assessable by the wall-sided formula, which holds to the deck-edge "
            f"angle of {deck_edge_deg:.4g} deg"
        )
    return Flag(criterion.status, message, name)


def _compute(values: Mapping[str, Json]) -> PhaseOutcome:
    edge = values["deck_edge_angle_deg"]
    results = criteria(
        values["gm_m"], values["metacentric_radius_m"], edge, values["gm_required_m"]
    )
    outputs = {
        "status": _overall(results),
        "criteria": [asdict(criterion) for criterion in results],
    }
    flags = tuple(_flag(criterion, edge) for criterion in results if criterion.status != MET)
    return PhaseOutcome(outputs, flags, METHOD)


COMPLIANCE: Final = declare(
    "compliance",
    METHOD,
    ("stability",),
    (
        result("stability:gm_m", "gm_m"),
        result("stability:deck_edge_angle_deg", "deck_edge_angle_deg"),
        result("hull:metacentric_radius_m", "metacentric_radius_m"),
        assumed(
            "gm_required_m", GM_M_MIN, 0.0, 100.0, "IS Code A 2.2.4", path="mission.gm_required_m"
        ),
    ),
    _compute,
)
