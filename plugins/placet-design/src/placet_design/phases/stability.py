"""Stability: the height of the center of gravity, GM, the righting lever, the period of roll.

Sources: Kupras and Watson & Gilfillan, both in Parsons, ch. 11 of *Ship Design and Construction*
(SNAME 2003), for KG; the wall-sided formula of *Principles of Naval Architecture*, valid to the
angle at which the edge of the deck goes under; IMO 2008 IS Code, part A 2.3, for the roll.
"""

import math
from collections.abc import Mapping
from typing import Final

from placet.schemas.codec import Json
from placet_design.phases.dimensions import BEAM, BLOCK, DEPTH, DRAFT, LENGTH
from placet_design.phases.phase import (
    NOT_MET,
    OUT_OF_RANGE,
    Flag,
    PhaseOutcome,
    assumed,
    declare,
    result,
)

METHOD: Final = "wall-sided-parsons"
FREE_SURFACE_FACTOR: Final = 1.03
"""KG is raised by 3 % for the free surfaces of tanks."""
DEADWEIGHT_KG_PER_DEPTH: Final = 0.6
ANGLES_DEG: Final = (5, 10, 15, 20, 25, 30, 35, 40)


def kg_hull_m(length_m: float, beam_m: float, depth_m: float, block_coefficient: float) -> float:
    """Return KG of the structure: its center of gravity above the keel, in m.

    Source: Kupras, in Parsons.

    0.01·D·[46.6 + 0.135(0.81 - Cb)(L/D)²], to 120 m with + 0.008·D·(L/B - 6.5). Some public codes
    have L/D in the last term; Parsons has L/B, and the worked example closes with it.
    """
    slender = 0.135 * (0.81 - block_coefficient) * (length_m / depth_m) ** 2
    kg = 0.01 * depth_m * (46.6 + slender)
    if length_m <= 120.0:
        kg += 0.008 * depth_m * (length_m / beam_m - 6.5)
    return kg


def kg_machinery_m(depth_m: float, double_bottom_m: float) -> float:
    """Return KG of the machinery, h_db + 0.35(D' - h_db), in m. Source: W&G, in Parsons."""
    return double_bottom_m + 0.35 * (depth_m - double_bottom_m)


def kg_outfit_m(length_m: float, depth_m: float) -> float:
    """Return KG of the outfit, in m: D + 1.25 up to L 125 m, rising to D + 2.5 at 250 m.

    Source: W&G.
    """
    return depth_m + 1.25 + 0.01 * min(max(length_m - 125.0, 0.0), 125.0)


def gm_m(metacenter_height_m: float, kg_m: float) -> float:
    """Return GM = KM - 1.03·KG, in m, with an allowance of 3 % for free surfaces."""
    return metacenter_height_m - FREE_SURFACE_FACTOR * kg_m


def righting_lever_m(angle_deg: float, gm: float, bm: float) -> float:
    """Return GZ = sin φ·(GM + ½·BM·tan²φ), in m. Valid below the deck-edge angle. Source: PNA."""
    angle = math.radians(angle_deg)
    return math.sin(angle) * (gm + 0.5 * bm * math.tan(angle) ** 2)


def righting_area_m_rad(angle_deg: float, gm: float, bm: float) -> float:
    """Return the area under GZ up to an angle: GM(1 - cos φ) + ½·BM(sec φ + cos φ - 2).

    Valid below the deck-edge angle.
    """
    cosine = math.cos(math.radians(angle_deg))
    return gm * (1.0 - cosine) + 0.5 * bm * (1.0 / cosine + cosine - 2.0)


def deck_edge_angle_deg(freeboard_m: float, beam_m: float) -> float:
    """Return the heel at which the deck's edge meets the water, φ_d = atan(2(D - T)/B)."""
    return math.degrees(math.atan(2.0 * freeboard_m / beam_m))


def roll_coefficient(beam_m: float, draft_m: float, length_m: float) -> float:
    """Return C = 0.373 + 0.023·B/T - 0.043·L/100. Source: IMO 2008 IS Code, part A 2.3."""
    return 0.373 + 0.023 * beam_m / draft_m - 0.043 * length_m / 100.0


def roll_period_s(coefficient: float, beam_m: float, gm: float) -> float:
    """Return the roll period T = 2·C·B/√GM, in s. GM and C are positive.

    Source: IMO 2008 IS Code, part A 2.3.
    """
    return 2.0 * coefficient * beam_m / math.sqrt(gm)


def _compute(values: Mapping[str, Json]) -> PhaseOutcome:
    gravity = _centers_of_gravity(values)
    gm, bm = gm_m(values["metacenter_height_m"], gravity["kg_m"]), values["metacentric_radius_m"]
    coefficient = roll_coefficient(values["beam_m"], values["draft_m"], values["length_m"])
    edge = deck_edge_angle_deg(values["freeboard_m"], values["beam_m"])
    outputs = {
        **gravity,
        "gm_m": gm,
        "deck_edge_angle_deg": edge,
        "roll_coefficient": coefficient,
        "roll_period_s": roll_period_s(coefficient, values["beam_m"], gm)
        if gm > 0 and coefficient > 0
        else None,
        "righting_levers": [
            {
                "angle_deg": angle,
                "gz_m": righting_lever_m(angle, gm, bm),
                "area_m_rad": righting_area_m_rad(angle, gm, bm),
                "is_valid": angle <= edge,
            }
            for angle in ANGLES_DEG
        ],
    }
    return PhaseOutcome(outputs, tuple(_flags(values, gm, coefficient)), METHOD)


def _centers_of_gravity(values: Mapping[str, Json]) -> dict[str, float]:
    """Return KG by groups, of the lightship (its margin at its own KG), and of the loaded ship."""
    depth, length = values["depth_m"], values["length_m"]
    double_bottom = values["double_bottom_m"]
    hull = kg_hull_m(length, values["beam_m"], depth, values["block_coefficient"])
    machinery = kg_machinery_m(depth, double_bottom)
    outfit = kg_outfit_m(length, depth)
    groups = (
        (values["structure_weight_t"], hull),
        (values["machinery_weight_t"], machinery),
        (values["outfit_weight_t"], outfit),
    )
    empty = _mean(groups)
    fuel, lightship = values["fuel_t"], values["lightship_t"]
    weight = values["displacement_t"] + max(0.0, -values["spare_deadweight_t"])
    rest = weight - lightship - fuel
    loaded = _mean(
        (
            (lightship, empty),
            (fuel, double_bottom / 2.0),
            (rest, DEADWEIGHT_KG_PER_DEPTH * depth),
        )
    )
    return {
        "kg_hull_m": hull,
        "kg_machinery_m": machinery,
        "kg_outfit_m": outfit,
        "kg_lightship_m": empty,
        "kg_m": loaded,
    }


def _mean(weights: tuple[tuple[float, float], ...]) -> float:
    return sum(weight * height for weight, height in weights) / sum(w for w, _ in weights)


def _flags(values: Mapping[str, Json], gm: float, coefficient: float) -> list[Flag]:
    flags = []
    if gm <= 0:
        message = (
            f"GM is {gm:.4g} m: the ship does not float upright; widen it or lower its weights"
        )
        flags.append(Flag(NOT_MET, message, "gm_m"))
    if coefficient <= 0:
        message = (
            f"the roll coefficient comes out at {coefficient:.4g}; the formula of the IS Code "
            "needs L/100 below (0.373 + 0.023·B/T)/0.043"
        )
        flags.append(Flag(OUT_OF_RANGE, message, "roll_coefficient"))
    if values["double_bottom_m"] >= values["depth_m"]:
        message = (
            f"the double bottom is {values['double_bottom_m']:g} m high and the depth is "
            f"{values['depth_m']:g} m; it must be below it"
        )
        flags.append(Flag(OUT_OF_RANGE, message, "assumptions.double_bottom_m"))
    if values["spare_deadweight_t"] < 0:
        message = (
            "the weights exceed the displacement: KG is taken over the weights, and the rest at "
            "the design draft, at which the ship would not float"
        )
        flags.append(Flag(OUT_OF_RANGE, message, "weight:spare_deadweight_t"))
    return flags


STABILITY: Final = declare(
    "stability",
    METHOD,
    ("hull", "weight"),
    (
        LENGTH,
        BEAM,
        DRAFT,
        DEPTH,
        BLOCK,
        result("hull:metacenter_height_m", "metacenter_height_m"),
        result("hull:metacentric_radius_m", "metacentric_radius_m"),
        result("hull:freeboard_m", "freeboard_m"),
        result("hull:displacement_t", "displacement_t"),
        result("weight:structure_weight_t", "structure_weight_t"),
        result("weight:machinery_weight_t", "machinery_weight_t"),
        result("weight:outfit_weight_t", "outfit_weight_t"),
        result("weight:lightship_t", "lightship_t"),
        result("weight:fuel_t", "fuel_t"),
        result("weight:spare_deadweight_t", "spare_deadweight_t"),
        assumed("double_bottom_m", 1.0, 0.0, 10.0, "h_db, a usual double bottom"),
    ),
    _compute,
)
