"""The whitelist of refinable fields, with their units and bounds.

The state, the rules, the JSON Schema of a design, and the prompts derive from this table. Keywords
are the names that people use; the text parser reads them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field as dataclass_field
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import ConfigDict, Field, model_validator
from pydantic.dataclasses import dataclass

from placet.schemas.codec import Json
from placet.schemas.name_suggestions import nearest
from placet_design.units import UnitConverter

FieldType: TypeAlias = Literal["float", "int", "bool", "enum"]
RangePolicy: TypeAlias = Literal["clamp", "reject"]

_PATH: Final = r"^[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*$"


class Step(StrEnum):
    """The names of the steps by which a value can be changed without a number."""

    A_BIT = "a_bit"
    NORMAL = "normal"
    WAY = "way"


@dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class RefinableField:
    """The definition of one design parameter that agents may change.

    Attributes:
        path: Section and name, such as `hull.loa`.
        type: `float`, `int`, `bool` or `enum`.
        kernel_unit: The unit in the state; empty where there is none.
        allowed_units: Units that a proposal may use, including the kernel's.
        min_value: Minimum, in the kernel's unit; None is no bound.
        max_value: Maximum, in the kernel's unit; None is no bound.
        keywords: Names that people use.
        description: Description of the field.
        values: Allowed values of an `enum`.
        steps: Amounts of the named steps, in the kernel's unit; empty if the field has none.
        policy: Handling of values beyond the bounds; None takes the policy of the world.
    """

    path: Annotated[str, Field(pattern=_PATH, max_length=100)]
    type: FieldType
    kernel_unit: str = ""
    allowed_units: tuple[str, ...] = ()
    min_value: float | None = None
    max_value: float | None = None
    keywords: tuple[str, ...] = ()
    description: str = ""
    values: tuple[str, ...] = ()
    steps: Mapping[Step, Annotated[float, Field(gt=0)]] = dataclass_field(default_factory=dict)
    policy: RangePolicy | None = None

    @model_validator(mode="after")
    def _is_sound(self) -> "RefinableField":
        if self.kernel_unit and self.kernel_unit not in self.allowed_units:
            raise ValueError(f"{self.path}: allowed_units must hold the kernel_unit")
        for unit in self.allowed_units:
            if not UnitConverter.can_convert(unit, self.kernel_unit):
                raise ValueError(f"{self.path}: {unit!r} does not convert to {self.kernel_unit!r}")
        if (self.type == "enum") != bool(self.values):
            raise ValueError(f"{self.path}: an enum, and nothing else, has values")
        low, high = self.min_value, self.max_value
        if low is not None and high is not None and low > high:
            raise ValueError(f"{self.path}: min_value is above max_value")
        if not self.is_number and (low is not None or high is not None or self.steps):
            raise ValueError(f"{self.path}: only a number has bounds and steps")
        return self

    @property
    def is_number(self) -> bool:
        """Return whether the field is numeric, so that it has bounds and can be increased."""
        return self.type in {"float", "int"}

    @property
    def section(self) -> str:
        """The first part of the path."""
        return self.path.partition(".")[0]

    def json_schema(self) -> dict[str, Json]:
        """Return the JSON Schema of the field's value in the state."""
        names = {"float": "number", "int": "integer", "bool": "boolean", "enum": "string"}
        described: dict[str, Json] = {"type": names[self.type], "description": self.description}
        if self.values:
            described["enum"] = list(self.values)
        if self.min_value is not None:
            described["minimum"] = self.min_value
        if self.max_value is not None:
            described["maximum"] = self.max_value
        if self.kernel_unit:
            described["x-unit"] = self.kernel_unit
        return described


def _number(
    path: str,
    units: str,
    bounds: tuple[float, float],
    description: str,
    keywords: str,
    steps: tuple[float, float, float],
) -> RefinableField:
    """Declare a float; the first unit is the kernel's, steps are a_bit, normal and way."""
    allowed = tuple(units.split())
    unit, amounts = "".join(allowed[:1]), dict(zip(Step, steps, strict=True))
    words = _words(keywords)
    return RefinableField(path, "float", unit, allowed, *bounds, words, description, steps=amounts)


def _count(path: str, low: int, high: int, description: str, keywords: str) -> RefinableField:
    return RefinableField(path, "int", "", (), low, high, _words(keywords), description)


def _choice(path: str, values: str, description: str, keywords: str) -> RefinableField:
    words, allowed = _words(keywords), tuple(values.split())
    return RefinableField(path, "enum", "", (), None, None, words, description, allowed)


def _words(keywords: str) -> tuple[str, ...]:
    return tuple(keywords.split(", "))


_FIELDS: Final = (
    _number("hull.loa", "m ft", (5, 500), "Length overall",
            "length, loa, overall length, ship length", (0.5, 2, 10)),
    _number("hull.lwl", "m ft", (4, 500), "Length on the waterline",
            "waterline length, lwl", (0.5, 2, 10)),
    _number("hull.beam", "m ft", (1, 100), "Greatest breadth",
            "beam, width, breadth", (0.2, 0.5, 2)),
    _number("hull.draft", "m ft", (0.3, 30), "Draft to the design waterline",
            "draft, draught", (0.1, 0.3, 1)),
    _number("hull.depth", "m ft", (0.5, 50), "Depth from keel to deck",
            "depth, hull depth", (0.1, 0.3, 1)),
    _choice("hull.hull_type", "monohull catamaran trimaran swath planing semi_planing displacement "
            "semi_displacement foil_assisted air_cushion", "Type of hull",
            "hull type, catamaran, monohull, trimaran"),
    _choice("structural_design.hull_material", "aluminum steel frp composite wood cfrp titanium "
            "hybrid_composite grp", "Material of the hull",
            "material, aluminum, steel, composite, frp"),
    _choice("mission.vessel_type", "patrol ferry workboat yacht fishing cargo military research "
            "tug passenger offshore pilot sar crew_boat landing_craft other", "Use of the vessel",
            "vessel type, ferry, patrol, workboat, yacht"),
    _number("hull.cb", "", (0.3, 0.95), "Block coefficient",
            "block coefficient, cb", (0.01, 0.02, 0.05)),
    _number("hull.cp", "", (0.5, 0.95), "Prismatic coefficient",
            "prismatic coefficient, cp", (0.01, 0.02, 0.05)),
    _number("hull.cm", "", (0.7, 1.0), "Midship section coefficient",
            "midship coefficient, cm", (0.01, 0.02, 0.05)),
    _number("hull.deadrise_deg", "deg rad", (0, 45), "Deadrise angle at midships",
            "deadrise, deadrise angle", (1, 3, 8)),
    _number("propulsion.total_installed_power_kw", "kW MW hp", (10, 100_000),
            "Total installed power", "power, installed power, propulsion power, engine power, "
            "megawatt, mw", (50, 250, 1000)),
    _count("propulsion.num_engines", 1, 8, "Number of main engines",
           "engines, number of engines, engine count"),
    _count("propulsion.num_propellers", 1, 8, "Number of propellers",
           "propellers, props, screws"),
    _number("propulsion.propeller_diameter_m", "m ft mm", (0.3, 15), "Diameter of each propeller",
            "propeller diameter, prop diameter", (0.05, 0.1, 0.5)),
    _number("mission.max_speed_kts", "kts m/s km/h", (1, 60), "Greatest speed",
            "max speed, top speed, maximum speed", (1, 2, 5)),
    _number("mission.cruise_speed_kts", "kts m/s km/h", (1, 50), "Speed over the range",
            "cruise speed, cruising speed, service speed", (1, 2, 5)),
    _number("mission.range_nm", "nm km", (10, 30_000), "Range at cruise speed",
            "range, endurance range", (50, 200, 1000)),
    _count("mission.crew_berthed", 0, 1000, "Crew with a berth", "crew, crew size, berthed crew"),
    _count("mission.passengers", 0, 5000, "Passengers", "passengers, pax"),
    _number("mission.gm_required_m", "m ft", (0.15, 5.0), "Required metacentric height",
            "gm, metacentric height, stability", (0.05, 0.1, 0.3)),
)  # fmt: skip

REFINABLE_SCHEMA: Final[Mapping[str, RefinableField]] = MappingProxyType(
    {field.path: field for field in _FIELDS}
)
"""Path -> field, in the order of the specification."""


def is_refinable(path: str) -> bool:
    """Return whether a path is in the whitelist."""
    return path in REFINABLE_SCHEMA


def get_field(path: str) -> RefinableField | None:
    """Return the field at a path; None if there is none."""
    return REFINABLE_SCHEMA.get(path)


def get_all_refinable_paths() -> list[str]:
    """List every path, in the order of the table."""
    return list(REFINABLE_SCHEMA)


def find_by_keyword(keyword: str) -> list[RefinableField]:
    """Return the fields with this keyword: whole keywords first, then parts of one."""
    keyword_wanted = " ".join(keyword.lower().split())
    if not keyword_wanted:
        return []
    exact = [
        field
        for field in _FIELDS
        if keyword_wanted in field.keywords or keyword_wanted == field.path
    ]
    partly = [field for field in _FIELDS if any(keyword_wanted in word for word in field.keywords)]
    return exact + [field for field in partly if field not in exact]


def nearest_paths(path: object, known: Iterable[str], count: int = 3) -> tuple[str, ...]:
    """Return the known paths most similar to an unknown one, best first."""
    return nearest(str(path), known, count)
