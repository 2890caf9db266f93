"""Column types: which Arrow type holds every value of a column, and which columns become JSON text.

The types form a lattice: null < bool, null < int64 < float64, null < string, and a list of each.
Everything else is JSON text: objects, lists of lists, mixed values, integers beyond 64 bits, and
numbers of which an integer has no exact double. There is no union type, because Parquet, pandas,
polars and DuckDB refuse unions. A type is joined over all values before the first row is written.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import chain
from operator import or_
from typing import TYPE_CHECKING, Final

from placet.schemas.codec import Json

if TYPE_CHECKING:
    from placet.kernel.arrays.words import Array

_BOOL: Final = 1
_INT: Final = 2
_INEXACT: Final = 4
"""An integer of 64 bits that has no exact double."""
_FLOAT: Final = 8
_TEXT: Final = 16
_OTHER: Final = 32

_BITS: Final[Mapping[type, int]] = {type(None): 0, bool: _BOOL, float: _FLOAT, str: _TEXT}
_TYPES: Final[Mapping[int, str]] = {
    0: "null",
    _BOOL: "bool",
    _INT: "int64",
    _INT | _INEXACT: "int64",
    _FLOAT: "float64",
    _INT | _FLOAT: "float64",
    _TEXT: "string",
}
_SCHEMA_BITS: Final[Mapping[Json, int]] = {
    "null": 0,
    "boolean": _BOOL,
    "integer": _INT,
    "number": _INT | _FLOAT,
    "string": _TEXT,
}
_SEQUENCES: Final = frozenset({list, tuple})
_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1
_EXACT_MAX: Final = 2**53
_VECTORS: Final = 2
"""Dimensions of an array whose rows are lists of numbers."""

JSON: Final = "json"
"""The type of a column of canonical JSON text."""


class ColumnType:
    """The type of one column, joined over the values seen so far."""

    __slots__ = ("_items", "_scalars")

    def __init__(self) -> None:
        self._scalars = 0
        self._items: int | None = None  # None: no list was seen

    def __repr__(self) -> str:
        return f"<ColumnType {self.name}>"

    @property
    def name(self) -> str:
        """The joined type: `null bool int64 float64 string json`, or `list<...>` of a scalar."""
        if self._items is None:
            return _TYPES.get(self._scalars, JSON)
        item = JSON if self._scalars else _TYPES.get(self._items, JSON)
        return JSON if item == JSON else f"list<{item}>"

    def add(self, value: Json) -> None:
        """Join the type of a JSON value. Tuples are lists."""
        if type(value) is list or type(value) is tuple:
            items = self._items or 0
            for item in value:
                items |= _bits_of(item)
            self._items = items
        else:
            self._scalars |= _bits_of(value)

    def add_all(self, values: Sequence[Json]) -> None:
        """Join the types of many values; a few times faster than one by one."""
        kinds = set(map(type, values))
        if kinds and kinds <= _SEQUENCES:
            self._items = (self._items or 0) | _bits_of_all(list(chain.from_iterable(values)))
        elif kinds.isdisjoint(_SEQUENCES):
            self._scalars |= _bits_of_all(values)
        else:
            for value in values:
                self.add(value)

    def add_array(self, values: "Array") -> None:
        """Join the types of an array's rows, `(rows, *shape)`: those of its JSON values."""
        if not len(values):
            return
        bits = _bits_of_array(values)
        if values.ndim == 1:
            self._scalars |= bits
        else:
            self._items = (self._items or 0) | (bits if values.ndim == _VECTORS else _OTHER)

    def add_schema(self, schema: Mapping[str, Json], root: Mapping[str, Json]) -> None:
        """Join the type that a JSON Schema describes; a part that it leaves open adds nothing.

        Args:
            schema: The schema of the value.
            root: The schema in whose `$defs` references are looked up.
        """
        schema = _resolved(schema, root)
        for option in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
            self.add_schema(option, root)
        for value in (*schema.get("enum", ()), *([schema["const"]] if "const" in schema else ())):
            self.add(value)
        kinds = schema.get("type", ())
        for kind in [kinds] if isinstance(kinds, str) else kinds:
            if kind == "array":
                self._add_items(schema, root)
            else:
                self._scalars |= _SCHEMA_BITS.get(kind, _OTHER)

    def _add_items(self, schema: Mapping[str, Json], root: Mapping[str, Json]) -> None:
        item = ColumnType()
        options = list(schema.get("prefixItems", ()))
        if isinstance(schema.get("items"), Mapping):
            options.append(schema["items"])
        for option in options:
            item.add_schema(option, root)
        bits = item._scalars if item._items is None else _OTHER
        self._items = (self._items or 0) | bits

    def as_text(self) -> str:
        """Return the joined state as text, for `join_text`."""
        return f"{self._scalars} {'' if self._items is None else self._items}"

    def join_text(self, text: str) -> None:
        """Join the values that the `ColumnType` of a text has seen."""
        scalars, _, items = text.partition(" ")
        self._scalars |= int(scalars)
        if items:
            self._items = (self._items or 0) | int(items)


def _bits_of_array(values: "Array") -> int:
    kind = values.dtype.kind
    if kind in "bf":
        return _BOOL if kind == "b" else _FLOAT
    if int(values.min()) >= -_EXACT_MAX and int(values.max()) <= _EXACT_MAX:
        return _INT
    return _bits_of_all(values.reshape(-1).tolist())


def _bits_of_all(values: Sequence[Json]) -> int:
    kinds = set(map(type, values))
    if kinds <= _BITS.keys():
        return reduce(or_, map(_BITS.__getitem__, kinds), 0)
    return reduce(or_, map(_bits_of, values), 0)


def _bits_of(value: Json) -> int:
    bits = _BITS.get(type(value))
    if bits is not None:
        return bits
    if type(value) is not int or not _INT64_MIN <= value <= _INT64_MAX:
        return _OTHER
    if -_EXACT_MAX <= value <= _EXACT_MAX or int(float(value)) == value:
        return _INT
    return _INT | _INEXACT


def _resolved(schema: Mapping[str, Json], root: Mapping[str, Json]) -> Mapping[str, Json]:
    """Follow `$ref` to the definition in `$defs`; a reference elsewhere leaves the type open."""
    for _ in range(8):
        ref = schema.get("$ref")
        if not isinstance(ref, str):
            return schema
        schema = root.get("$defs", {}).get(ref.rpartition("/")[2], {})
    return {}
