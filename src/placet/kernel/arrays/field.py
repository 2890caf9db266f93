"""The declaration of a table: its name, and the dtype, shape and bounds of each field.

It needs no numpy, so a domain with tables can be imported without; opening its world cannot.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from struct import pack, unpack
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, get_args

from placet.schemas.identity import is_identity
from placet.schemas.keywords import explain_keywords

DType: TypeAlias = Literal["b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"]
DTYPES: Final[tuple[DType, ...]] = get_args(DType)
Number: TypeAlias = int | float

_FLOAT_MAX: Final = {"f4": 3.4028234663852886e38, "f8": 1.7976931348623157e308}
_COMPONENTS_MAX: Final = 64


@explain_keywords
@dataclass(frozen=True, slots=True)
class Field:
    """A field of a table, or of the payload of a kind with a rule of rows.

    Attributes:
        dtype: Type of the numbers: `b1`, `i1`..`i8`, `u1`..`u8`, `f4` or `f8`.
        shape: Shape of the value of one row: `()` a number, `2` or `(2,)` a vector of two.
        default: Value of each number of a row that was given none.
        low: Least value that is admitted; None is that of the dtype.
        high: Greatest value that is admitted; None is that of the dtype.

    Raises:
        ValueError: The dtype is unknown, or the shape, the bounds or the default do not fit.
    """

    dtype: DType
    shape: tuple[int, ...] | int = ()
    default: Number = 0
    low: Number | None = None
    high: Number | None = None

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise ValueError(
                f"the dtype of a field is one of {', '.join(DTYPES)}, got {self.dtype!r}"
            )
        shape = (self.shape,) if isinstance(self.shape, int) else tuple(self.shape)
        if not all(type(size) is int and size > 0 for size in shape):
            raise ValueError(f"the shape of a field is made of ints above 0, got {self.shape!r}")
        object.__setattr__(self, "shape", shape)
        if self.components > _COMPONENTS_MAX:
            raise ValueError(f"a field has at most {_COMPONENTS_MAX} numbers a row, got {shape}")
        low, high = self.limits
        for name, value in (("low", self.low), ("high", self.high), ("default", self.default)):
            if value is not None:
                self._require_number(name, value)
                # A record has plain numbers: a boolean could not be read back.
                object.__setattr__(self, name, self._plain(value))
        if low > high:
            raise ValueError(f"the bounds of a field are low <= high, got {low} and {high}")
        if not low <= self.default <= high:
            raise ValueError(f"the default {self.default} is not within {low} and {high}")

    def _plain(self, value: Number) -> Number:
        """Return a number as Python's own type, and as a field of its dtype holds it."""
        if not self.is_float:
            return int(value)
        held: float = unpack("<f", pack("<f", value))[0] if self.dtype == "f4" else float(value)
        return value if type(value) is int and held == value else held

    def _require_number(self, name: str, value: object) -> None:
        """Check that a number of the declaration is of the field's type and finite."""
        least, most = dtype_limits(self.dtype)
        is_number = isinstance(value, int | float) and isfinite(value)
        is_whole = self.is_float or (is_number and value == int(value))  # type: ignore[call-overload]
        if not is_number or not is_whole or not least <= value <= most:  # type: ignore[operator]
            raise ValueError(f"the {name} of a field of {self.dtype} does not fit: {value!r}")

    @property
    def components(self) -> int:
        """Number of numbers of one row."""
        count = 1
        for size in self.sizes:
            count *= size
        return count

    @property
    def sizes(self) -> tuple[int, ...]:
        """The shape as a tuple, also where it was given as an int."""
        return (self.shape,) if isinstance(self.shape, int) else self.shape

    @property
    def is_float(self) -> bool:
        """Whether the numbers are floats."""
        return self.dtype[0] == "f"

    @property
    def limits(self) -> tuple[Number, Number]:
        """The declared bounds, or where there are none those of the dtype."""
        least, most = dtype_limits(self.dtype)
        return (least if self.low is None else self.low), (most if self.high is None else self.high)


def spec_of(field: Field) -> tuple[str, list[int], Number, Number | None, Number | None]:
    """Return the parts of a field as plain JSON: dtype, shape, default, low and high."""
    return field.dtype, list(field.sizes), field.default, field.low, field.high


def dtype_limits(dtype: DType) -> tuple[Number, Number]:
    """Return the least and the greatest finite number of a dtype."""
    if dtype == "b1":
        return 0, 1
    if dtype[0] == "f":
        return -_FLOAT_MAX[dtype], _FLOAT_MAX[dtype]
    bits = 8 * int(dtype[1])
    return (0, 2**bits - 1) if dtype[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


@explain_keywords
@dataclass(frozen=True, slots=True)
class Table:
    """A collection of a fixed number of like entities, stored as one array a field.

        people = Table("city.people", {"at": Field("f8", 2, low=0, high=100), "coins": Field("i4")})
        cells = Table("city.cells", {"height": Field("f4", default=1.5)}, rows=400)

    The column `at` is an array of `(people, 2)`, the others of one dimension.

    Attributes:
        name: Name of the collection, `<domain>.<stem>`; its rows are `<stem>:0`, `<stem>:1` and on.
        fields: Field of each name.
        rows: Number of rows; None for a table of agents, which has a row for each member of its one
            population, and whose rows have the population's name as their stem.

    Raises:
        ValueError: The name, a field or the number of rows is invalid.
    """

    name: str
    fields: Mapping[str, Field] = field(default_factory=dict)
    rows: int | None = None

    def __post_init__(self) -> None:
        domain, dot, stem = str(self.name).rpartition(".")
        if not (is_identity(self.name) and dot and domain and stem):
            raise ValueError(
                f"a table is named <domain>.<rows>, such as 'city.cells', got {self.name!r}"
            )
        if not self.fields:
            raise ValueError(f"the table {self.name!r} needs at least one field")
        for name, one in self.fields.items():
            if type(name) is not str or not name.isidentifier() or not isinstance(one, Field):
                raise ValueError(
                    f"the fields of table {self.name!r} are names and Field(...), "
                    f"got {name!r}: {one!r}"
                )
        if self.rows is not None and (type(self.rows) is not int or self.rows < 1):
            raise ValueError(f"the table {self.name!r} has `rows` >= 1 or None, got {self.rows!r}")
        object.__setattr__(self, "fields", MappingProxyType(dict(sorted(self.fields.items()))))

    @property
    def stem(self) -> str:
        """Stem of the names of rows of a table without agents."""
        return self.name.rpartition(".")[2]
