"""Compare two records of column batches, and find the first row in which they differ.

Rows are compared by their bytes, as the records are: NaN equals itself, and 0.0 differs from -0.0.
The messages of refusals are not compared (`divergence.py`).
"""

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from placet.kernel.arrays.row_codes import CONFLICT, OK, refusal_of
from placet.kernel.arrays.values import json_of
from placet.kernel.arrays.words import Array
from placet.kernel.columns.recorded import RecordedColumns
from placet.schemas.codec import Json
from placet.schemas.log.column_records import ColumnChange, Columns

_NAMES: Final = ("kind", "version", "population", "submitter", "req_id")
_REST: Final = ("fingerprint", "group_seq", "tick", "group", "number", "codes", "changes")
"""Fields that are compared as wholes where no row differs."""


class RowDifference(NamedTuple):
    """The first difference of two column batches.

    Attributes:
        name: Name of the differing value, for people.
        recorded: The value in the first record.
        decided: The value in the second.
        row: The first row that was decided otherwise; None if what went into the records differs,
            or no row does.
    """

    name: str
    recorded: Json
    decided: Json
    row: int | None = None


def first_difference(
    record: Columns, again: Columns, stems: Mapping[str, str], members: int | None = None
) -> RowDifference | None:
    """Return the first difference of two records; None if they agree, but for messages.

    Args:
        record: A record.
        again: The other.
        stems: Stem of the names of rows of each table; a row of another table is named by number.
        members: Number of members of the population; None is that of the records.
    """
    for name in _NAMES:
        if getattr(record, name) != getattr(again, name):
            return RowDifference(f"its {name}", getattr(record, name), getattr(again, name))
    first, second = (_Rows(each, stems, members) for each in (record, again))
    found = _of_inputs(first, second) or _of_codes(first, second) or _of_winners(first, second)
    found = found or _of_changes(first, second)
    if found is not None:
        return found
    for name in _REST:
        then, now = getattr(record, name), getattr(again, name)
        if then != now:
            return RowDifference(f"its {name}", _shown(then), _shown(now))
    return None


class _Rows:
    """The rows of a record as arrays.

    Attributes:
        columns: The record as arrays.
        numbers: Number of the member of each row.
        codes: Code of each row.
        admitted: Places of the admitted rows.
    """

    def __init__(self, record: Columns, stems: Mapping[str, str], members: int | None) -> None:
        self.record, self._stems = record, stems
        columns = RecordedColumns(record, members or len(record.codes) or _count_of(record))
        self.columns, self.numbers = columns, columns.numbers
        self.codes = np.zeros(len(columns), np.uint8) if columns.codes is None else columns.codes
        self.admitted = np.flatnonzero(self.codes == OK)

    def name_of(self, row: int) -> str:
        """Return the name of the agent of a row."""
        return f"{self.record.population}:{self.numbers[row]}"

    def row_name(self, table: str, number: int) -> str:
        """Return the path of a row of a table, or `none` of -1."""
        if number < 0:
            return "none"
        return f"{table}/{self._stems[table]}:{number}" if table in self._stems else (
            f"{table}/{number}"
        )  # fmt: skip

    def code_name(self, code: int) -> str:
        """Return the name of a code: `admitted`, or that of its refusal."""
        if code == OK:
            return "admitted"
        return f"refused: {refusal_of(self.record.reasons, code).code}"

    def contexts(self) -> NDArray[np.int64]:
        """Return the `context_seq` of each row."""
        given = self.record.contexts
        if isinstance(given, int):
            return np.full(len(self.numbers), given)
        return np.frombuffer(given, "<i8")

    def targets(self, change: ColumnChange) -> NDArray[np.int64]:
        """Return the number of the changed row of each admitted row, -1 none."""
        if not change.at:
            return self.numbers[self.admitted].astype(np.int64)
        return np.frombuffer(change.at, "<i4").astype(np.int64)

    def values(self, change: ColumnChange) -> Array:
        """Return the value of a change for each admitted row."""
        if change.column:
            return self.columns.payload[change.column][self.admitted]
        values: Array = np.frombuffer(change.data, change.dtype)
        if change.op == "add":  # of 4 bytes each, where all amounts fit
            values = values.astype(np.int64)
        return values.reshape(len(self.admitted), -1) if len(self.admitted) else values


def _count_of(record: Columns) -> int:
    """Return the number of rows of a record without agents and codes, by its payload."""
    for _, dtype, shape, data in record.payload:
        size = np.dtype(dtype).itemsize * int(np.prod(shape, dtype=np.int64))
        return len(data) // size
    for change in record.changes:  # of a field of several numbers a row this is too many
        return len(change.data) // np.dtype(change.dtype).itemsize
    return 0


def _place(first: Array, second: Array) -> int | None:
    """Return the first row in which the bytes of two arrays differ; None if they are equal."""
    if first.dtype != second.dtype or first.size != second.size or len(first) != len(second):
        return 0
    if not first.size:
        return None
    rows = [
        np.ascontiguousarray(each).view(np.uint8).reshape(len(each), -1) for each in (first, second)
    ]
    differs = (rows[0] != rows[1]).any(axis=1)
    return int(differs.argmax()) if differs.any() else None


def _of_inputs(first: _Rows, second: _Rows) -> RowDifference | None:
    if first.record.agents != second.record.agents or len(first.numbers) != len(second.numbers):
        sizes = [f"{len(each.numbers)} rows" for each in (first, second)]
        return RowDifference("its agents", sizes[0], sizes[1])
    payload, other = first.columns.payload, second.columns.payload
    if payload.keys() != other.keys():
        return RowDifference("the fields of its payload", sorted(payload), sorted(other))
    for name, values in payload.items():
        row = _place(values, other[name])
        if row is not None:
            what = f"the payload's {name} of {first.name_of(row)}"
            return RowDifference(what, json_of(values[row]), json_of(other[name][row]))
    then, now = first.contexts(), second.contexts()
    row = _place(then, now)
    if row is not None:
        what = f"the context_seq of {first.name_of(row)}"
        return RowDifference(what, int(then[row]), int(now[row]))
    return None


def _of_codes(first: _Rows, second: _Rows) -> RowDifference | None:
    names: dict[str, int] = {}
    found = [
        np.array([names.setdefault(each.code_name(code), len(names)) for code in range(256)])[
            each.codes
        ]
        for each in (first, second)
    ]
    row = _place(*found)
    if row is None:
        return None
    words = [each.code_name(int(each.codes[row])) for each in (first, second)]
    return RowDifference(f"the verdict on {first.name_of(row)}", words[0], words[1], row)


def _of_winners(first: _Rows, second: _Rows) -> RowDifference | None:
    """Compare the winners of the rows that lost a claim; the codes of both are the same."""
    winners = [np.frombuffer(each.record.winners, "<i4") for each in (first, second)]
    place = _place(*winners)
    if place is None:
        return None
    if len(winners[0]) != len(winners[1]):
        return RowDifference("the number of its winners", len(winners[0]), len(winners[1]))
    row = int(np.flatnonzero(first.codes == CONFLICT)[place])
    words = [f"{first.record.population}:{each[place]}" for each in winners]
    return RowDifference(f"the winner over {first.name_of(row)}", words[0], words[1], row)


def _of_changes(first: _Rows, second: _Rows) -> RowDifference | None:
    """Return the difference of the first row that was changed otherwise."""
    then, now = (
        [(c.table, c.field, c.op) for c in each.record.changes] for each in (first, second)
    )
    for one, other in zip_longest(then, now):
        if one != other:
            words = [None if each is None else _call(*each) for each in (one, other)]
            return RowDifference("a change", words[0], words[1])
    found = list(_changed_rows(first, second))
    return min(found, key=lambda each: each.row or 0, default=None)


def _changed_rows(first: _Rows, second: _Rows) -> Iterator[RowDifference]:
    """Yield the first differing row of each change."""
    pairs = zip(first.record.changes, second.record.changes, strict=True)
    for change, other in pairs:
        targets, others = first.targets(change), second.targets(other)
        place = _place(targets, others)
        if place is not None:
            row = int(first.admitted[place])
            words = [first.row_name(change.table, int(at[place])) for at in (targets, others)]
            what = f"the row of the {_call(change.table, change.field, change.op)}"
            yield RowDifference(f"{what} by {first.name_of(row)}", words[0], words[1], row)
            continue
        values, there = first.values(change), second.values(other)
        place = _place(values, there)
        if place is not None:
            where = first.row_name(change.table, int(targets[place]))
            added = ", the amount added," if change.op == "add" else ""
            words = [json_of(_item(each, place)) for each in (values, there)]
            yield RowDifference(
                f"{where} {change.field}{added}", words[0], words[1], int(first.admitted[place])
            )


def _item(values: Array, place: int) -> Array:
    """Return one value of a change: a number, or a vector."""
    value: Array = values[place]
    return value[0] if value.shape == (1,) else value


def _call(table: str, field: str, op: str) -> str:
    return f"{op} of {table}/{field}"


def _shown(value: Json) -> Json:
    """Return a field as a message has it, without its arrays."""
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if isinstance(value, list):
        return [
            _call(c.table, c.field, c.op) + (f" = {c.column}" if c.column else "") for c in value
        ]
    return value
