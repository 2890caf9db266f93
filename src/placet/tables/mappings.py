"""Columns of mappings: a function of the world that returns `{"S": 9, "I": 1}` fills `n.S`, `n.I`.

During a run such a column is JSON text, because later rows may have other keys. Sealed tables and
tables in memory have a typed column for each key, with None in rows without the key. A column stays
JSON text if one of its cells is another value, it has more than `KEYS_MAX` keys, or another column
has the name of a key's column.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from placet.schemas.codec import Json
from placet.schemas.documents import parse_json, typed
from placet.schemas.names import name_fault
from placet.tables.arrow import TableSchema, arrow_array, cell_of_json, pyarrow
from placet.tables.column_types import JSON, ColumnType
from placet.tables.definitions import Column
from placet.tables.table import is_json

if TYPE_CHECKING:
    import pyarrow as pa

KEYS_MAX: Final = 256
"""Largest number of keys of a column that become columns."""

MAPPINGS: Final = b"placet.mappings"
"""Key of a schema's metadata: by column of mappings, its keys, as JSON."""


class KeyColumns:
    """The keys of columns of mappings, joined over the parts of a table.

    Args:
        names: Names of the columns that may hold mappings.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._known: dict[str, dict[str, ColumnType]] = {name: {} for name in names}

    def read(self, part: "pa.Table") -> None:
        """Join the keys of the rows of a part. O(cells)."""
        for name, known in list(self._known.items()):
            column = part.column(name)
            if column.null_count == part.num_rows:
                continue
            if not (is_json(column.type) and _join(known, _cells(column))):
                del self._known[name]

    def columns(self, columns: Sequence[Column]) -> list[Column]:
        """Return the columns of a table, each column of mappings as the columns of its keys."""
        spread = self._spread(columns)
        return [new for column in columns for new in spread.get(column.name, [column])]

    def metadata(self, columns: Sequence[Column]) -> dict[str, str]:
        """Return the metadata by which `gathered` finds the columns of keys."""
        keys = {name: sorted(self._known[name]) for name in self._spread(columns)}
        return {MAPPINGS.decode(): json.dumps(keys)} if keys else {}

    def _spread(self, columns: Sequence[Column]) -> dict[str, list[Column]]:
        """Return by column of mappings the columns of its keys, in the order of their names."""
        found = {
            name: [
                Column(f"{name}.{key}", joined.name, f"Key {key} of {name}.")
                for key, joined in sorted(known.items())
            ]
            for name, known in self._known.items()
            if known and not any(map(name_fault, known))
        }
        taken = Counter(column.name for column in columns)
        taken.update(new.name for spread in found.values() for new in spread)
        return {
            name: spread
            for name, spread in found.items()
            if all(taken[new.name] == 1 for new in spread)
        }

    def spread(self, part: "pa.Table", name: str, columns: Sequence[Column]) -> "list[pa.Array]":
        """Return the arrays of a column's keys in a part; those of another column as they are.

        Args:
            part: The part.
            name: Name of the column.
            columns: All columns of the table.
        """
        wanted = self._spread(columns).get(name)
        if wanted is None:
            return [part.column(name)]
        cells = _cells(part.column(name))
        keys = [column.name[len(name) + 1 :] for column in wanted]
        return [
            pyarrow().chunked_array(
                [arrow_array([None if cell is None else cell.get(key) for cell in cells], c.type)]
            )
            for key, c in zip(keys, wanted, strict=True)
        ]


def with_key_columns(table: "pa.Table", names: Iterable[str]) -> "pa.Table":
    """Return a table in which each column of mappings is the columns of its keys.

    Args:
        table: The table.
        names: Names of the columns that may hold mappings.
    """
    found = KeyColumns(names)
    found.read(table)
    # Only names matter to the columns that stay.
    columns = [Column(field.name, "null", "") for field in table.schema]
    metadata = found.metadata(columns)
    if not metadata:
        return table
    fields, arrays = [], []
    for field in table.schema:
        new = found.columns([Column(field.name, "null", "")])
        spread = found.spread(table, field.name, columns)
        is_same = [column.name for column in new] == [field.name]
        fields += [field] if is_same else list(TableSchema(new, {}, {}).arrow())
        arrays += spread
    schema = pyarrow().schema(fields, metadata={**(table.schema.metadata or {}), **metadata})
    return pyarrow().Table.from_arrays(arrays, schema=schema)


def mappings_of(table: "pa.Table") -> dict[str, list[str]]:
    """Return by column of mappings its keys, each of which is a column `NAME.KEY` of a table.

    Raises:
        ValueError: The metadata are damaged.
    """
    text = (table.schema.metadata or {}).get(MAPPINGS)
    return {} if text is None else typed(parse_json(text), dict[str, list[str]])


def gathered(table: "pa.Table") -> "pa.Table":
    """Return a table in which the columns of keys are columns of mappings again, as JSON text.

    Raises:
        LookupError: A column of a key is missing.
        ValueError: The metadata are damaged.
    """
    pa = pyarrow()
    for name, keys in mappings_of(table).items():
        columns = {key: table.column(f"{name}.{key}") for key in keys}
        rows = zip(*(_values(column) for column in columns.values()), strict=True)
        cells: list[Json] = [
            {key: value for key, value in zip(columns, row, strict=True) if value is not None}
            or None
            for row in rows
        ]
        place = table.schema.get_field_index(f"{name}.{keys[0]}")
        table = table.drop_columns([f"{name}.{key}" for key in keys])
        field = next(iter(TableSchema([Column(name, JSON, "Collected.")], {}, {}).arrow()))
        table = table.add_column(place, field, pa.chunked_array([arrow_array(cells, JSON)]))
    metadata = {k: v for k, v in (table.schema.metadata or {}).items() if k != MAPPINGS}
    return table.replace_schema_metadata(metadata)


def _values(column: "pa.ChunkedArray") -> list[Json]:
    values: list[Json] = column.to_pylist()
    if not is_json(column.type):
        return values
    return [None if text is None else cell_of_json(text) for text in values]


def _cells(column: "pa.ChunkedArray") -> list[Json]:
    return _values(column) if is_json(column.type) else [None] * len(column)


def _join(known: dict[str, ColumnType], cells: Iterable[Json]) -> bool:
    """Join the types of the values of mappings by key; False if they are no such column."""
    for cell in cells:
        if cell is None:
            continue
        if not isinstance(cell, Mapping):
            return False
        for key, value in cell.items():
            known.setdefault(key, ColumnType()).add(value)
        if len(known) > KEYS_MAX:
            return False
    return True
