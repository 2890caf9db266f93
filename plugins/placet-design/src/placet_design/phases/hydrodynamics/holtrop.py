"""Resistance by Holtrop & Mennen, in the editions of 1982 and of 1984.

R_T = R_F·(1 + k1) + R_APP + R_W + R_B + R_TR + R_A. Forces are in kN, densities in t/m³.

Sources: J. Holtrop, G.G.J. Mennen, *An approximate power prediction method*, Int. Shipbuilding
Progress 29 (1982) 166-170; J. Holtrop, *A statistical re-analysis of resistance and propulsion
data*, ISP 31 (1984) 272-276. Customary range: `customary_range`. Both papers' worked tables close
only if the correlation allowance and the wake are taken over S + S_APP; codes that take S alone
come out 0.6 % low in R_A.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from placet_design.phases.hydrodynamics.hull_form import HullForm
from placet_design.phases.phase import OUT_OF_RANGE, Flag, OutOfRangeError
from placet_design.phases.sea import (
    DENSITY_T_PER_M3,
    GRAVITY_M_PER_S2,
    VISCOSITY_M2_PER_S,
)

Year: TypeAlias = Literal[1982, 1984]

FROUDE_MAX: Final[dict[Year, float]] = {1982: 0.45, 1984: 0.80}
"""Customary upper bounds of Fn; the edition of 1984 has a formula of its own above 0.55."""
FROUDE_LOW: Final = 0.40
FROUDE_HIGH: Final = 0.55


@dataclass(frozen=True, slots=True, kw_only=True)
class Resistance:
    """The components of the resistance at one speed, in kN unless named otherwise."""

    froude: float
    form_factor: float  # 1 + k1
    frictional_coefficient: float  # C_F
    frictional_kn: float  # R_F
    appendage_kn: float  # R_APP
    wave_kn: float  # R_W
    bulb_kn: float  # R_B
    transom_kn: float  # R_TR
    correlation_kn: float  # R_A
    total_kn: float  # R_T
    effective_power_kw: float  # P_E


def resistance(
    form: HullForm,
    speed_m_per_s: float,
    year: Year = 1984,
    *,
    density_t_per_m3: float = DENSITY_T_PER_M3,
) -> Resistance:
    """Predict the resistance in calm, deep water.

    Raises:
        OutOfRangeError: A formula has no value: no speed, or Fn > 0.40 with L/B ≤ 2.
    """
    if speed_m_per_s <= 0:
        raise OutOfRangeError("speed", f"the speed is {speed_m_per_s:g} m/s, must be positive")
    pressure = 0.5 * density_t_per_m3 * speed_m_per_s**2
    friction = frictional_coefficient(speed_m_per_s * form.length_m / VISCOSITY_M2_PER_S)
    factor = form_factor(form, year)
    frictional = pressure * form.wetted_surface_m2 * friction
    appendage = pressure * form.appendage_area_m2 * form.appendage_factor * friction
    wave = wave_kn(form, speed_m_per_s, year, density_t_per_m3)
    bulb = bulb_kn(form, speed_m_per_s, density_t_per_m3)
    transom = pressure * form.transom_area_m2 * transom_coefficient(form, speed_m_per_s)
    correlation = pressure * form.surface_with_appendages_m2 * correlation_allowance(form)
    total = frictional * factor + appendage + wave + bulb + transom + correlation
    return Resistance(
        froude=froude(form, speed_m_per_s),
        form_factor=factor,
        frictional_coefficient=friction,
        frictional_kn=frictional,
        appendage_kn=appendage,
        wave_kn=wave,
        bulb_kn=bulb,
        transom_kn=transom,
        correlation_kn=correlation,
        total_kn=total,
        effective_power_kw=total * speed_m_per_s,
    )


def froude(form: HullForm, speed_m_per_s: float) -> float:
    """Return the Froude number Fn = V / √(gL)."""
    return speed_m_per_s / math.sqrt(GRAVITY_M_PER_S2 * form.length_m)


def frictional_coefficient(reynolds: float) -> float:
    """Return the frictional coefficient C_F = 0.075 / (log₁₀Rn - 2)².

    Valid for Reynolds numbers above 1e5. Source: ITTC 1957.
    """
    if reynolds <= 1e5:
        raise OutOfRangeError("reynolds", f"Rn is {reynolds:.3g}; the ITTC line needs Rn > 1e5")
    return 0.075 / (math.log10(reynolds) - 2.0) ** 2


def form_factor(form: HullForm, year: Year) -> float:
    """Return the form factor 1 + k1, by which the hull's shape raises its friction."""
    cp, length, beam, draft = (
        form.prismatic_coefficient,
        form.length_m,
        form.beam_m,
        form.draft_m,
    )
    if year == 1982:
        c13 = 1.0 + 0.003 * form.stern_shape
        return c13 * (
            0.93
            + c12(form)
            * math.pow(beam / form.run_length_m, 0.92497)
            * math.pow(0.95 - cp, -0.521448)
            * math.pow(1.0 - cp + 0.0225 * form.lcb_percent, 0.6906)
        )
    c14 = 1.0 + 0.011 * form.stern_shape
    return 0.93 + 0.487118 * c14 * math.pow(beam / length, 1.06806) * math.pow(
        draft / length, 0.46106
    ) * math.pow(length / form.run_length_m, 0.121563) * math.pow(
        length**3 / form.displaced_volume_m3, 0.36486
    ) * math.pow(1.0 - cp, -0.604247)


def c12(form: HullForm) -> float:
    """Return Holtrop's factor c12: the effect of T/L on the form factor of 1982."""
    ratio = form.draft_m / form.length_m
    if ratio > 0.05:
        return math.pow(ratio, 0.2228446)
    if ratio > 0.02:
        return 48.20 * math.pow(ratio - 0.02, 2.078) + 0.479948
    return 0.479948


def wave_kn(
    form: HullForm,
    speed_m_per_s: float,
    year: Year,
    density_t_per_m3: float = DENSITY_T_PER_M3,
) -> float:
    """Return R_W, the resistance of making and breaking waves, in kN."""
    fn = froude(form, speed_m_per_s)
    weight = form.displaced_volume_m3 * density_t_per_m3 * GRAVITY_M_PER_S2
    shape = c2(form) * c5(form) * weight
    if year == 1982 or fn <= FROUDE_LOW:
        return c1(form) * shape * wave_exponential(form, fn, m1(form), year)
    if fn >= FROUDE_HIGH:
        return c17(form) * shape * wave_exponential(form, fn, m3(form), year)
    low = c1(form) * shape * wave_exponential(form, FROUDE_LOW, m1(form), year)
    high = c17(form) * shape * wave_exponential(form, FROUDE_HIGH, m3(form), year)
    return low + (10.0 * fn - 4.0) * (high - low) / 1.5


def wave_exponential(form: HullForm, fn: float, decay: float, year: Year) -> float:
    """Return exp{m·Fn^-0.9 + m₂·cos(λ·Fn^-2)}, with m₂ of 1982 or m₄ of 1984: `decay` is m."""
    amplitude = m2(form, fn) if year == 1982 else m4(form, fn)
    return math.exp(decay * math.pow(fn, -0.9) + amplitude * math.cos(wave_lambda(form) * fn**-2))


def c1(form: HullForm) -> float:
    """Return Holtrop's factor c1 of the wave resistance at low speed."""
    return (
        2223105.0
        * math.pow(c7(form), 3.78613)
        * math.pow(form.draft_m / form.beam_m, 1.07961)
        * math.pow(90.0 - form.entrance_angle_deg, -1.37565)
    )


def c2(form: HullForm) -> float:
    """Return Holtrop's factor c2: the reduction of the wave resistance by a bulb."""
    return math.exp(-1.89 * math.sqrt(c3(form)))


def c3(form: HullForm) -> float:
    """Return Holtrop's factor c3, of the size and immersion of the bulb."""
    if form.bulb_area_m2 == 0:
        return 0.0
    depth = form.draft_fore_m - form.bulb_center_m
    height = 0.31 * math.sqrt(form.bulb_area_m2) + depth
    return 0.56 * math.pow(form.bulb_area_m2, 1.5) / (form.beam_m * form.draft_m * height)


def c5(form: HullForm) -> float:
    """Return Holtrop's factor c5: the reduction of the wave resistance by a transom."""
    section = form.beam_m * form.draft_m * form.midship_coefficient
    factor = 1.0 - 0.8 * form.transom_area_m2 / section
    if factor <= 0:
        bound = f"{form.transom_area_m2:g} m², must be below {section / 0.8:.4g} m², B·T·Cm/0.8"
        raise OutOfRangeError("transom_area_m2", f"transom_area_m2 is {bound}")
    return factor


def c7(form: HullForm) -> float:
    """Return Holtrop's factor c7: B/L, with other formulas for narrow and for wide hulls."""
    ratio = form.beam_m / form.length_m
    if ratio < 0.11:
        return 0.229577 * math.pow(ratio, 0.33333)
    return ratio if ratio <= 0.25 else 0.5 - 0.0625 / ratio


def c15(form: HullForm) -> float:
    """Return Holtrop's factor c15: slenderness in the humps and hollows of the resistance."""
    ratio = form.length_m**3 / form.displaced_volume_m3
    if ratio < 512.0:
        return -1.69385
    return 0.0 if ratio > 1727.0 else -1.69385 + (math.pow(ratio, 1.0 / 3.0) - 8.0) / 2.36


def c16(form: HullForm) -> float:
    """Return Holtrop's factor c16: the effect of Cp on m1."""
    cp = form.prismatic_coefficient
    if cp < 0.8:
        return 8.07981 * cp - 13.8673 * cp**2 + 6.984388 * cp**3
    return 1.73014 - 0.7067 * cp


def c17(form: HullForm) -> float:
    """Return Holtrop's factor c17 of the wave resistance at high speed (1984). Needs L/B > 2."""
    ratio = form.length_m / form.beam_m
    if ratio <= 2.0:
        message = f"L/B is {ratio:.4g}; above Fn 0.40 Holtrop & Mennen 1984 needs L/B > 2"
        raise OutOfRangeError("length_to_beam", message)
    return (
        6919.3
        * math.pow(form.midship_coefficient, -1.3346)
        * math.pow(form.displaced_volume_m3 / form.length_m**3, 2.00977)
        * math.pow(ratio - 2.0, 1.40692)
    )


def m1(form: HullForm) -> float:
    """Return Holtrop's exponent m1: the rise of the wave resistance at low speed."""
    length = form.length_m
    return (
        0.0140407 * length / form.draft_m
        - 1.75254 * math.pow(form.displaced_volume_m3, 1.0 / 3.0) / length
        - 4.79323 * form.beam_m / length
        - c16(form)
    )


def m2(form: HullForm, fn: float) -> float:
    """Return Holtrop's m2: the amplitude of humps and hollows of the resistance, 1982."""
    return c15(form) * form.prismatic_coefficient**2 * math.exp(-0.1 * fn**-2)


def m3(form: HullForm) -> float:
    """Return Holtrop's exponent m3: the rise of the wave resistance at high speed."""
    beam = form.beam_m
    return (
        -7.2035 * math.pow(beam / form.length_m, 0.326869) * math.pow(form.draft_m / beam, 0.605375)
    )


def m4(form: HullForm, fn: float) -> float:
    """Return Holtrop's m4: the amplitude of humps and hollows of the resistance, 1984."""
    return 0.4 * c15(form) * math.exp(-0.034 * math.pow(fn, -3.29))


def wave_lambda(form: HullForm) -> float:
    """Return Holtrop's λ: the position of humps and hollows of the resistance."""
    ratio = form.length_m / form.beam_m
    return 1.446 * form.prismatic_coefficient - (0.03 * ratio if ratio < 12.0 else 0.36)


def bulb_emergence(form: HullForm) -> float:
    """Return P_B, a measure of the emergence of the bulb from the water."""
    immersion = form.draft_fore_m - 1.5 * form.bulb_center_m
    return 0.56 * math.sqrt(form.bulb_area_m2) / immersion


def bulb_froude(form: HullForm, speed_m_per_s: float) -> float:
    """Return Fni, the Froude number based on the immersion of the bulb."""
    depth = form.draft_fore_m - form.bulb_center_m - 0.25 * math.sqrt(form.bulb_area_m2)
    head = GRAVITY_M_PER_S2 * depth + 0.15 * speed_m_per_s**2
    if head <= 0:
        message = f"bulb_area_m2 is {form.bulb_area_m2:g}: the bulb is above water at this speed"
        raise OutOfRangeError("bulb_area_m2", message)
    return speed_m_per_s / math.sqrt(head)


def bulb_kn(
    form: HullForm, speed_m_per_s: float, density_t_per_m3: float = DENSITY_T_PER_M3
) -> float:
    """Return R_B, the resistance of a bulb near the surface, in kN."""
    if form.bulb_area_m2 == 0:
        return 0.0
    fni = bulb_froude(form, speed_m_per_s)
    emergence = math.exp(-3.0 * bulb_emergence(form) ** -2)
    area = math.pow(form.bulb_area_m2, 1.5)
    weight = density_t_per_m3 * GRAVITY_M_PER_S2
    return 0.11 * emergence * fni**3 * area * weight / (1.0 + fni**2)


def transom_froude(form: HullForm, speed_m_per_s: float) -> float:
    """Return FnT, the Froude number based on the immersion of the transom."""
    width = form.beam_m + form.beam_m * form.waterplane_coefficient
    return speed_m_per_s / math.sqrt(2.0 * GRAVITY_M_PER_S2 * form.transom_area_m2 / width)


def transom_coefficient(form: HullForm, speed_m_per_s: float) -> float:
    """Return c6 of the transom resistance: 0.2·(1 - 0.2·FnT) if wet, 0 if dry."""
    if form.transom_area_m2 == 0:
        return 0.0
    fnt = transom_froude(form, speed_m_per_s)
    return 0.2 * (1.0 - 0.2 * fnt) if fnt < 5.0 else 0.0


def correlation_allowance(form: HullForm) -> float:
    """Return C_A, the model-ship correlation allowance of a new and clean hull."""
    length = form.length_m
    c4 = min(form.draft_fore_m / length, 0.04)
    return (
        0.006 * math.pow(length + 100.0, -0.16)
        - 0.00205
        + 0.003 * math.sqrt(length / 7.5) * form.block_coefficient**4 * c2(form) * (0.04 - c4)
    )


def customary_range(form: HullForm, speed_m_per_s: float, year: Year) -> Iterator[Flag]:
    """Yield a flag for each proportion outside the range of the regression, with the bound."""
    bounds = (
        ("prismatic_coefficient", "Cp", form.prismatic_coefficient, 0.55, 0.85),
        ("length_to_beam", "L/B", form.length_m / form.beam_m, 3.9, 15.0),
        ("beam_to_draft", "B/T", form.beam_m / form.draft_m, 2.1, 4.0),
        ("froude", "Fn", froude(form, speed_m_per_s), 0.0, FROUDE_MAX[year]),
    )
    for quantity, symbol, value, low, high in bounds:
        if not low <= value <= high:
            message = (
                f"{symbol} is {value:.4g}; Holtrop & Mennen {year} is customarily used from "
                f"{low:g} to {high:g}"
            )
            yield Flag(OUT_OF_RANGE, message, quantity)
