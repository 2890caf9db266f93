"""The hull as Holtrop & Mennen describe it: dimensions, coefficients, bulb, transom, appendages.

Symbols in comments are those of the papers. `lcb_percent` is forward of L/2, as a percentage of L.
"""

import math
from dataclasses import dataclass

from placet_design.phases.phase import OutOfRangeError


@dataclass(frozen=True, slots=True, kw_only=True)
class HullForm:
    """A single hull, floating.

    Raises:
        OutOfRangeError: A power in the formulae would have a negative base; the message names
            the bound.
    """

    length_m: float
    beam_m: float
    draft_fore_m: float
    draft_aft_m: float
    displaced_volume_m3: float
    midship_coefficient: float
    waterplane_coefficient: float
    lcb_percent: float = 0.0
    bulb_area_m2: float = 0.0  # A_BT
    bulb_center_m: float = 0.0  # h_B, above the keel
    transom_area_m2: float = 0.0  # A_T, immersed at rest
    appendage_area_m2: float = 0.0  # S_APP
    appendage_factor: float = 1.5  # 1 + k2
    stern_shape: float = 0.0  # C_stern: -25 pram with gondola, -10 V, 0 normal, 10 U

    def __post_init__(self) -> None:
        for name in ("length_m", "beam_m", "draft_fore_m", "draft_aft_m", "displaced_volume_m3"):
            _require(getattr(self, name) > 0, name, f"is {getattr(self, name):g}, must be positive")
        cp, lcb = self.prismatic_coefficient, self.lcb_percent
        _require(
            0.25 < cp < 0.95,
            "prismatic_coefficient",
            f"is {cp:.4g}; the formulae of Holtrop & Mennen need 0.25 < Cp < 0.95",
        )
        _require(
            1.0 - cp - abs(0.0225 * lcb) > 0 and self.run_length_m > 0,
            "lcb_percent",
            f"is {lcb:g} with Cp {cp:.4g}; Holtrop & Mennen need |0.0225·lcb| < 1 - Cp and L_R > 0",
        )
        _require(
            0 < self.waterplane_coefficient < 1,
            "waterplane_coefficient",
            f"is {self.waterplane_coefficient:.4g}, must be above 0 and below 1",
        )
        immersion = self.draft_fore_m - 1.5 * self.bulb_center_m
        _require(
            self.bulb_area_m2 == 0 or immersion > 0,
            "bulb_center_m",
            f"is {self.bulb_center_m:g}, must be below 2/3 of the draft, {self.draft_fore_m:g} m",
        )

    @property
    def draft_m(self) -> float:
        """T, the mean draft, in m."""
        return (self.draft_fore_m + self.draft_aft_m) / 2.0

    @property
    def block_coefficient(self) -> float:
        """Cb, the block coefficient."""
        return self.displaced_volume_m3 / (self.length_m * self.beam_m * self.draft_m)

    @property
    def prismatic_coefficient(self) -> float:
        """Cp, the prismatic coefficient."""
        return self.block_coefficient / self.midship_coefficient

    @property
    def run_length_m(self) -> float:
        """L_R, the length of the run (the tapering stern), in m."""
        cp = self.prismatic_coefficient
        return self.length_m * (1.0 - cp + 0.06 * cp * self.lcb_percent / (4.0 * cp - 1.0))

    @property
    def entrance_angle_deg(self) -> float:
        """i_E, half the angle of entrance of the waterline. Source: H&M 1982, eq. for i_E."""
        cp, length, beam = self.prismatic_coefficient, self.length_m, self.beam_m
        exponent = (
            math.pow(length / beam, 0.80856)
            * math.pow(1.0 - self.waterplane_coefficient, 0.30484)
            * math.pow(1.0 - cp - 0.0225 * self.lcb_percent, 0.6367)
            * math.pow(self.run_length_m / beam, 0.34574)
            * math.pow(100.0 * self.displaced_volume_m3 / length**3, 0.16302)
        )
        return 1.0 + 89.0 * math.exp(-exponent)

    @property
    def wetted_surface_m2(self) -> float:
        """S, the wetted surface of the hull without appendages, in m². Source: H&M 1982."""
        length, beam, draft = self.length_m, self.beam_m, self.draft_m
        cb, cm = self.block_coefficient, self.midship_coefficient
        return (
            length
            * (2.0 * draft + beam)
            * math.sqrt(cm)
            * (
                0.453
                + 0.4425 * cb
                - 0.2862 * cm
                - 0.003467 * beam / draft
                + 0.3696 * self.waterplane_coefficient
            )
            + 2.38 * self.bulb_area_m2 / cb
        )

    @property
    def surface_with_appendages_m2(self) -> float:
        """S + S_APP, the wetted surface with appendages, in m²: for correlation and wake."""
        return self.wetted_surface_m2 + self.appendage_area_m2


def _require(holds: bool, quantity: str, bound: str) -> None:
    if not holds:
        raise OutOfRangeError(quantity, f"{quantity} {bound}")
