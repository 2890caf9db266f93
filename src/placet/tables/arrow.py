"""Arrow schemas and columns of the tables; pyarrow is imported here alone."""

import json
from collections.abc import Iterable, Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

import msgspec

from placet.schemas.codec import Json
from placet.schemas.documents import parse_json
from placet.schemas.errors import MissingExtraError, StoreError
from placet.tables.column_types import JSON
from placet.tables.definitions import Column
from placet.tables.row import JsonCell

if TYPE_CHECKING:
    import pyarrow as pa

_ENCODER: Final = msgspec.json.Encoder(order="deterministic")
_LIST: Final = "list<"
_INTEGER_BITS_MAX: Final = 14_284
"""Largest size of an integer in JSON text: Python reads 4 300 digits."""


def pyarrow() -> Any:  # noqa: ANN401  # a module
    """Return the module `pyarrow`.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        import pyarrow as pa  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise MissingExtraError(
            f"tables need pyarrow, which is not there ({error}); install it with "
            "`pip install '.[lab]'` in a clone of placet"
        ) from error
    return pa


def json_text(value: Json) -> str:
    """Return a value as canonical JSON text: sorted keys, no spaces.

    NaN and the infinities, which JSON lacks, are the names by which Python's `json` reads them.
    """
    text = _ENCODER.encode(value).decode()
    if "null" in text and not _is_finite(value):
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text


def _is_finite(value: Json) -> bool:
    """Return whether a plain value holds no number that JSON lacks."""
    if isinstance(value, list | tuple):
        return all(map(_is_finite, value))
    if isinstance(value, Mapping):
        return all(map(_is_finite, value.values()))
    return not isinstance(value, float) or isfinite(value)


def arrow_type(name: str) -> "pa.DataType":
    """Return the Arrow type of a type's name, as in `Column.type`."""
    pa = pyarrow()
    if name.startswith(_LIST):
        return pa.list_(arrow_type(name[len(_LIST) : -1]))
    if name == JSON:
        return pa.json_(pa.string())
    return {
        "null": pa.null(),
        "bool": pa.bool_(),
        "int64": pa.int64(),
        "float64": pa.float64(),
        "string": pa.string(),
    }[name]


def arrow_array(values: list[Json], type_name: str) -> "pa.Array":
    """Return a column of Python values as an Arrow array.

    Raises:
        StoreError: A number of a fixed column exceeds 64 bits: no kernel wrote the record.
    """
    pa = pyarrow()
    if type_name != JSON:
        try:
            return pa.array(values, type=arrow_type(type_name))
        except pa.ArrowInvalid:  # it takes no integer beyond 2**53 as a double, exact or not
            return pa.array([_as_floats(value) for value in values], type=arrow_type(type_name))
        except OverflowError:
            raise StoreError("a record has a number beyond 64 bits; no kernel wrote it") from None
    texts = [_text(value) for value in values]
    return pa.ExtensionArray.from_storage(arrow_type(JSON), pa.array(texts, type=pa.string()))


def _as_floats(value: Json) -> Json:
    if isinstance(value, list | tuple):
        return [_as_floats(item) for item in value]
    return float(value) if type(value) is int else value


def _text(value: Json) -> str | None:
    if value is None:
        return None
    return json_text(value.value if type(value) is JsonCell else value)


class TableSchema:
    """The columns of one table: the fixed ones, and those of kinds or fields.

    Args:
        columns: The fixed columns.
        open_columns: `(prefix, name)` -> column, in their order.
        metadata: Facts about the whole table, as text.
    """

    def __init__(
        self,
        columns: Iterable[Column],
        open_columns: Mapping[tuple[str, str], Column],
        metadata: Mapping[str, str],
    ) -> None:
        self.columns = tuple(columns)
        self.open_columns = dict(open_columns)
        self.metadata = dict(metadata)

    @property
    def all_columns(self) -> tuple[Column, ...]:
        """Return the fixed and the open columns."""
        return (*self.columns, *self.open_columns.values())

    def arrow(self) -> "pa.Schema":
        """Return the Arrow schema, with units and docs in its metadata."""
        pa = pyarrow()
        fields = [
            pa.field(column.name, arrow_type(column.type), metadata=_notes(column))
            for column in self.all_columns
        ]
        return pa.schema(fields, metadata=self.metadata)

    def as_dict(self) -> dict[str, Json]:
        """Return the schema as plain JSON, for `_schema.json`."""
        columns = [
            {"name": column.name, "type": column.type, **_notes(column)}
            for column in self.all_columns
        ]
        return {"metadata": self.metadata, "columns": columns}


def _notes(column: Column) -> dict[str, str]:
    notes = {"doc": column.doc, "unit": column.unit}
    return {name: text for name, text in notes.items() if text}


def canonical_rows(rows: Iterable[Mapping[str, Json]], json_columns: frozenset[str]) -> bytes:
    """Return a hash of rows that depends on their values alone, not on types, formats or versions.

    Null cells are left out, JSON text is read, and a float without fraction equals its integer. NaN
    and the infinities, which JSON lacks, equal themselves alone.

    Args:
        rows: The rows, in order.
        json_columns: Names of the columns of JSON text.
    """
    from hashlib import blake2b  # noqa: PLC0415  # few ask

    hashed = blake2b(digest_size=16)
    for row in rows:
        cells = {
            name: _plain(cell_of_json(value) if name in json_columns else value)
            for name, value in row.items()
            if value is not None
        }
        hashed.update(_ENCODER.encode(cells) + b"\n")
    return hashed.digest()


def cell_of_json(text: str) -> Json:
    """Return the value of a cell of JSON text."""
    return parse_json(text, integer_bits_max=_INTEGER_BITS_MAX)


def _plain(value: Json) -> Json:
    if isinstance(value, float):
        if not isfinite(value):
            return msgspec.Raw(str(value).encode())
        return int(value) if value.is_integer() else value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return value
