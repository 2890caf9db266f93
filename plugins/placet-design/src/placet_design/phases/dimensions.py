"""The main dimensions that several phases read: one path has one name and one bound."""

from typing import Final

from placet_design.phases.phase import Reading, assumed, assumed_word, required
from placet_design.phases.sea import DENSITY_T_PER_M3

LENGTH: Final = Reading(
    "hull.lwl",
    "length_m",
    low=0.001,
    source="the waterline is not set: its length is taken as the length overall",
    instead="hull.loa",
)
"""L of the formulae."""

BEAM: Final = required("hull.beam", "beam_m")
DRAFT: Final = required("hull.draft", "draft_m")
DEPTH: Final = required("hull.depth", "depth_m")
BLOCK: Final = required("hull.cb", "block_coefficient")
MIDSHIP: Final = required("hull.cm", "midship_coefficient")
DENSITY: Final = assumed("density_t_per_m3", DENSITY_T_PER_M3, 0.95, 1.05, "sea water at 15 °C")

HULL_TYPE: Final = assumed_word(
    "hull_type", "monohull", "the formulae are of single hulls", path="hull.hull_type"
)
SINGLE_HULLS: Final = (
    "monohull",
    "displacement",
    "semi_displacement",
    "semi_planing",
    "planing",
)
