"""Hull: hydrostatics of a hull from its main dimensions and coefficients.

Method: Parsons, *Parametric Design*, ch. 11 of *Ship Design and Construction* (SNAME 2003), for
the waterplane, the center of buoyancy (Morrish/Normand) and the inertia of the waterplane
(D'Arcangelo). Valid for hulls of average form, upright, at even keel.
"""

import math
from collections.abc import Mapping
from typing import Final

from placet.schemas.codec import Json
from placet_design.phases.dimensions import (
    BEAM,
    BLOCK,
    DENSITY,
    DEPTH,
    DRAFT,
    HULL_TYPE,
    LENGTH,
    MIDSHIP,
    SINGLE_HULLS,
)
from placet_design.phases.phase import (
    INCONSISTENT,
    OUT_OF_RANGE,
    Flag,
    PhaseOutcome,
    declare,
    optional,
)
from placet_design.phases.sea import DENSITY_T_PER_M3

METHOD: Final = "parsons-hydrostatics"
PRISMATIC_TOLERANCE: Final = 0.01
"""How far a given prismatic coefficient may be from Cb/Cm, as a fraction of it."""
KG_PER_DEPTH: Final = 0.65
"""Center of gravity as a fraction of the depth, assumed for the moment to change trim."""


def waterplane_coefficient(block_coefficient: float) -> float:
    """Return the waterplane coefficient, (1 + 2·Cb)/3. Source: Parsons, for average hulls."""
    return (1.0 + 2.0 * block_coefficient) / 3.0


def center_of_buoyancy_m(draft_m: float, block: float, waterplane: float) -> float:
    """Return KB, the height of the center of buoyancy above the keel, in m.

    KB = T·(5/6 - Cb/(3·Cwp)); T/2 for a box. Source: Morrish/Normand.
    """
    return draft_m * (5.0 / 6.0 - block / (3.0 * waterplane))


def transverse_inertia_coefficient(waterplane: float) -> float:
    """Return C_I = 0.1216·Cwp - 0.0410, of I_T = C_I·L·B³. Source: D'Arcangelo, in Parsons."""
    return 0.1216 * waterplane - 0.0410


def transverse_inertia_coefficient_mccloghrie(waterplane: float) -> float:
    """Return C_I = 1.04·Cwp²/12, a cross-check of D'Arcangelo's formula.

    It is 3 to 4 % lower at Cwp 0.68 to 0.75. Source: McCloghrie.
    """
    return 1.04 * waterplane**2 / 12.0


def longitudinal_inertia_coefficient(waterplane: float) -> float:
    """Return C_IL = 0.350·Cwp² - 0.405·Cwp + 0.146, of I_L = C_IL·B·L³. Source: D'Arcangelo."""
    return 0.350 * waterplane**2 - 0.405 * waterplane + 0.146


def wetted_surface_denny_m2(length_m: float, draft_m: float, volume_m3: float) -> float:
    """Return the wetted surface S = 1.7·L·T + ∇/T, in m², a cross-check of Holtrop's.

    Source: Denny-Mumford, in Molland et al.
    """
    return 1.7 * length_m * draft_m + volume_m3 / draft_m


def hydrostatics(
    *,
    length_m: float,
    beam_m: float,
    draft_m: float,
    depth_m: float,
    block_coefficient: float,
    midship_coefficient: float,
    density_t_per_m3: float = DENSITY_T_PER_M3,
) -> dict[str, float]:
    """Return the hydrostatics at the design draft, in the field's symbols.

    All lengths are positive.
    """
    volume = length_m * beam_m * draft_m * block_coefficient
    displacement = density_t_per_m3 * volume
    waterplane = waterplane_coefficient(block_coefficient)
    area = waterplane * length_m * beam_m
    buoyancy = center_of_buoyancy_m(draft_m, block_coefficient, waterplane)
    inertia = transverse_inertia_coefficient(waterplane)
    mccloghrie = transverse_inertia_coefficient_mccloghrie(waterplane)
    inertia_long = longitudinal_inertia_coefficient(waterplane)
    radius = inertia * length_m * beam_m**3 / volume
    radius_long = inertia_long * beam_m * length_m**3 / volume
    gm_long = buoyancy + radius_long - KG_PER_DEPTH * depth_m
    return {
        "prismatic_coefficient": block_coefficient / midship_coefficient,
        "displaced_volume_m3": volume,
        "displacement_t": displacement,
        "waterplane_coefficient": waterplane,
        "waterplane_area_m2": area,
        "tonnes_per_cm": density_t_per_m3 * area / 100.0,
        "center_of_buoyancy_m": buoyancy,
        "transverse_inertia_coefficient": inertia,
        "transverse_inertia_coefficient_mccloghrie": mccloghrie,
        "metacentric_radius_m": radius,
        "metacenter_height_m": buoyancy + radius,
        "longitudinal_inertia_coefficient": inertia_long,
        "longitudinal_metacentric_radius_m": radius_long,
        "trim_moment_t_m_per_cm": displacement * gm_long / (100.0 * length_m),
        "wetted_surface_denny_m2": wetted_surface_denny_m2(length_m, draft_m, volume),
        "freeboard_m": depth_m - draft_m,
        "length_to_beam": length_m / beam_m,
        "beam_to_draft": beam_m / draft_m,
        "length_to_depth": length_m / depth_m,
        "slenderness": length_m / math.pow(volume, 1.0 / 3.0),
    }


DIMENSIONS: Final = (LENGTH, BEAM, DRAFT, DEPTH, BLOCK, MIDSHIP)


def _compute(values: Mapping[str, Json]) -> PhaseOutcome:
    names = [reading.name for reading in (*DIMENSIONS, DENSITY)]
    computed = hydrostatics(**{name: values[name] for name in names})
    return PhaseOutcome(computed, tuple(_flags(values, computed)), METHOD)


def _flags(values: Mapping[str, Json], computed: Mapping[str, float]) -> list[Flag]:
    flags = []
    hull_type, prismatic = values["hull_type"], computed["prismatic_coefficient"]
    if hull_type not in SINGLE_HULLS:
        message = (
            f"the formulae are of single hulls, not of the hull type {hull_type!r}; they hold for "
            f"{', '.join(SINGLE_HULLS)}"
        )
        flags.append(Flag(OUT_OF_RANGE, message, HULL_TYPE.path))
    if prismatic > 1.0:
        message = (
            f"Cp = Cb/Cm = {prismatic:.4g} and must be at most 1: no hull is fuller than the prism "
            "on its midship section; lower hull.cb or raise hull.cm"
        )
        flags.append(Flag(OUT_OF_RANGE, message, "prismatic_coefficient"))
    given = values.get("prismatic_given", prismatic)
    if abs(given - prismatic) > PRISMATIC_TOLERANCE * prismatic:
        message = (
            f"hull.cp is {given:.4g} and Cb/Cm is {prismatic:.4g}; they must agree within "
            f"{PRISMATIC_TOLERANCE:.0%}, and the formulae take the latter"
        )
        flags.append(Flag(INCONSISTENT, message, "hull.cp"))
    if computed["freeboard_m"] <= 0:
        freeboard_m = computed["freeboard_m"]
        message = f"the freeboard is {freeboard_m:.3g} m; the draft must be below the depth"
        flags.append(Flag(INCONSISTENT, message, DRAFT.path))
    return flags


HULL: Final = declare(
    "hull",
    METHOD,
    ("mission",),
    (*DIMENSIONS, optional("hull.cp", "prismatic_given"), HULL_TYPE, DENSITY),
    _compute,
)
