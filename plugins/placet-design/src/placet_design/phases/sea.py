"""Constants of sea water and gravity, as the sources of the formulae define them."""

from typing import Final

from placet_design.units import UnitConverter

GRAVITY_M_PER_S2: Final = 9.81
"""As in Holtrop & Mennen's worked examples."""

DENSITY_T_PER_M3: Final = 1.025
"""Sea water at 15 °C, as in Holtrop & Mennen's worked examples."""

VISCOSITY_M2_PER_S: Final = 1.18831e-6
"""Kinematic viscosity of sea water at 15 °C. Source: ITTC 1963, as in Holtrop & Mennen."""

KNOT_M_PER_S: Final = UnitConverter.factor("kts", "m/s")
