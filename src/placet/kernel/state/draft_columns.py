"""The columns of tables as the hooks of a world read and write them, and how a replay writes them.

A hook writes arrays in place of entities: whole columns, or the rows of a mask. Its record holds
the values at its end, once for each row and field, so a replay needs no domain, and the order of
column writes and puts of single rows within a hook does not matter to it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from placet.kernel.arrays.authors import BY_SYSTEM
from placet.kernel.arrays.field import Field
from placet.kernel.arrays.values import Mask, required
from placet.kernel.arrays.words import Array
from placet.kernel.state.table import TableData, TableVersion
from placet.kernel.state.tree import State
from placet.schemas.log.column_records import ColumnWrite
from placet.schemas.name_suggestions import did_you_mean

Rows: TypeAlias = NDArray[np.int64]


class HookDraft(Protocol):
    """The draft of the hooks of one record.

    Attributes:
        state: The tree.
        column_hook: The hook that runs.
    """

    state: State
    column_hook: "ColumnHook | None"

    @property
    def writes_count(self) -> int:
        """Number of writes of entities so far."""


class ColumnHook:
    """The column writes of the hooks of one record, until it is final or undone.

    Attributes:
        draft: The draft of the hooks.
        seq: Seq of the record.
        undo: `(number of writes of the draft before, table, its version then)` of each table, from
            before its first column write on.
        names: Table of each write, in order.
    """

    __slots__ = ("_columns", "draft", "names", "seq", "undo")

    def __init__(self, draft: HookDraft, seq: int) -> None:
        self.draft, self.seq = draft, seq
        self.undo: list[tuple[int, TableData, TableVersion]] = []
        self.names: list[str] = []
        self._columns: dict[str, DraftColumns] = {}

    def columns(self, table: str) -> "DraftColumns":
        """Return the columns of a table.

        Raises:
            KeyError: There is no such table.
        """
        columns = self._columns.get(table)
        if columns is None:
            tables = self.draft.state.tables
            if table not in tables:
                raise KeyError(f"there is no table {table!r} yet; {did_you_mean(table, tables)}")
            columns = self._columns[table] = DraftColumns(tables[table], self)
        return columns

    def note(self, table: TableData) -> None:
        """Note a write of a table before it is made."""
        if table.name not in self.names:
            self.undo.append((self.draft.writes_count, table, table.share()))
        self.names.append(table.name)

    def written(self) -> list[ColumnWrite]:
        """Return the written values as they are now, for the record."""
        return [write for columns in self._columns.values() for write in columns.written()]


class DraftColumns(Mapping[str, Array]):
    """The columns of one table in `on_open`, `on_populate`, `on_tick` or `on_settle`.

    `columns[field]` is a read-only array `(rows, *field.shape)` of the values at this moment.
    """

    __slots__ = ("_hook", "_read", "_table", "_written")

    def __init__(self, table: TableData, hook: ColumnHook) -> None:
        self._table, self._hook = table, hook
        self._read: set[str] = set()
        self._written: dict[str, Mask | None] = {}  # None: all rows

    def __repr__(self) -> str:
        return f"<DraftColumns of {self._table.name!r}: {self._table.count} rows>"

    def __getitem__(self, field: str) -> Array:
        self._require_open()
        self._field(field)
        self._read.add(field)
        column = self._table.columns[field].view()
        column.flags.writeable = False
        return column

    def __iter__(self) -> Iterator[str]:
        return iter(self._table.fields)

    def __len__(self) -> int:
        return len(self._table.fields)

    def set(self, field: str, values: ArrayLike, where: ArrayLike | None = None) -> None:
        """Write a column, or some of its rows; each written row is changed by `system`.

        Args:
            field: Name of the field.
            values: Array `(rows, *field.shape)` of the written rows, or one number for all.
            where: Written rows: a mask `(rows,)` of booleans, or row numbers, each once. None is
                all rows.

        Raises:
            KeyError: The table has no such field.
            TypeError: The hook is over.
            ValueError: The values do not fit the field, or `where` the table; nothing was written.
        """
        self._require_open()
        table, one = self._table, self._field(field)
        mask, rows = _rows_of(table, where)
        count = table.count if rows is None else len(rows)
        if np.ndim(values) == 0:
            values = np.full((count, *one.sizes), values)
        fit = required(f"{field} of table {table.name!r}", one, values, count)
        if not count:
            return
        self._hook.note(table)
        if field in self._read:  # an array that the hook has read stays as it was
            self._read.discard(field)
            table.protect(field)
        write_column(table, field, rows, fit, self._hook.seq)
        if mask is None:
            self._written[field] = None
        elif field not in self._written:
            self._written[field] = mask
        elif (before := self._written[field]) is not None:
            before |= mask

    def written(self) -> Iterator[ColumnWrite]:
        """Yield the present values of the written rows of each written field."""
        name = self._table.name
        for field, mask in self._written.items():
            column = self._table.columns[field]
            if mask is None or mask.all():
                yield ColumnWrite(name, field, b"", column.tobytes())
            else:
                rows = np.flatnonzero(mask)
                yield ColumnWrite(name, field, rows.astype("<u4").tobytes(), column[rows].tobytes())

    def _field(self, name: str) -> Field:
        fields = self._table.fields
        if name not in fields:
            raise KeyError(
                f"the table {self._table.name!r} has no field {name!r}; "
                f"{did_you_mean(name, fields)}"
            )
        return fields[name]

    def _require_open(self) -> None:
        """Check that the hook runs; another hook within it must not write columns either."""
        if self._hook.draft.column_hook is not self._hook:
            raise TypeError(
                f"these columns of {self._table.name!r} are of a hook that does not run; call "
                "draft.columns in each hook anew"
            )


def _rows_of(table: TableData, where: ArrayLike | None) -> tuple[Mask | None, Rows | None]:
    """Return the mask and the numbers of the written rows; None is all.

    Raises:
        ValueError: `where` is neither a mask of the table nor numbers of rows of it.
    """
    if where is None:
        return None, None
    given = np.asarray(where)
    if given.dtype == np.bool_:
        if given.shape != (table.count,):
            raise ValueError(
                f"a mask of table {table.name!r} has shape ({table.count},), got {given.shape}"
            )
        return given.copy(), np.flatnonzero(given)
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise ValueError(
            f"`where` is a mask or row numbers of table {table.name!r}, "
            f"got {given.dtype} of shape {given.shape}"
        )
    is_row = (given >= 0) & (given < table.count)  # numpy would take -1 for the last row
    if not is_row.all():
        raise ValueError(
            f"the table {table.name!r} has rows 0..{table.count - 1}, got {given[~is_row][0]}"
        )
    rows, mask = given.astype(np.int64), np.zeros(table.count, np.bool_)
    mask[rows] = True
    if np.count_nonzero(mask) != len(rows):
        raise ValueError(f"`where` names a row of table {table.name!r} twice; name each once")
    return mask, rows


def write_column(table: TableData, field: str, rows: Rows | None, values: Array, seq: int) -> None:
    """Write rows of a field, each once, and stamp them as changed by `system`; None is all."""
    column = table.writable(field, is_whole=rows is None)
    column[slice(None) if rows is None else rows] = values
    table.mark_dirty(field, rows)
    table.touch_rows(rows, seq, BY_SYSTEM)


def fold_written(state: State, written: Sequence[ColumnWrite], seq: int) -> None:
    """Write the columns of a record, before its changes of entities, which have their stamps."""
    for write in written:
        table = state.tables[write.table]
        field = table.fields[write.field]
        rows = np.frombuffer(write.at, "<u4").astype(np.int64) if write.at else None
        count = table.count if rows is None else len(rows)
        values = np.frombuffer(write.data, field.dtype).reshape(count, *field.sizes)
        write_column(table, write.field, rows, values, seq)
