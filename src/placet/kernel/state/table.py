"""A table: a collection of a fixed number of rows, one array a field.

To the rest of the kernel it is a `Collection`: an entity of it is made when one is asked for, and
its fields and its stamp read and write the arrays. A cut and a mark share the arrays; the first
write after it copies the array that it changes. So an array that a cut or a mark holds never
changes, and a rollback puts references back.
"""

from collections.abc import Iterator, Mapping, MutableMapping
from itertools import repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn, TypeAlias, cast

import numpy as np

from placet.kernel.arrays.authors import BY_OPERATOR, NAMED, SEVERAL, Authors
from placet.kernel.arrays.field import Field, spec_of
from placet.kernel.arrays.values import cell, json_of
from placet.kernel.arrays.words import SEGMENT, Array, buffers, row_keys, summed_hash, words_of
from placet.kernel.prng import name_hash
from placet.kernel.state.collection import OF_TABLE, Collection, Entity
from placet.schemas.batch import sequence_form
from placet.schemas.codec import Json
from placet.schemas.identity import OPERATOR

if TYPE_CHECKING:
    from numpy.typing import NDArray

Stamps: TypeAlias = tuple["NDArray[np.int64]", "NDArray[np.int32]", "NDArray[np.int64]"]
"""`(seqs, bys, foreign)` of the rows."""

_STAMPS: Final = ""
"""Name under which the stamps are shared, all together; no field has it."""


class TableVersion(NamedTuple):
    """A version of a table, to which `TableData.go_back` returns. Its arrays are never written.

    Attributes:
        columns: Array of each field.
        stamps: The stamps of the rows.
        named: `TableData.named`.
        dirty: Segments whose share of the digest was out of date, of each field.
        shares: Share of each segment in the digest, of each field.
        total: Sum of the shares.
        shared: Names of the arrays that were shared before.
    """

    columns: dict[str, Array]
    stamps: Stamps
    named: dict[int, str]
    dirty: dict[str, "NDArray[np.bool_]"]
    shares: dict[str, list[int]]
    total: int
    shared: set[str]


class TableData(Collection):
    """The rows of a table.

    Attributes:
        name: Name of the collection.
        fields: Field of each name.
        stem: Stem of the names of its rows.
        count: Number of rows.
        columns: Array of each field, `(count, *field.sizes)`.
        seqs, bys, foreign: The stamps of the rows: latest seq, number of its author, latest seq of
            another.
        named: Author of each row whose `bys` is `NAMED`.
        latest_cut: The table at the latest cut; None before the first.
    """

    __slots__ = (
        *("_dirty", "_keys", "_salts", "_shared", "_shares", "_total", "authors", "bys"),
        *("columns", "count", "fields", "foreign", "latest_cut", "name", "named", "seqs", "stem"),
    )

    is_table = True

    def __init__(  # noqa: PLR0917  # the parts of its record
        self,
        authors: Authors,
        name: str,
        fields: Mapping[str, Field],
        stem: str,
        count: int,
        columns: Mapping[str, Array],
        seq: int,
    ) -> None:
        super().__init__()
        self.authors = authors
        self.name, self.fields, self.stem, self.count = name, fields, stem, count
        self.columns: dict[str, Array] = {
            key: np.full((count, *one.sizes), one.default, one.dtype)
            if key not in columns
            else columns[key]
            for key, one in fields.items()
        }
        self.latest_cut: TableData | None = None
        self._shared = set(columns)  # arrays of a record's bytes cannot be written
        self.seqs = np.full(count, seq, np.int64)
        self.bys = np.full(count, BY_OPERATOR, np.int32)
        self.foreign = np.zeros(count, np.int64)
        self.named: dict[int, str] = {}
        self.seq, self.by = seq, OPERATOR
        segments = -(-count // SEGMENT)
        self._dirty = {key: np.ones(segments, np.bool_) for key in fields}
        self._shares = {key: [0] * segments for key in fields}
        self._total = 0
        self._keys = row_keys(stem, count)
        self._salts = {
            key: [name_hash(f"{name}/{key}/{place}") for place in range(one.components)]
            for key, one in fields.items()
        }
        self.entities = cast("dict[str, Entity]", TableRows(self))  # a mapping that is only read

    @property
    def has_been(self) -> bool:
        """A table is there from its record on."""
        return True

    def number_of(self, name: object) -> int:
        """Return the number of a row by its name; -1 if there is no such row."""
        form = sequence_form(name) if type(name) is str else None
        return form[1] if form is not None and form[0] == self.stem and form[1] < self.count else -1

    # writing

    def writable(self, field: str, *, is_whole: bool = False) -> Array:
        """Return the array of a field for writing; a shared one is copied first.

        Args:
            field: Name of the field.
            is_whole: All rows will be written, so the values of a shared array are not copied.
        """
        column = self.columns[field]
        if field in self._shared:
            self._shared.discard(field)
            column = np.empty_like(column) if is_whole else column.copy()
            self.columns[field] = column
        return column

    def shown(self, field: str) -> Array:
        """Return the present values of a field, read-only: a later change writes into a copy."""
        self._shared.add(field)
        column = self.columns[field].view()
        column.flags.writeable = False
        return column

    def writable_stamps(self) -> Stamps:
        """Return seqs, bys and foreign for writing, as `named` is after it; shared are copied."""
        if _STAMPS in self._shared:
            self._shared.discard(_STAMPS)
            self.seqs, self.bys, self.foreign = (
                self.seqs.copy(),
                self.bys.copy(),
                self.foreign.copy(),
            )
            self.named = dict(self.named)
        return self.seqs, self.bys, self.foreign

    def mark_dirty(self, field: str, rows: "NDArray[np.int64] | int | None") -> None:
        """Note that rows of a field changed; None is all."""
        dirty = self._dirty[field]
        if isinstance(rows, int) or (rows is not None and len(rows) <= 4 * len(dirty)):
            dirty[rows // SEGMENT] = True
        else:  # to find the segments of many rows would cost more than to hash all
            dirty[:] = True

    def protect(self, field: str) -> None:
        """Have the array of a field copied before its next write."""
        self._shared.add(field)

    def touch_rows(self, rows: "NDArray[np.int64] | None", seq: int, by: int) -> None:
        """Stamp rows, each once, as `Stamp.touch` by an author of this number; None is all."""
        if rows is None:  # new arrays cost less than a copy of shared ones
            self.foreign = np.where(self.bys != by, self.seqs, self.foreign)
            self.seqs = np.full(self.count, seq, np.int64)
            self.bys = np.full(self.count, by, np.int32)
            self.named = {}
            self._shared.discard(_STAMPS)
            return
        seqs, bys, foreign = self.writable_stamps()
        foreign[rows] = np.where(bys[rows] != by, seqs[rows], foreign[rows])
        if self.named:
            for row in rows.tolist():
                self.named.pop(row, None)
        bys[rows], seqs[rows] = by, seq

    def set_author(self, row: int, by: str) -> None:
        """Set the author of the latest change of a row; the empty name is that of several."""
        number = self.authors.number_of(by) if by else SEVERAL
        self.writable_stamps()[1][row] = number
        if number == NAMED:
            self.named[row] = by
        else:
            self.named.pop(row, None)

    def author_of(self, row: int) -> str:
        """Return the author of the latest change of a row; empty if there were several."""
        number = int(self.bys[row])
        return self.named[row] if number == NAMED else self.authors.name_of(number)

    def differences(self, other: "TableData") -> list[tuple[int, str, Json, Json]] | None:
        """Return the values that differ from those of another table, by their bytes.

        Returns:
            `(row, field, value here, value there)`, sorted; None if the other table does not have
            the same rows and fields.
        """
        if (self.stem, self.count, self.fields) != (other.stem, other.count, other.fields):
            return None
        found: list[tuple[int, str, Json, Json]] = []
        for name, first in self.columns.items():
            second = other.columns[name]
            rows = np.flatnonzero((words_of(first) != words_of(second)).any(axis=1))
            values = first[rows].tolist(), second[rows].tolist()
            found += zip(rows.tolist(), repeat(name), *values, strict=False)
        found.sort(key=itemgetter(0, 1))
        return found

    # versions

    def share(self) -> TableVersion:
        """Return the present version, whose arrays are copied before the next write.

        O(fields, and rows / 8 192).
        """
        before, self._shared = self._shared, {*self.fields, _STAMPS}
        return TableVersion(
            dict(self.columns),
            (self.seqs, self.bys, self.foreign),
            self.named,
            {name: dirty.copy() for name, dirty in self._dirty.items()},
            {name: shares.copy() for name, shares in self._shares.items()},
            self._total,
            before,
        )

    def go_back(self, version: TableVersion, *, is_kept: bool) -> None:
        """Return to a version; an array that was not written since is the same.

        Args:
            version: The version.
            is_kept: The version is held further, so its arrays stay shared.
        """
        self.columns = dict(version.columns)
        self.seqs, self.bys, self.foreign = version.stamps
        self.named = version.named
        self._dirty = {name: dirty.copy() for name, dirty in version.dirty.items()}
        self._shares = {name: shares.copy() for name, shares in version.shares.items()}
        self._total = version.total
        self._shared = {*self.fields, _STAMPS} if is_kept else set(version.shared)

    def release(self, version: TableVersion) -> None:
        """Write arrays in place again that were copied before a write for this version alone."""
        self._shared &= version.shared

    def make_cut(self) -> "TableData":
        """Return an immutable copy that shares the columns, and has no stamps to rely on.

        Its `changed` is {} if no array was replaced since the cut before, else None: any row may
        have changed. O(fields).
        """
        before = self.latest_cut
        self._shared |= self.fields.keys()
        cut = TableData.__new__(TableData)
        Collection.__init__(cut)
        cut.name, cut.fields, cut.stem, cut.count = self.name, self.fields, self.stem, self.count
        cut.authors, cut.columns, cut.named = self.authors, dict(self.columns), {}
        cut.seqs = cut.foreign = np.broadcast_to(np.int64(0), self.count)
        cut.bys = np.broadcast_to(np.int32(BY_OPERATOR), self.count)
        cut.seq, cut.by = self.seq, self.by
        cut.entities = cast("dict[str, Entity]", TableRows(cut))
        if before is not None and before.count == self.count:
            is_same = all(before.columns[name] is self.columns[name] for name in self.fields)
            cut.changed = {} if is_same else None
        self.latest_cut = cut
        return cut

    def become(self, other: "TableData") -> None:
        """Take over the contents of another table, which is not used afterwards.

        The rows of this table that were read before show them too.
        """
        for name in (*TableData.__slots__, "seq", "by", "foreign_seq"):
            setattr(self, name, getattr(other, name))

    # the whole

    def as_dict(self) -> dict[str, dict[str, Json]]:
        """Return all rows as plain JSON values, sorted by name. O(rows * log rows)."""
        names = [f"{self.stem}:{row}" for row in range(self.count)]
        values = zip(*(column.tolist() for column in self.columns.values()), strict=True)
        rows = [dict(zip(self.columns, row, strict=True)) for row in values]
        return dict(sorted(zip(names, rows, strict=True)))

    def contents(self) -> list[tuple[str, bytes]]:
        """Return name and values of each column with other values than its default."""
        columns = ((name, column, self.fields[name]) for name, column in self.columns.items())
        return [
            (name, column.tobytes())
            for name, column, field in columns
            if not (column == np.array(field.default, field.dtype)).all()
        ]

    def dump(self) -> list[Json]:
        """Return the table with its stamps, for snapshots and the world digest. O(rows)."""
        arrays = (*self.columns.values(), self.seqs, self.bys, self.foreign)
        return [
            self.name,
            self.stem,
            self.count,
            self.seq,
            [[name, *spec_of(field)] for name, field in self.fields.items()],
            [array.tobytes() for array in arrays],
            sorted(self.named.items()),
        ]

    @staticmethod
    def load(  # noqa: PLR0917  # the parts of a dump
        authors: Authors,
        name: str,
        stem: str,
        count: int,
        seq: int,
        specs: list[Json],
        arrays: list[bytes],
        named: list[tuple[int, str]],
    ) -> "TableData":
        """Return the table of a dump."""
        fields = {key: Field(*spec) for key, *spec in specs}
        columns = {
            key: np.frombuffer(data, one.dtype).reshape(count, *one.sizes)
            for (key, one), data in zip(fields.items(), arrays, strict=False)
        }
        table = TableData(authors, name, fields, stem, count, columns, seq)
        *_, seqs, bys, foreign = arrays
        table.seqs = np.frombuffer(seqs, np.int64).copy()
        table.bys = np.frombuffer(bys, np.int32).copy()
        table.foreign = np.frombuffer(foreign, np.int64).copy()
        table.named = dict(named)
        return table

    def digest(self) -> int:
        """Return the table's share of the state digest: a sum over rows, fields and components.

        Only segments that changed are summed again. The sum over any split of the rows is the same.
        """
        used = buffers()
        for name, dirty in self._dirty.items():
            if not dirty.any():
                continue
            shares, words, salts = (
                self._shares[name],
                words_of(self.columns[name]),
                self._salts[name],
            )
            for segment in np.flatnonzero(dirty).tolist():
                part = slice(segment * SEGMENT, (segment + 1) * SEGMENT)
                share = sum(
                    summed_hash(self._keys[part], words[part, place], salt, used)
                    for place, salt in enumerate(salts)
                )
                self._total += share - shares[segment]
                shares[segment] = share
            dirty[:] = False
        return self._total


class RowFields(MutableMapping[str, Json]):
    """The fields of one row, as the dict of an `Entity`."""

    __slots__ = ("_row", "_table")

    def __init__(self, table: TableData, row: int) -> None:
        self._table, self._row = table, row

    def __getitem__(self, name: str) -> Json:
        return json_of(self._table.columns[name][self._row])

    def __setitem__(self, name: str, value: Json) -> None:
        table, row = self._table, self._row
        if name not in table.fields:
            raise KeyError(
                f"the table {table.name!r} has no field {name!r}; "
                f"its fields are {sorted(table.fields)}"
            )
        fit = cell(table.fields[name], value, f"{table.name}/{table.stem}:{row}/{name}")
        table.writable(name)[row] = fit[0]
        table.mark_dirty(name, row)

    def __delitem__(self, name: str) -> NoReturn:
        raise TypeError(f"a row of the table {self._table.name!r} has all of its fields")

    def __iter__(self) -> Iterator[str]:
        return iter(self._table.columns)

    def __len__(self) -> int:
        return len(self._table.columns)


class RowEntity(Entity):
    """One row of a table as an `Entity`, made when one is asked for; two of one row are equal."""

    __slots__ = ("_row", "_table")

    def __init__(self, table: TableData, row: int) -> None:
        self._table, self._row = table, row
        self.fields = cast("dict[str, Json]", RowFields(table, row))

    # Entity has slots of these names; here they are computed, so that the arrays are their storage.
    epoch = property(lambda _: OF_TABLE)
    digest = property(lambda _: 0, lambda _self, _value: None)
    seq = property(
        lambda self: int(self._table.seqs[self._row]),
        lambda self, seq: self._table.writable_stamps()[0].__setitem__(self._row, seq),
    )
    by = property(
        lambda self: self._table.author_of(self._row),
        lambda self, by: self._table.set_author(self._row, by),
    )
    foreign_seq = property(
        lambda self: int(self._table.foreign[self._row]),
        lambda self, seq: self._table.writable_stamps()[2].__setitem__(self._row, seq),
    )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowEntity) and (self._table, self._row) == (
            other._table,
            other._row,
        )

    def __hash__(self) -> int:
        return self._row


class TableRows(Mapping[str, RowEntity]):
    """The rows of a table by name, in the order of their numbers."""

    __slots__ = ("_table",)

    def __init__(self, table: TableData) -> None:
        self._table = table

    def __getitem__(self, name: str) -> RowEntity:
        row = self._table.number_of(name)
        if row < 0:
            raise KeyError(name)
        return RowEntity(self._table, row)

    def __contains__(self, name: object) -> bool:
        return self._table.number_of(name) >= 0

    def __iter__(self) -> Iterator[str]:
        stem = self._table.stem
        return (f"{stem}:{row}" for row in range(self._table.count))

    def __len__(self) -> int:
        return self._table.count

    def ids(self) -> tuple[str, ...]:
        """Return the names of all rows, in the order of their numbers. O(rows)."""
        return tuple(self)
