"""Interaction of hull and propeller: wake, thrust deduction, efficiencies.

Source: Holtrop & Mennen, ISP 29 (1982) 166-170, for one and for two propellers; actuator-disc
theory for the open-water efficiency. Valid in the range of the resistance (`holtrop.py`).
"""

import math
from dataclasses import dataclass
from typing import Final

from placet_design.phases.hydrodynamics.holtrop import (
    Year,
    correlation_allowance,
    form_factor,
    frictional_coefficient,
)
from placet_design.phases.hydrodynamics.hull_form import HullForm
from placet_design.phases.phase import OutOfRangeError
from placet_design.phases.sea import DENSITY_T_PER_M3, VISCOSITY_M2_PER_S

OPEN_WATER_FRACTION: Final = 0.77
"""Open-water efficiency as a fraction of the ideal one: declared; it matches H&M's example."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Propellers:
    """The identical propellers of a ship.

    Attributes:
        pitch_ratio: P/D; used only for two propellers.
        area_ratio: A_E/A_O; used only for a single propeller.
        open_water_fraction: η_0 over the ideal efficiency of the disc.
    """

    number: int
    diameter_m: float
    pitch_ratio: float = 1.0
    area_ratio: float = 0.7
    open_water_fraction: float = OPEN_WATER_FRACTION


@dataclass(frozen=True, slots=True, kw_only=True)
class PropulsionFactors:
    """Factors of the interaction of hull and propeller at one speed."""

    wake_fraction: float  # w
    thrust_deduction: float  # t
    relative_rotative_efficiency: float  # η_R
    hull_efficiency: float  # η_H
    open_water_efficiency: float  # η_0

    @property
    def quasi_propulsive_coefficient(self) -> float:
        """The quasi-propulsive coefficient, QPC = η_H·η_0·η_R."""
        return self.hull_efficiency * self.open_water_efficiency * self.relative_rotative_efficiency


def propulsion_factors(
    form: HullForm,
    speed_m_per_s: float,
    resistance_kn: float,
    propellers: Propellers,
    year: Year = 1984,
    *,
    density_t_per_m3: float = DENSITY_T_PER_M3,
) -> PropulsionFactors:
    """Predict the propulsion factors; more than two propellers are computed as two.

    Raises:
        OutOfRangeError: The wake or the thrust deduction is 1 or more, or so low that the disc
            would be pushed.
    """
    wake, deduction, rotative = (
        _single_screw(form, speed_m_per_s, propellers, year)
        if propellers.number == 1
        else _twin_screw(form, speed_m_per_s, propellers, year)
    )
    for name, value in (("wake_fraction", wake), ("thrust_deduction", deduction)):
        if not -1.0 < value < 1.0:
            message = f"{name} comes out at {value:.4g}, must be between -1 and 1"
            raise OutOfRangeError(name, message)
    if rotative <= 0:
        message = f"relative_rotative_efficiency comes out at {rotative:.4g}, must be positive"
        raise OutOfRangeError("relative_rotative_efficiency", message)
    thrust = resistance_kn / (1.0 - deduction) / propellers.number
    advance = speed_m_per_s * (1.0 - wake)
    ideal = ideal_efficiency(thrust, advance, propellers.diameter_m, density_t_per_m3)
    return PropulsionFactors(
        wake_fraction=wake,
        thrust_deduction=deduction,
        relative_rotative_efficiency=rotative,
        hull_efficiency=(1.0 - deduction) / (1.0 - wake),
        open_water_efficiency=propellers.open_water_fraction * ideal,
    )


def ideal_efficiency(
    thrust_kn: float,
    advance_m_per_s: float,
    diameter_m: float,
    density_t_per_m3: float = DENSITY_T_PER_M3,
) -> float:
    """Return the ideal efficiency of one propeller disc, η = 2/(1 + √(1 + C_T)).

    Source: actuator-disc theory (Rankine, Froude).
    """
    pressure = 0.5 * density_t_per_m3 * advance_m_per_s**2
    loading = thrust_kn / (pressure * math.pi * diameter_m**2 / 4.0)
    if loading < -1.0:
        message = f"the thrust loading is {loading:.4g}; the disc would be pushed by the wake"
        raise OutOfRangeError("thrust_loading", message)
    return 2.0 / (1.0 + math.sqrt(1.0 + loading))


def viscous_coefficient(form: HullForm, speed_m_per_s: float, year: Year) -> float:
    """Return the viscous resistance coefficient C_V = (1 + k)·C_F + C_A.

    1 + k is averaged over hull and appendages by surface.
    """
    factor = form_factor(form, year)
    share = form.appendage_area_m2 / form.surface_with_appendages_m2
    effective = factor + (form.appendage_factor - factor) * share
    reynolds = speed_m_per_s * form.length_m / VISCOSITY_M2_PER_S
    return effective * frictional_coefficient(reynolds) + correlation_allowance(form)


def c8(form: HullForm, diameter_m: float) -> float:
    """Return Holtrop's factor c8 in the wake fraction of a single screw."""
    surface, draft = form.surface_with_appendages_m2, form.draft_aft_m
    ratio = form.beam_m / draft
    if ratio < 5.0:
        return form.beam_m * surface / (form.length_m * diameter_m * draft)
    return surface * (7.0 * ratio - 25.0) / (form.length_m * diameter_m * (ratio - 3.0))


def c9(form: HullForm, diameter_m: float) -> float:
    """Return Holtrop's factor c9 in the wake fraction of a single screw, a function of c8."""
    c = c8(form, diameter_m)
    return c if c < 28.0 else 32.0 - 16.0 / (c - 24.0)


def _c11(form: HullForm, diameter_m: float) -> float:
    ratio = form.draft_aft_m / diameter_m
    return ratio if ratio < 2.0 else 0.0833333 * ratio**3 + 1.33333


def _prismatic_of_wake(form: HullForm) -> float:
    """Cp1, the prismatic coefficient in the wake of a single screw."""
    cp1 = 1.45 * form.prismatic_coefficient - 0.315 - 0.0225 * form.lcb_percent
    if cp1 >= 1.0:
        message = f"Cp1 = 1.45·Cp - 0.315 - 0.0225·lcb is {cp1:.4g}, must be below 1"
        raise OutOfRangeError("prismatic_coefficient", message)
    return cp1


def _single_screw(
    form: HullForm, speed_m_per_s: float, propellers: Propellers, year: Year
) -> tuple[float, float, float]:
    """Return w, t, η_R of a single screw with a conventional stern."""
    length, beam, diameter = form.length_m, form.beam_m, propellers.diameter_m
    cp, cb, cp1 = form.prismatic_coefficient, form.block_coefficient, _prismatic_of_wake(form)
    if cb >= 0.95:
        raise OutOfRangeError("block_coefficient", f"Cb is {cb:.4g}, must be below 0.95")
    viscous = viscous_coefficient(form, speed_m_per_s, year)
    immersion = 0.0661875 + 1.21756 * _c11(form, diameter) * viscous / (1.0 - cp1)
    wake = (
        c9(form, diameter) * viscous * (length / form.draft_aft_m) * immersion
        + 0.24558 * math.sqrt(beam / (length * (1.0 - cp1)))
        - 0.09726 / (0.95 - cp)
        + 0.11434 / (0.95 - cb)
        + 0.75 * form.stern_shape * viscous
        + 0.002 * form.stern_shape
    )
    deduction = (
        0.001979 * length / (beam - beam * cp1)
        + 1.0585 * _c10(length, beam)
        - 0.00524
        - 0.1418 * diameter**2 / (beam * form.draft_m)
        + 0.0015 * form.stern_shape
    )
    rotative = 0.9922 - 0.05908 * propellers.area_ratio + 0.07424 * (cp - 0.0225 * form.lcb_percent)
    return wake, deduction, rotative


def _c10(length_m: float, beam_m: float) -> float:
    """c10 of the thrust deduction of a single screw."""
    ratio = beam_m / length_m
    if length_m / beam_m > 5.2:
        return ratio
    return 0.25 - 0.003328402 / (ratio - 0.134615385)


def _twin_screw(
    form: HullForm, speed_m_per_s: float, propellers: Propellers, year: Year
) -> tuple[float, float, float]:
    """Return w, t, η_R of two screws with a conventional open stern."""
    cp, cb, diameter = form.prismatic_coefficient, form.block_coefficient, propellers.diameter_m
    viscous = viscous_coefficient(form, speed_m_per_s, year)
    root = math.sqrt(form.beam_m * form.draft_m)
    wake = 0.3095 * cb + 10.0 * viscous * cb - 0.23 * diameter / root
    deduction = 0.325 * cb - 0.1885 * diameter / root
    rotative = 0.9737 + 0.111 * (cp - 0.0225 * form.lcb_percent) - 0.06325 * propellers.pitch_ratio
    return wake, deduction, rotative
