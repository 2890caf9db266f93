"""Rows of a table as arrays: all rows of a column batch, or of a table of the state, at once.

A `RowBlock` stands beside `Row`: its cells are columns, which become Arrow arrays without a step of
Python for each row. Where rows are iterated, they become Python values a column at a time.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

import msgspec
import numpy as np

from placet.kernel.arrays.words import Array
from placet.schemas.codec import Json
from placet.tables.arrow import arrow_array, arrow_type, json_text, pyarrow
from placet.tables.column_types import JSON, ColumnType
from placet.tables.row import JsonCell, Row

if TYPE_CHECKING:
    import pyarrow as pa

BLOCK_ROWS: Final = 65_536
"""Rows of one block: their text is far below the 2 GB of an Arrow array."""


class Cells(Protocol):
    """The cells of one column of a block."""

    def part(self, rows: slice) -> "Cells":
        """Return the cells of some rows."""

    def values(self, count: int) -> list[Json]:
        """Return the cells as those of `count` rows."""

    def arrow(self, type_name: str, count: int) -> "pa.Array":
        """Return the cells of `count` rows as an Arrow array of a type of `Column.type`."""

    def join(self, known: ColumnType) -> None:
        """Join the types of the cells."""


class Same:
    """One value in all rows."""

    def __init__(self, value: Json) -> None:
        self.value = value

    def part(self, rows: slice) -> "Same":
        """Return the cells of some rows."""
        return self

    def values(self, count: int) -> list[Json]:
        """Return the value `count` times."""
        return [self.value] * count

    def arrow(self, type_name: str, count: int) -> "pa.Array":
        """Return the value `count` times as an Arrow array."""
        pa = pyarrow()
        if self.value is None:
            return _extended(type_name, pa.nulls(count, _storage(type_name)))
        one = arrow_array([self.value], type_name)
        if type_name == JSON:
            return _extended(type_name, pa.repeat(one.storage[0], count))
        return pa.repeat(one[0], count)

    def join(self, known: ColumnType) -> None:
        """Join the type of the value."""
        known.add(self.value)


class Values:
    """A number of each row, or a vector.

    Args:
        array: Array `(rows, *shape)`.
    """

    def __init__(self, array: Array) -> None:
        self.array = array

    def part(self, rows: slice) -> Self:
        """Return the cells of some rows."""
        return type(self)(self.array[rows])

    def values(self, count: int) -> list[Json]:
        """Return the numbers, or lists of numbers."""
        plain: list[Json] = self.array.tolist()
        return plain

    def arrow(self, type_name: str, count: int) -> "pa.Array":
        """Return the numbers as an Arrow array, a vector as a list."""
        pa, array = pyarrow(), self.array
        if type_name == JSON:
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                return arrow_array(array.tolist(), JSON)  # its names of NaN are not in JSON
            return _extended(JSON, json_texts(array))
        wanted = arrow_type(type_name)
        if array.ndim == 1:
            return pa.array(array).cast(wanted)
        size = array.shape[1]
        flat = pa.array(np.ascontiguousarray(array).reshape(-1)).cast(wanted.value_type)
        ends = np.arange(0, len(flat) + 1, size, dtype=np.int32)
        return pa.ListArray.from_arrays(pa.array(ends), flat)

    def join(self, known: ColumnType) -> None:
        """Join the types of the numbers."""
        known.add_array(self.array)


class JsonValues(Values):
    """A value of each row that its column holds as JSON text."""

    def values(self, count: int) -> list[Json]:
        """Return the values, marked as those of JSON text."""
        return [JsonCell(value) for value in self.array.tolist()]


class JsonObjects:
    """An object of each row that its column holds as JSON text.

    Args:
        columns: Array of each field.
    """

    def __init__(self, columns: Mapping[str, Array]) -> None:
        self.columns = dict(sorted(columns.items()))

    def part(self, rows: slice) -> "JsonObjects":
        """Return the cells of some rows."""
        return JsonObjects({name: column[rows] for name, column in self.columns.items()})

    def values(self, count: int) -> list[Json]:
        """Return the objects, marked as those of JSON text."""
        rows = zip(*(column.tolist() for column in self.columns.values()), strict=True)
        return [JsonCell(dict(zip(self.columns, row, strict=True))) for row in rows]

    def arrow(self, type_name: str, count: int) -> "pa.Array":
        """Return the objects as an Arrow array of canonical JSON text."""
        parts: list[Any] = []
        for place, (name, column) in enumerate(self.columns.items()):
            parts += ["{" if not place else ",", f"{json_text(name)}:", json_texts(column)]
        return _extended(type_name, _joined(*parts, "}"))

    def join(self, known: ColumnType) -> None:
        """Join the type of objects."""
        known.add({})


class Names:
    """The names `stem:number` of rows; null where the number is negative."""

    def __init__(self, stem: str, numbers: Array) -> None:
        self.stem, self.numbers = stem, numbers

    def part(self, rows: slice) -> "Names":
        """Return the cells of some rows."""
        return Names(self.stem, self.numbers[rows])

    def values(self, count: int) -> list[Json]:
        """Return the names."""
        stem = self.stem
        return [f"{stem}:{row}" if row >= 0 else None for row in self.numbers.tolist()]

    def arrow(self, type_name: str, count: int) -> "pa.Array":
        """Return the names as an Arrow array."""
        pa = pyarrow()
        numbers = pa.array(self.numbers, mask=self.numbers < 0).cast(pa.string())
        return _joined(f"{self.stem}:", numbers)

    def join(self, known: ColumnType) -> None:
        """Join the type of names."""
        known.add(self.stem)


class Chosen:
    """One of a few values of each row.

    Args:
        choices: The values.
        places: Place of the value of each row among them.
    """

    def __init__(self, choices: Sequence[Json], places: Array) -> None:
        self.choices, self.places = choices, places

    def part(self, rows: slice) -> "Chosen":
        """Return the cells of some rows."""
        return Chosen(self.choices, self.places[rows])

    def values(self, count: int) -> list[Json]:
        """Return the values."""
        return list(map(self.choices.__getitem__, self.places.tolist()))

    def arrow(self, type_name: str, count: int) -> "pa.Array":
        """Return the values as an Arrow array."""
        return arrow_array(list(self.choices), type_name).take(pyarrow().array(self.places))

    def join(self, known: ColumnType) -> None:
        """Join the types of the values."""
        known.add_all(self.choices)


class RowBlock:
    """Rows of one table, a column at a time.

    Args:
        count: Number of rows.
        cells: Cells of each fixed column.
        prefix: Kind whose columns `open_cells` fill.
        open_cells: Cells of each field of the kind.
    """

    def __init__(
        self,
        count: int,
        cells: Sequence[Cells],
        prefix: str = "",
        open_cells: Mapping[str, Cells] | None = None,
    ) -> None:
        self.count, self.cells, self.prefix = count, tuple(cells), prefix
        self.open_cells = dict(open_cells or {})

    def parts(self) -> Iterator["RowBlock"]:
        """Yield the rows in blocks of at most `BLOCK_ROWS`."""
        if self.count <= BLOCK_ROWS:
            yield self
            return
        for start in range(0, self.count, BLOCK_ROWS):
            rows = slice(start, min(start + BLOCK_ROWS, self.count))
            yield RowBlock(
                rows.stop - rows.start,
                [cells.part(rows) for cells in self.cells],
                self.prefix,
                {name: cells.part(rows) for name, cells in self.open_cells.items()},
            )

    def rows(self) -> Iterator[Row]:
        """Yield the rows one by one, for iteration in Python."""
        for block in self.parts():
            fixed = zip(*(cells.values(block.count) for cells in block.cells), strict=True)
            names = list(block.open_cells)
            columns = [cells.values(block.count) for cells in block.open_cells.values()]
            payloads = zip(*columns, strict=True) if columns else ((),) * block.count
            for row, payload in zip(fixed, payloads, strict=True):
                yield Row(row, block.prefix, dict(zip(names, payload, strict=True)))


def json_texts(array: Array) -> "pa.Array":
    """Return the values of the rows of an array of finite numbers as canonical JSON texts.

    All are encoded at once, and split where a row ends: no deeper place has as many brackets.
    """
    pa = pyarrow()
    depth = array.ndim - 1
    if not len(array):
        return pa.array([], pa.string())
    text = _ENCODER.encode(array.tolist()).decode()
    whole = pa.scalar(text[1 + depth : -1 - depth] if depth else text[1:-1])
    end, begin = "]" * depth, "[" * depth
    split = _compute().split_pattern(pa.array([whole]), f"{end},{begin}").values
    return _joined(begin, split, end) if depth else split


_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


def _joined(*parts: Any) -> "pa.Array":  # noqa: ANN401  # arrays and texts
    return _compute().binary_join_element_wise(*parts, "")


def _compute() -> Any:  # noqa: ANN401  # a module
    from pyarrow import compute  # noqa: PLC0415  # an extra

    return compute


def _storage(type_name: str) -> "pa.DataType":
    return pyarrow().string() if type_name == JSON else arrow_type(type_name)


def _extended(type_name: str, array: "pa.Array") -> "pa.Array":
    """Return an array of JSON texts with their type, or any other array as it is."""
    if type_name != JSON:
        return array
    return pyarrow().ExtensionArray.from_storage(arrow_type(JSON), array)
