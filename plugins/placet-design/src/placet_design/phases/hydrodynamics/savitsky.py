"""Planing: resistance and trim of a prismatic hull, all forces through the center of gravity.

Source: D. Savitsky, *Hydrodynamic design of planing hulls*, Marine Technology 1 (1964) 71-95. Valid
for 0.6 <= C_V <= 13, 2 <= τ <= 15 degrees, λ <= 4; `planing` flags values outside. Friction is by
the ITTC 1957 line where Savitsky had Schoenherr's; the difference is below 2 % of it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from placet_design.phases.hydrodynamics.holtrop import frictional_coefficient
from placet_design.phases.phase import OUT_OF_RANGE, Flag, OutOfRangeError
from placet_design.phases.sea import (
    DENSITY_T_PER_M3,
    GRAVITY_M_PER_S2,
    VISCOSITY_M2_PER_S,
)

ROUGHNESS: Final = 0.0004
"""ΔC_F of the American Towing Tank Conference, as in Savitsky's example."""
_HALVINGS: Final = 60
_LENGTH_RATIO_MAX: Final = 100.0
_LIFT_MAX: Final = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Planing:
    """A planing hull in equilibrium at one speed."""

    speed_coefficient: float  # C_V
    lift_coefficient: float  # C_Lβ
    flat_lift_coefficient: float  # C_L0
    wetted_length_ratio: float  # λ
    trim_deg: float  # τ
    total_kn: float
    effective_power_kw: float


def planing(
    *,
    displacement_t: float,
    beam_m: float,
    gravity_from_transom_m: float,
    deadrise_deg: float,
    speed_m_per_s: float,
    density_t_per_m3: float = DENSITY_T_PER_M3,
) -> tuple[Planing, tuple[Flag, ...]]:
    """Return the equilibrium of a planing hull: its trim balances weight and center of gravity.

    Raises:
        OutOfRangeError: No equilibrium exists, or it is so far outside that the formulae have no
            value.
    """
    speed_coefficient = speed_m_per_s / math.sqrt(GRAVITY_M_PER_S2 * beam_m)
    weight_kn = displacement_t * GRAVITY_M_PER_S2
    pressure = 0.5 * density_t_per_m3 * speed_m_per_s**2
    lift = weight_kn / (pressure * beam_m**2)
    flat_lift = flat_lift_coefficient(lift, deadrise_deg)
    ratio = wetted_length_ratio(gravity_from_transom_m / beam_m, speed_coefficient)
    static = 0.0055 * math.pow(ratio, 2.5) / speed_coefficient**2
    trim_power = flat_lift / (0.0120 * math.sqrt(ratio) + static)
    trim_deg = math.pow(trim_power, 1.0 / 1.1)
    if trim_deg >= 45.0:
        message = f"the trim comes out at {trim_deg:.3g} deg; Savitsky holds from 2 to 15 deg"
        raise OutOfRangeError("trim_deg", message)
    trim = math.radians(trim_deg)
    bottom = _bottom_speed(trim_power, ratio, deadrise_deg, trim) * speed_m_per_s
    friction = frictional_coefficient(bottom * ratio * beam_m / VISCOSITY_M2_PER_S) + ROUGHNESS
    area = ratio * beam_m**2 / (math.cos(math.radians(deadrise_deg)) * math.cos(trim))
    viscous_kn = 0.5 * density_t_per_m3 * bottom**2 * area * friction
    total_kn = weight_kn * math.tan(trim) + viscous_kn
    state = Planing(
        speed_coefficient=speed_coefficient,
        lift_coefficient=lift,
        flat_lift_coefficient=flat_lift,
        wetted_length_ratio=ratio,
        trim_deg=trim_deg,
        total_kn=total_kn,
        effective_power_kw=total_kn * speed_m_per_s,
    )
    return state, _validity(state)


def flat_lift_coefficient(lift_coefficient: float, deadrise_deg: float) -> float:
    """Solve C_Lβ = C_L0 - 0.0065·β·C_L0^0.6 for C_L0, the lift of a flat plate."""
    least = math.pow(0.0065 * deadrise_deg, 2.5)  # where the lift of the deadrise surface is 0
    return _root(
        lambda flat: flat - 0.0065 * deadrise_deg * math.pow(flat, 0.6) - lift_coefficient,
        (least, _LIFT_MAX),
        "lift_coefficient",
    )


def wetted_length_ratio(gravity_to_beam: float, speed_coefficient: float) -> float:
    """Solve for λ the center of pressure: LCG/b = λ·[0.75 - 1/(5.21·C_V²/λ² + 2.39)]."""

    def excess(ratio: float) -> float:
        lever = 0.75 - 1.0 / (5.21 * speed_coefficient**2 / ratio**2 + 2.39)
        return ratio * lever - gravity_to_beam

    return _root(excess, (1e-6, _LENGTH_RATIO_MAX), "wetted_length_ratio")


def _bottom_speed(trim_power: float, ratio: float, deadrise_deg: float, trim: float) -> float:
    """Mean water speed along the bottom, as a fraction of the hull's speed."""
    dynamic = 0.0120 * math.sqrt(ratio) * trim_power
    lift = dynamic - 0.0065 * deadrise_deg * math.pow(dynamic, 0.6)
    squared = 1.0 - lift / (ratio * math.cos(trim))
    if squared <= 0:
        message = f"at a trim of {math.degrees(trim):.3g} deg the water at the bottom would stand"
        raise OutOfRangeError("trim_deg", message)
    return math.sqrt(squared)


def _root(excess: Callable[[float], float], bracket: tuple[float, float], quantity: str) -> float:
    """Bisect a rising function."""
    low, high = bracket
    if excess(high) < 0:
        message = f"{quantity} has no solution up to {high:g}: the hull cannot plane so"
        raise OutOfRangeError(quantity, message)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if excess(middle) < 0 else (low, middle)
    return (low + high) / 2.0


def _validity(state: Planing) -> tuple[Flag, ...]:
    bounds = (
        ("speed_coefficient", "C_V", state.speed_coefficient, 0.6, 13.0),
        ("trim_deg", "τ", state.trim_deg, 2.0, 15.0),
        ("wetted_length_ratio", "λ", state.wetted_length_ratio, 0.0, 4.0),
    )
    return tuple(
        Flag(
            OUT_OF_RANGE,
            f"{symbol} is {value:.4g}; Savitsky 1964 holds from {low:g} to {high:g}",
            quantity,
        )
        for quantity, symbol, value, low, high in bounds
        if not low <= value <= high
    )
