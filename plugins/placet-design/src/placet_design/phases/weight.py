"""Weight: lightship by groups, consumables of the voyage, and the remaining deadweight.

Sources: Watson & Gilfillan, *Some ship design methods*, Trans. RINA 119 (1977), and Parsons, ch. 11
of *Ship Design and Construction* (SNAME 2003). Valid for steel ships: K is from steel ships, and
another material needs a different K.
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
    OutOfRangeError,
    PhaseOutcome,
    assumed,
    assumed_word,
    declare,
    required,
    result,
)

METHOD: Final = "watson-gilfillan-1977"
STEEL_FACTOR: Final = 0.045
FUEL_RESERVE: Final = 1.05
WATER_T_PER_PERSON_DAY: Final = 0.17
CREW_T_PER_PERSON: Final = 0.17
PROVISIONS_T_PER_PERSON_DAY: Final = 0.01
HOURS_PER_DAY: Final = 24.0


def equipment_numeral_m2(
    length_m: float,
    beam_m: float,
    draft_m: float,
    depth_m: float,
    superstructure_m2: float = 0.0,
) -> float:
    """Return Lloyd's numeral E = L(B + T) + 0.85·L(D - T) + superstructures. Source: W&G 1977.

    Args:
        length_m: L.
        beam_m: B.
        draft_m: T.
        depth_m: D.
        superstructure_m2: 0.85·Σl₁h₁ of full width + 0.75·Σl₂h₂ of deckhouses.
    """
    sides = 0.85 * length_m * (depth_m - draft_m)
    return length_m * (beam_m + draft_m) + sides + superstructure_m2


def block_at_depth(block_coefficient: float, draft_m: float, depth_m: float) -> float:
    """Return Cb' = Cb + (1 - Cb)(0.8·D - T)/(3·T), at 0.8 of the depth. Source: W&G 1977."""
    rise = (0.8 * depth_m - draft_m) / (3.0 * draft_m)
    return block_coefficient + (1.0 - block_coefficient) * rise


def structure_weight_t(numeral_m2: float, block: float, steel_factor: float) -> float:
    """Return the weight of the steel, W_S = K·E^1.36·[1 + 0.5(Cb' - 0.70)]. Source: W&G 1977.

    Raises:
        OutOfRangeError: The numeral or the correction for Cb' is not positive.
    """
    correction = 1.0 + 0.5 * (block - 0.70)
    if numeral_m2 <= 0 or correction <= 0:
        message = (
            f"E is {numeral_m2:.4g} m² and 1 + 0.5(Cb' - 0.70) is {correction:.4g}; Watson & "
            "Gilfillan need both positive"
        )
        raise OutOfRangeError("equipment_numeral_m2", message)
    return float(steel_factor * math.pow(numeral_m2, 1.36) * correction)


def machinery_weight_t(installed_power_kw: float) -> float:
    """Return W_M = 0.72·MCR^0.78, of medium-speed diesels. Source: Parsons."""
    return 0.72 * math.pow(installed_power_kw, 0.78)


def fuel_t(power_kw: float, sfc_g_per_kwh: float, hours: float) -> float:
    """Return the weight of the fuel, W_F = P·SFC·t·1.05·10⁻⁶, with a reserve of 5 %.

    Source: Parsons; SFC 190 to 215 g/kWh.
    """
    return power_kw * sfc_g_per_kwh * hours * FUEL_RESERVE * 1e-6


def lightship(
    *,
    length_m: float,
    beam_m: float,
    draft_m: float,
    depth_m: float,
    block_coefficient: float,
    installed_power_kw: float,
    steel_factor: float,
    outfit_t_per_m2: float,
    weight_margin: float,
    superstructure_m2: float = 0.0,
) -> dict[str, float]:
    """Return the weight groups of the empty ship and their sum.

    Raises:
        OutOfRangeError: Raised by `structure_weight_t`.
    """
    numeral = equipment_numeral_m2(length_m, beam_m, draft_m, depth_m, superstructure_m2)
    block = block_at_depth(block_coefficient, draft_m, depth_m)
    structure = structure_weight_t(numeral, block, steel_factor)
    machinery = machinery_weight_t(installed_power_kw)
    outfit = outfit_t_per_m2 * length_m * beam_m
    margin = weight_margin * (structure + machinery + outfit)
    return {
        "equipment_numeral_m2": numeral,
        "block_at_depth": block,
        "structure_weight_t": structure,
        "machinery_weight_t": machinery,
        "outfit_weight_t": outfit,
        "margin_t": margin,
        "lightship_t": structure + machinery + outfit + margin,
    }


_LIGHTSHIP: Final = (
    LENGTH,
    BEAM,
    DRAFT,
    DEPTH,
    BLOCK,
    required("propulsion.total_installed_power_kw", "installed_power_kw"),
    assumed(
        "steel_factor", STEEL_FACTOR, 0.01, 0.10, "K of W&G 1977: 0.041 to 0.051, offshore vessels"
    ),
    assumed("outfit_t_per_m2", 0.25, 0.0, 2.0, "C_o of Parsons: 0.2 to 0.45 t/m²"),
    assumed("weight_margin", 0.05, 0.0, 0.5, "Parsons: 3 to 10 %"),
    assumed("superstructure_m2", 0.0, 0.0, 1e5, "none is described; 0.85·Σl₁h₁ + 0.75·Σl₂h₂"),
)


def _compute(values: Mapping[str, Json]) -> PhaseOutcome:
    empty = lightship(**{reading.name: values[reading.name] for reading in _LIGHTSHIP})
    people, hours = values["complement"], values["endurance_h"]
    person_days = people * hours / HOURS_PER_DAY
    loads = {
        "fuel_t": fuel_t(values["cruise_service_power_kw"], values["sfc_g_per_kwh"], hours),
        "fresh_water_t": WATER_T_PER_PERSON_DAY * person_days,
        "crew_and_effects_t": CREW_T_PER_PERSON * people,
        "provisions_t": PROVISIONS_T_PER_PERSON_DAY * person_days,
        "payload_t": values["payload_t"],
    }
    spare = values["displacement_t"] - empty["lightship_t"] - sum(loads.values())
    outputs = {**empty, **loads, "spare_deadweight_t": spare}
    return PhaseOutcome(
        outputs, tuple(_flags(values["hull_material"], values["steel_factor"], spare)), METHOD
    )


def _flags(material: str, steel_factor: float, spare_t: float) -> list[Flag]:
    flags = []
    if material != "steel" and steel_factor == STEEL_FACTOR:
        message = (
            f"Watson & Gilfillan's K is of steel ships and the hull is of {material}; set "
            "assumptions.steel_factor to one of its own"
        )
        flags.append(Flag(OUT_OF_RANGE, message, "structural_design.hull_material"))
    if spare_t < 0:
        message = (
            f"the ship and its loads weigh {-spare_t:.4g} t more than it displaces; make it "
            "larger, or its range, power or complement smaller"
        )
        flags.append(Flag(NOT_MET, message, "spare_deadweight_t"))
    return flags


WEIGHT: Final = declare(
    "weight",
    METHOD,
    ("mission", "hull", "propulsion"),
    (
        *_LIGHTSHIP,
        result("mission:endurance_h", "endurance_h"),
        result("mission:complement", "complement"),
        result("hull:displacement_t", "displacement_t"),
        result("propulsion:cruise_service_power_kw", "cruise_service_power_kw"),
        assumed("sfc_g_per_kwh", 205.0, 100.0, 500.0, "Parsons: 190 to 215 g/kWh"),
        assumed("payload_t", 0.0, 0.0, 1e6, "none is set"),
        assumed_word(
            "hull_material",
            "steel",
            "Watson & Gilfillan's K is of steel ships",
            path="structural_design.hull_material",
        ),
    ),
    _compute,
)
