"""Propulsion: the power required for cruise and max speed, and the attainable speed.

Method: resistance and propulsion factors of Holtrop & Mennen 1984 (`holtrop.py`, `propeller.py`),
the chain of powers of `powering.py`. Of a planing hull with a deadrise, Savitsky's resistance at
the max speed is given beside (`savitsky.py`).
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Final

from placet.schemas.codec import Json
from placet_design.phases.dimensions import BEAM, DENSITY, DRAFT, HULL_TYPE, LENGTH, MIDSHIP
from placet_design.phases.hydrodynamics.holtrop import (
    Resistance,
    customary_range,
    resistance,
)
from placet_design.phases.hydrodynamics.hull_form import HullForm
from placet_design.phases.hydrodynamics.powering import (
    Drive,
    admiralty_coefficient,
    attainable_speed_kts,
)
from placet_design.phases.hydrodynamics.propeller import (
    OPEN_WATER_FRACTION,
    Propellers,
    PropulsionFactors,
    propulsion_factors,
)
from placet_design.phases.hydrodynamics.savitsky import planing
from placet_design.phases.phase import (
    NOT_MET,
    OUT_OF_RANGE,
    Flag,
    OutOfRangeError,
    PhaseOutcome,
    assumed,
    declare,
    optional,
    required,
    result,
)
from placet_design.phases.sea import KNOT_M_PER_S

METHOD: Final = "holtrop-mennen-1984"
PLANING_METHOD: Final = "savitsky-1964"
PLANES: Final = "planing"
SCREWS_MAX: Final = 2
"""Holtrop & Mennen give factors for one screw and for two."""


@dataclass(frozen=True, slots=True)
class Ship:
    """The resistance, propulsion and drive of a ship."""

    form: HullForm
    propellers: Propellers
    drive: Drive
    density_t_per_m3: float

    def point(self, speed_kts: float) -> "PowerPoint":
        """Predict the power at a speed.

        Raises:
            OutOfRangeError: A formula has no value at that speed.
        """
        speed = speed_kts * KNOT_M_PER_S
        density = self.density_t_per_m3
        drag = resistance(self.form, speed, density_t_per_m3=density)
        factors = propulsion_factors(
            self.form, speed, drag.total_kn, self.propellers, density_t_per_m3=density
        )
        coefficient = factors.quasi_propulsive_coefficient
        shaft_kw = self.drive.shaft_kw(drag.effective_power_kw, coefficient)
        return PowerPoint(speed_kts, drag, factors, shaft_kw, self.drive.brake_kw(shaft_kw))


@dataclass(frozen=True, slots=True)
class PowerPoint:
    """The power at one speed, with its components."""

    speed_kts: float
    resistance: Resistance
    factors: PropulsionFactors
    shaft_power_kw: float
    required_brake_power_kw: float

    def as_dict(self) -> dict[str, Json]:
        """Return the components as a flat mapping of plain values."""
        return {
            "speed_kts": self.speed_kts,
            **asdict(self.resistance),
            **asdict(self.factors),
            "quasi_propulsive_coefficient": self.factors.quasi_propulsive_coefficient,
            "shaft_power_kw": self.shaft_power_kw,
            "required_brake_power_kw": self.required_brake_power_kw,
        }


def _compute(values: Mapping[str, Json]) -> PhaseOutcome:
    ship = _ship(values)
    cruise = ship.point(values["cruise_speed_kts"])
    fastest = ship.point(values["max_speed_kts"])
    attainable, flags = _attainable(ship, values["installed_power_kw"])
    speeds = [cruise.speed_kts, fastest.speed_kts, *([] if attainable is None else [attainable])]
    flags += _validity(ship, speeds)
    flags += _power_short(fastest, values["installed_power_kw"])
    outputs = {
        "wetted_surface_m2": ship.form.wetted_surface_m2,
        "cruise": cruise.as_dict(),
        "max": fastest.as_dict(),
        "cruise_service_power_kw": ship.drive.service_kw(cruise.shaft_power_kw),
        "max_required_brake_power_kw": fastest.required_brake_power_kw,
        "attainable_speed_kts": attainable,
        "admiralty_coefficient": admiralty_coefficient(
            values["displacement_t"], fastest.speed_kts, fastest.shaft_power_kw
        ),
    }
    if values["hull_type"] == PLANES and "deadrise_deg" in values:
        outputs["planing"], more = _planing(values)
        flags += more
    return PhaseOutcome(outputs, tuple(flags), METHOD)


def _ship(values: Mapping[str, Json]) -> Ship:
    draft_m = values["draft_m"]
    form = HullForm(draft_fore_m=draft_m, draft_aft_m=draft_m, **_named_in(HullForm, values))
    propellers = Propellers(
        number=int(values["num_propellers"]),
        diameter_m=values["propeller_diameter_m"],
        **_named_in(Propellers, values),
    )
    return Ship(form, propellers, Drive(**_named_in(Drive, values)), values["density_t_per_m3"])


def _named_in(
    cls: type[HullForm | Propellers | Drive], values: Mapping[str, Json]
) -> dict[str, Json]:
    """Return the values that have the name of a field of a class."""
    return {field.name: values[field.name] for field in fields(cls) if field.name in values}


def _attainable(ship: Ship, installed_kw: float) -> tuple[float | None, list[Flag]]:
    try:
        speed = attainable_speed_kts(
            lambda speed_kts: ship.point(speed_kts).required_brake_power_kw, installed_kw
        )
    except OutOfRangeError as error:
        message = f"no attainable speed was found: {error}"
        return None, [Flag(OUT_OF_RANGE, message, "attainable_speed_kts")]
    return speed, []


def _validity(ship: Ship, speeds_kts: list[float]) -> list[Flag]:
    """Flag each quantity outside the customary range, once, at the highest speed."""
    fastest = max(speeds_kts) * KNOT_M_PER_S
    flags = list(customary_range(ship.form, fastest, 1984))
    if ship.propellers.number > SCREWS_MAX:
        message = (
            f"there are {ship.propellers.number} propellers; Holtrop & Mennen give factors for at "
            f"most {SCREWS_MAX}, and those of two are taken"
        )
        flags.append(Flag(OUT_OF_RANGE, message, "propulsion.num_propellers"))
    return flags


def _planing(values: Mapping[str, Json]) -> tuple[Json, list[Flag]]:
    """Return Savitsky's prediction at the max speed, for comparison with Holtrop & Mennen."""
    try:
        state, flags = planing(
            displacement_t=values["displacement_t"],
            beam_m=values["beam_m"],
            gravity_from_transom_m=values["lcg_fraction"] * values["length_m"],
            deadrise_deg=values["deadrise_deg"],
            speed_m_per_s=values["max_speed_kts"] * KNOT_M_PER_S,
            density_t_per_m3=values["density_t_per_m3"],
        )
    except OutOfRangeError as error:
        return None, [Flag(OUT_OF_RANGE, f"planing: {error}", error.at)]
    return {**asdict(state), "method": PLANING_METHOD}, list(flags)


def _power_short(fastest: PowerPoint, installed_kw: float) -> list[Flag]:
    needed = fastest.required_brake_power_kw
    if needed <= installed_kw:
        return []
    message = (
        f"{fastest.speed_kts:g} kts call for {needed:.4g} kW and {installed_kw:g} kW are "
        "installed; lower the max speed or raise the power"
    )
    return [Flag(NOT_MET, message, "propulsion.total_installed_power_kw")]


_BARE: Final = "a hull without one; set it where there is one"

PROPULSION: Final = declare(
    "propulsion",
    METHOD,
    ("hull",),
    (
        LENGTH,
        BEAM,
        DRAFT,
        MIDSHIP,
        DENSITY,
        result("hull:displaced_volume_m3", "displaced_volume_m3"),
        result("hull:displacement_t", "displacement_t"),
        result("hull:waterplane_coefficient", "waterplane_coefficient"),
        required("mission.cruise_speed_kts", "cruise_speed_kts"),
        required("mission.max_speed_kts", "max_speed_kts"),
        required("propulsion.total_installed_power_kw", "installed_power_kw"),
        required("propulsion.num_propellers", "num_propellers", low=1),
        required("propulsion.propeller_diameter_m", "propeller_diameter_m"),
        HULL_TYPE,
        optional("hull.deadrise_deg", "deadrise_deg", low=0.0),
        assumed("lcg_fraction", 0.4, 0.1, 0.9, "center of gravity from the transom, over L"),
        assumed("lcb_percent", 0.0, -10.0, 10.0, "center of buoyancy amidships; percent of L"),
        assumed("bulb_area_m2", 0.0, 0.0, 200.0, _BARE),
        assumed("bulb_center_m", 0.0, 0.0, 30.0, _BARE),
        assumed("transom_area_m2", 0.0, 0.0, 500.0, _BARE),
        assumed("appendage_area_m2", 0.0, 0.0, 2000.0, _BARE),
        assumed("appendage_factor", 1.5, 1.0, 6.0, "1 + k2 of a rudder behind a skeg, H&M 1982"),
        assumed("stern_shape", 0.0, -25.0, 25.0, "C_stern of a normal section, H&M 1982"),
        assumed("pitch_ratio", 1.0, 0.4, 2.5, "P/D, a usual fixed pitch; two screws only"),
        assumed("area_ratio", 0.7, 0.2, 1.5, "A_E/A_O, a usual propeller; a single screw only"),
        assumed(
            "open_water_fraction",
            OPEN_WATER_FRACTION,
            0.3,
            1.0,
            "open-water over ideal efficiency; matches the example of H&M 1982",
        ),
        assumed("shaft_efficiency", 0.98, 0.8, 1.0, "textbook: 0.97 to 0.99"),
        assumed("sea_margin", 0.15, 0.0, 1.0, "textbook: 15 %"),
        assumed("mcr_fraction", 0.90, 0.5, 1.0, "textbook: 0.85 to 0.90"),
    ),
    _compute,
)
