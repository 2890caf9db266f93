"""Tables and populations in the light fold: arrays, which a column batch changes as arrays.

A row becomes a dict when a reader asks for it. numpy, an extra, is imported by the methods that
compute, so the log of a world without tables is folded without it.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from placet.kernel.arrays.field import spec_of
from placet.schemas.batch import sequence_form
from placet.schemas.codec import Json, thaw
from placet.schemas.log.column_records import ColumnWrite
from placet.schemas.log.record import Columns, Record, TableMade

if TYPE_CHECKING:
    from placet.kernel.state.table import TableData


PlayedField: TypeAlias = tuple[str, list[int], float | int, float | int | None, float | int | None]
"""Dtype, shape, default, low and high of a field."""


class PlayedPopulation(msgspec.Struct, array_like=True):
    """A population as the log describes it.

    Attributes:
        owner: Its owner.
        permissions: Kinds that its members may propose; None for all.
        count: Number of members.
        suspended: Numbers of the suspended members, ascending.
    """

    owner: str
    permissions: list[str] | None
    count: int
    suspended: list[int] = []

    def suspend(self, number: int, *, is_suspended: bool) -> None:
        """Suspend or resume a member."""
        others = [other for other in self.suspended if other != number]
        self.suspended = sorted([*others, number]) if is_suspended else others


class PlayedTable(msgspec.Struct, array_like=True):
    """A table at one position of the log. It is changed in place.

    Attributes:
        stem: Stem of the names of its rows.
        count: Number of rows.
        fields: Dtype, shape, default and declared bounds of each field.
        columns: Values of each field, in the order of the rows.
    """

    stem: str
    count: int
    fields: dict[str, PlayedField]
    columns: dict[str, bytearray]

    @classmethod
    def made(cls, record: TableMade) -> "PlayedTable":
        """Return the table of a record, without the changes of hooks."""
        from placet.kernel.arrays.authors import Authors  # noqa: PLC0415  # imports numpy
        from placet.kernel.commit.table_made import table_of  # noqa: PLC0415

        return cls.of(table_of(record, Authors()))

    @classmethod
    def of(cls, table: "TableData") -> "PlayedTable":
        """Return a copy of the table of a replayed state."""
        fields: dict[str, PlayedField] = {name: spec_of(one) for name, one in table.fields.items()}
        columns = {name: bytearray(values.tobytes()) for name, values in table.columns.items()}
        return cls(table.stem, table.count, fields, columns)

    def column(self, field: str) -> Any:  # noqa: ANN401  # an array of numpy
        """Return the values of a field as an array `(rows, *shape)` over `columns`."""
        import numpy as np  # noqa: PLC0415  # an extra

        dtype, shape, *_ = self.fields[field]
        return np.frombuffer(self.columns[field], dtype).reshape(self.count, *shape)

    def number_of(self, entity: object) -> int:
        """Return the number of a row by its name; -1 if there is no such row."""
        form = sequence_form(entity) if type(entity) is str else None
        is_row = form is not None and form[0] == self.stem and form[1] < self.count
        return form[1] if form is not None and is_row else -1

    def row(self, number: int) -> dict[str, Json]:
        """Return the fields of a row as plain values."""
        return {field: self.column(field)[number].tolist() for field in self.columns}

    def put(self, entity: str, fields: Mapping[str, Json]) -> None:
        """Write fields of one row.

        Raises:
            KeyError: The table has no such row or field.
        """
        number = self.number_of(entity)
        if number < 0:
            raise KeyError(entity)
        for field, value in fields.items():
            self.column(field)[number] = thaw(value)

    def write(self, write: ColumnWrite) -> None:
        """Write the column of a hook."""
        numbers, values = self.written(write)
        self.column(write.field)[numbers] = values

    def written(self, write: ColumnWrite) -> tuple[Any, Any]:
        """Return the numbers of the rows that a hook wrote, and their values, as arrays."""
        import numpy as np  # noqa: PLC0415  # an extra

        dtype, shape, *_ = self.fields[write.field]
        numbers = np.frombuffer(write.at, "<u4") if write.at else np.arange(self.count)
        return numbers, np.frombuffer(write.data, dtype).reshape(len(numbers), *shape)

    def digest(self, name: str) -> int:
        """Return the table's share of the state digest. O(table)."""
        from placet.kernel.arrays.authors import Authors  # noqa: PLC0415  # imports numpy
        from placet.kernel.arrays.field import Field  # noqa: PLC0415
        from placet.kernel.state.table import TableData  # noqa: PLC0415

        fields: dict[str, Any] = {
            field: Field(dtype, tuple(shape))  # type: ignore[arg-type]  # a record's dtype is checked here
            for field, (dtype, shape, *_) in self.fields.items()
        }
        columns = {field: self.column(field) for field in self.columns}
        return TableData(Authors(), name, fields, self.stem, self.count, columns, 0).digest()


class TableEntities(Mapping[str, Mapping[str, Json]]):
    """The rows of a table by name, each made when it is asked for."""

    __slots__ = ("table",)

    def __init__(self, table: PlayedTable) -> None:
        self.table = table

    def __getitem__(self, entity: str) -> dict[str, Json]:
        number = self.table.number_of(entity)
        if number < 0:
            raise KeyError(entity)
        return self.table.row(number)

    def __contains__(self, entity: object) -> bool:
        return self.table.number_of(entity) >= 0

    def __iter__(self) -> Iterator[str]:
        return (f"{self.table.stem}:{number}" for number in range(self.table.count))

    def __len__(self) -> int:
        return self.table.count


def apply_columns(tables: Mapping[str, PlayedTable], record: Columns, count: int) -> None:
    """Write the changes of a column batch of a population with so many members. O(rows), as arrays.

    Raises:
        KeyError: A table or a field of the record is not there.
    """
    import numpy as np  # noqa: PLC0415  # an extra

    from placet.kernel.columns.recorded import RecordedColumns  # noqa: PLC0415  # imports numpy

    sizes = {
        name: {field: shape for field, (_, shape, *_) in table.fields.items()}
        for name, table in tables.items()
    }
    columns = RecordedColumns(record, count)
    for call in columns.calls(sizes):
        targets = columns.targets(call.at)
        column = tables[call.table].column(call.field)
        is_row = targets >= 0
        values = call.values[is_row]
        if call.op == "put":
            column[targets[is_row]] = values
        else:
            np.add.at(column, targets[is_row], values.astype(column.dtype))


def written_tables(record: Record) -> set[str]:
    """Return the names of the tables that a record makes, or of which it writes whole columns."""
    names = {write.table for write in getattr(record, "written", None) or ()}
    if isinstance(record, TableMade):
        names.add(record.table)
    if isinstance(record, Columns):
        names.update(change.table for change in record.changes)
    return names
