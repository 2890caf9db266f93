"""Apply a column batch to state and ledger: the one function of the live world and of replay."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from placet.kernel.arrays.authors import NAMED, SEVERAL
from placet.kernel.arrays.values import Mask
from placet.kernel.arrays.words import Array, put_rows
from placet.kernel.columns.decide import quotas_of
from placet.kernel.columns.recorded import RecordedColumns, sizes_of
from placet.kernel.ledger.ledger import Ledger
from placet.kernel.ledger.members import Members, Remembered
from placet.kernel.plugin.rows import RowCall, Rows64
from placet.kernel.state.table import TableData
from placet.kernel.state.tree import State
from placet.schemas.log.column_records import Columns, names_all

Apply: TypeAlias = Callable[[State, Members, Rows64 | None, Sequence[RowCall], int], None]
"""Writes the changes of the admitted rows at a seq."""


def apply_calls(
    state: State, members: Members, admitted: Rows64 | None, calls: Sequence[RowCall], seq: int
) -> None:
    """Write the changes of admitted rows into the tables, and stamp the changed rows."""
    authors = members.numbers if admitted is None else members.numbers.take(admitted)
    own = _Target(None, admitted, authors, None, is_unique=True)
    targets: list[_Target] = [own]
    touched: dict[str, list[_Target]] = {}
    for call in _apart(state, calls):
        target = next((one for one in targets if one.at is call.at), None)
        if target is None:
            target = _target_of(call, authors)
            targets.append(target)
        elif call.op == "put":
            target.is_unique = True
        _write(state.tables[call.table], call, target)
        listed = touched.setdefault(call.table, [])
        if target not in listed:  # the same rows are stamped once
            listed.append(target)
    for name, listed in touched.items():
        for place, target in enumerate(listed):
            _stamp(state.tables[name], target, seq, is_first=not place)


@dataclass(slots=True, eq=False)
class _Target:
    """The rows that a call changes, and their authors.

    Attributes:
        at: The array of keys; None stands for the own row of each admitted row.
        rows: Numbers of the rows; None is all rows, in order.
        authors: Number of the member that changes each.
        is_row: Which keys are rows; None if all are.
        is_unique: No row occurs twice: own rows are of different members, and a claimed row has
            one owner.
    """

    at: Rows64 | None
    rows: Rows64 | None
    authors: NDArray[np.int32]
    is_row: Mask | None
    is_unique: bool = field(kw_only=True)


def _target_of(call: RowCall, authors: NDArray[np.int32]) -> _Target:
    at, is_unique = call.at, call.op == "put"
    assert at is not None, "the own rows have a target"
    if int(at.min(initial=0)) >= 0:
        return _Target(at, at, authors, None, is_unique=is_unique)
    is_row = at >= 0  # numpy would take -1 for the last row
    return _Target(at, at[is_row], authors[is_row], is_row, is_unique=is_unique)


def settle(
    state: State,
    ledger: Ledger,
    record: Columns,
    admitted: Rows64 | None,
    calls: Sequence[RowCall],
    apply: Apply = apply_calls,
) -> None:
    """Apply a record of a column batch.

    Args:
        state: The state.
        ledger: The ledger; `now_ns` is set by the caller.
        record: The record.
        admitted: Number of the member of each admitted row; None is all members, in order.
        calls: The changes of the record, with an item for each admitted row.
        apply: Writes the changes into the tables.
    """
    members = ledger.populations[record.population]
    count = members.count if admitted is None else len(admitted)
    if count:
        for bucket, quota in quotas_of(ledger, members, record.kind):
            members.charge(bucket, quota, admitted, record.now_ns)
        world = ledger.policy.world_quota
        if world is not None:
            ledger.world_tat = world.charged(ledger.world_tat, count, record.now_ns)
        members.count_admitted(record.now_ns, admitted)
        apply(state, members, admitted, calls, record.seq)
    answer = Remembered(
        record.fingerprint,
        record.seq if count else None,
        record.codes,
        record.reasons,
        record.winners,
    )
    members.remember(record.req_id, answer, ledger.policy.limits)
    ledger.seq = record.seq
    ledger.group = record.group + 1


def _apart(state: State, calls: Sequence[RowCall]) -> list[RowCall]:
    """Copy the arrays of calls that are views of a column which one of the calls writes.

    A rule over a whole population sees the columns themselves. Without a copy, two fields that it
    exchanges would both have the value of one, and keys read from a written field would stamp
    other rows. An array that is one object stays one.
    """
    written = [state.tables[call.table].columns[call.field] for call in calls]
    copies: list[tuple[Array, Array]] = []

    def apart(array: Array) -> Array:
        if not any(np.may_share_memory(array, one) for one in written):
            return array
        copy = next((mine for given, mine in copies if given is array), None)
        if copy is None:
            copy = array.copy()
            copies.append((array, copy))
        return copy

    return [
        call._replace(at=None if call.at is None else apart(call.at), values=apart(call.values))
        for call in calls
    ]


def _write(table: TableData, call: RowCall, target: _Target) -> None:
    rows, values = target.rows, call.values
    column = table.writable(call.field, is_whole=rows is None and call.op == "put")
    if target.is_row is not None:
        values = values.compress(target.is_row, axis=0)
    if call.op == "add":
        assert rows is not None, "additions name their rows"
        np.add.at(column, rows, values.astype(column.dtype, copy=False))
    elif rows is None:
        column[...] = values
    else:
        put_rows(column, rows, values)
    table.mark_dirty(call.field, rows)


def _stamp(table: TableData, target: _Target, seq: int, *, is_first: bool) -> None:
    """Stamp the rows that members changed in one batch, each as `Stamp.touch`.

    A row that several changed has no author, so its change counts as foreign for each of them.

    Args:
        table: The table.
        target: The changed rows.
        seq: Seq of the batch.
        is_first: No row of the table was stamped for this batch before.
    """
    seqs, bys, foreign = table.writable_stamps()
    authors, rows = target.authors, target.rows
    is_other = (bys if rows is None else bys.take(rows)) != authors
    shared: Rows64 | None = None
    if is_other.any():
        places = np.flatnonzero(is_other)
        changed = places if rows is None else rows.take(places)
        before = seqs.take(changed)
        for row in changed[bys.take(changed) == NAMED].tolist() if table.named else ():
            table.named.pop(row, None)
        if not is_first and (before == seq).any():
            shared = changed[before == seq]
        foreign[changed], bys[changed] = before, authors.take(places)
        if not target.is_unique:
            assert rows is not None, "all rows, in order, are unique"
            is_shared = bys.take(rows) != authors
            if is_shared.any():
                twice = rows[is_shared]
                shared = twice if shared is None else np.concatenate([shared, twice])
    seqs[slice(None) if rows is None else rows] = seq
    if shared is not None:
        bys[shared], foreign[shared] = SEVERAL, seq


def fold(state: State, ledger: Ledger, record: Columns) -> None:
    """Apply a record that was read from a log."""
    columns = RecordedColumns(record, ledger.populations[record.population].count)
    has_all = columns.codes is None and names_all(record)
    admitted = None if has_all else columns.targets(None)
    settle(state, ledger, record, admitted, columns.calls(sizes_of(state.tables)))
