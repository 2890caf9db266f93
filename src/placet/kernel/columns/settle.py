"""Apply a column batch to state and ledger: the one function of the live world and of replay."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from placet.kernel.arrays.authors import NAMED, SEVERAL
from placet.kernel.columns.decide import quotas_of
from placet.kernel.ledger.ledger import Ledger
from placet.kernel.ledger.members import Members, Remembered
from placet.kernel.plugin.rows import RowCall, Rows64
from placet.kernel.state.table import TableData
from placet.kernel.state.tree import State
from placet.schemas.log.column_records import Columns

Apply: TypeAlias = Callable[[State, Members, Rows64 | None, Sequence[RowCall], int], None]
"""Writes the changes of the admitted rows at a seq."""


def apply_calls(
    state: State, members: Members, admitted: Rows64 | None, calls: Sequence[RowCall], seq: int
) -> None:
    """Write the changes of admitted rows into the tables, and stamp the changed rows."""
    authors = members.numbers if admitted is None else members.numbers[admitted]
    touched: dict[str, list[Rows64 | None]] = {}
    for call in calls:
        table = state.tables[call.table]
        _write(table, call, admitted)
        targets = touched.setdefault(call.table, [])
        if not any(at is call.at for at in targets):  # the same rows are stamped once
            targets.append(call.at)
    for name, targets in touched.items():
        for place, at in enumerate(targets):
            if at is None:
                _stamp(state.tables[name], admitted, authors, seq, is_first=not place)
            else:
                is_row = at >= 0
                _stamp(state.tables[name], at[is_row], authors[is_row], seq, is_first=not place)


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
        record.agents,
        record.codes,
        record.reasons,
        record.winners,
    )
    members.remember(record.req_id, answer, ledger.policy.limits)
    ledger.seq = record.seq
    ledger.group = record.group + 1


def _write(table: TableData, call: RowCall, admitted: Rows64 | None) -> None:
    is_whole = call.op == "put" and call.at is None and admitted is None
    column = table.writable(call.field, is_whole=is_whole)
    target, values = admitted if call.at is None else call.at, call.values
    if call.at is not None:
        is_row = call.at >= 0
        if not is_row.all():  # numpy would take -1 for the last row
            target, values = call.at[is_row], values[is_row]
    if call.op == "put":
        column[slice(None) if target is None else target] = values
    elif target is None:
        column += values.astype(column.dtype)
    else:
        np.add.at(column, target, values.astype(column.dtype))
    table.mark_dirty(call.field, target)


def _stamp(
    table: TableData, rows: Rows64 | None, authors: NDArray[np.int32], seq: int, *, is_first: bool
) -> None:
    """Stamp the rows that members changed in one batch, each as `Stamp.touch`.

    A row that several changed has no author, so it is changed for everybody.

    Args:
        table: The table.
        rows: Changed rows, some of them more than once; None is all, once.
        authors: Number of the member that changed each.
        seq: Seq of the batch.
        is_first: No row of the table was stamped for this batch before.
    """
    seqs, bys, foreign = table.writable_stamps()
    target: Any = slice(None) if rows is None else rows
    old_by, old_seq = bys[target], seqs[target]
    is_other = old_by != authors
    is_clash = None if is_first else (old_seq == seq) & is_other
    if is_other.any():
        foreign[target] = np.where(is_other, old_seq, foreign[target])
    if table.named:
        for row in range(table.count) if rows is None else rows[old_by == NAMED].tolist():
            table.named.pop(row, None)
    bys[target] = authors
    seqs[target] = seq
    several = None if rows is None else bys[target] != authors
    if is_clash is not None:
        several = is_clash if several is None else several | is_clash
    if several is not None and several.any():
        shared = np.arange(table.count)[target][several]
        bys[shared], foreign[shared] = SEVERAL, seq


def fold(state: State, ledger: Ledger, record: Columns) -> None:
    """Apply a record that was read from a log."""
    members = ledger.populations[record.population]
    numbers = (
        members.all if not record.agents else np.frombuffer(record.agents, "<u4").astype(np.int64)
    )
    admitted: Rows64 | None = None if not record.agents else numbers
    places: Rows64 | None = None
    if record.codes:
        places = np.flatnonzero(np.frombuffer(record.codes, np.uint8) == 0)
        admitted = numbers[places]
    payload = {
        name: np.frombuffer(data, dtype).reshape(len(numbers), *shape)
        for name, dtype, shape, data in record.payload
    }
    count = members.count if admitted is None else len(admitted)
    calls = []
    keys: dict[bytes, Rows64] = {}  # equal keys are one array, whose rows are stamped once
    for change in record.changes:
        field = state.tables[change.table].fields[change.field]
        at: Rows64 | None = None
        if change.at:
            at = keys.setdefault(change.at, np.frombuffer(change.at, "<i4").astype(np.int64))
        if change.column:
            values = payload[change.column] if places is None else payload[change.column][places]
        else:
            values = np.frombuffer(change.data, change.dtype).reshape(count, *field.sizes)
        calls.append(RowCall(change.table, change.field, change.op, at, values))
    settle(state, ledger, record, admitted, calls)
