"""Units: each has one exact scale to the base unit of its dimension.

A factor is a quotient of scales.

Every dimension here is a ratio scale, so a conversion is one multiplication. A dimension with an
offset (degrees Celsius) is not needed; it would get a separate table.
"""

from collections.abc import Mapping
from math import pi
from typing import Final, TypeVar

from placet.schemas.errors import PlacetError

_HP_W: Final = 550 * 0.3048 * 0.45359237 * 9.80665
"""Mechanical horsepower: 550 foot-pounds-force a second."""

DIMENSIONS: Final[Mapping[str, Mapping[str, float]]] = {
    "length": {
        "m": 1.0,
        "ft": 0.3048,
        "mm": 0.001,
        "in": 0.0254,
        "km": 1000.0,
        "nm": 1852.0,  # the nautical mile, as in the seed; never the nanometer
        "nmi": 1852.0,
    },
    "speed": {
        "m/s": 1.0,
        "km/h": 1 / 3.6,
        "kts": 1852 / 3600,
        "kn": 1852 / 3600,
        "mph": 0.44704,
    },
    "power": {"W": 1.0, "kW": 1e3, "MW": 1e6, "hp": _HP_W, "PS": 735.49875},
    "mass": {"kg": 1.0, "t": 1000.0, "mt": 1000.0, "lb": 0.45359237},
    "area": {"m2": 1.0, "ft2": 0.3048 * 0.3048},
    "volume": {"m3": 1.0, "l": 0.001, "gal": 0.003785411784},
    "pressure": {"Pa": 1.0, "kPa": 1e3, "bar": 1e5, "psi": 6894.757293168361},
    "angle": {"rad": 1.0, "deg": pi / 180},
}
"""Dimension -> unit -> its size in the first unit. `nm`=`nmi`, `kts`=`kn`, `mt`=`t`, gal is US."""

_FACTORS: Final[Mapping[str, Mapping[str, float]]] = {
    from_unit: {to_unit: size / to_size for to_unit, to_size in units.items()}
    for units in DIMENSIONS.values()
    for from_unit, size in units.items()
}

N = TypeVar("N", int, float)


class UnitConversionError(PlacetError, ValueError):
    """Raised if no conversion exists between two units.

    Attributes:
        from_unit: The given unit.
        to_unit: The requested unit.
    """

    def __init__(self, from_unit: str, to_unit: str) -> None:
        super().__init__(_explain(from_unit, to_unit))
        self.from_unit = from_unit
        self.to_unit = to_unit


class UnitConverter:
    """Deterministic conversion between units of one dimension. Units are case-sensitive: MW, mm."""

    @staticmethod
    def factor(from_unit: str, to_unit: str) -> float:
        """Return the conversion factor; store it if many values are converted.

        Raises:
            UnitConversionError: A unit is unknown, or the dimensions differ.
        """
        try:
            return _FACTORS[from_unit][to_unit]
        except (KeyError, TypeError):
            raise UnitConversionError(from_unit, to_unit) from None

    @staticmethod
    def convert(value: float, from_unit: str, to_unit: str) -> float:
        """Convert one value.

        Raises:
            UnitConversionError: A unit is unknown, or the dimensions differ.
        """
        try:  # not by `factor`: a rule converts on the path of a batch, without a call more
            return value * _FACTORS[from_unit][to_unit]
        except KeyError:
            raise UnitConversionError(from_unit, to_unit) from None

    normalize = convert
    """The seed's name: from the unit that was given to the kernel's."""

    @staticmethod
    def can_convert(from_unit: str, to_unit: str) -> bool:
        """Return whether a conversion exists; a known unit converts to itself."""
        return to_unit in _FACTORS.get(from_unit, {})

    @staticmethod
    def get_supported_units() -> list[str]:
        """List every unit, by dimension."""
        return list(_FACTORS)


def clamp_to_bounds(value: N, low: N | None, high: N | None) -> tuple[N, bool]:
    """Return the nearest value within the bounds, and whether it differs from the input."""
    if low is not None and value < low:
        return low, True
    if high is not None and value > high:
        return high, True
    return value, False


def _explain(from_unit: object, to_unit: object) -> str:
    for unit in (from_unit, to_unit):
        if not isinstance(unit, str) or unit not in _FACTORS:
            return f"unit {unit!r} is unknown; known are {', '.join(_FACTORS)}"
    known = ", ".join(_FACTORS[str(from_unit)])
    return f"{from_unit!r} does not convert to {to_unit!r}; it converts to {known}"
