"""Make the record of a column batch, and read the batch back from it."""

from typing import TYPE_CHECKING, Final

import numpy as np

from placet.kernel.arrays.words import Array
from placet.kernel.columns.batch import ColumnBatch
from placet.kernel.columns.decide import Decided
from placet.kernel.columns.form import CheckedColumns
from placet.kernel.columns.recorded import RecordedColumns
from placet.kernel.ledger.ledger import Ledger
from placet.schemas.log.column_records import ColumnChange, Columns, names_all

if TYPE_CHECKING:
    from placet.kernel.context import GateContext
    from placet.kernel.plugin.rows import Rows64

_FIRST_ROWS: Final = 64

_I4_MIN, _I4_MAX = -(2**31), 2**31 - 1


def record_of(
    batch: CheckedColumns, decided: Decided, context: "GateContext", prev: bytes, number: int
) -> Columns:
    """Return the record of a decision, which is the same whichever way it was reached.

    Args:
        batch: The batch.
        decided: The decision.
        context: The world.
        prev: Hash of the latest record.
        number: Number of the batch.
    """
    ledger = context.ledger
    count = batch.members.count if decided.admitted is None else len(decided.admitted)
    contexts = batch.contexts
    return Columns(
        prev=prev,
        seq=ledger.seq + (1 if count else 0),
        now_ns=context.now_ns,
        group_seq=ledger.seq,
        tick=ledger.tick,
        group=ledger.group,
        number=number,
        submitter=batch.submitter,
        req_id=batch.req_id,
        fingerprint=batch.fingerprint,
        kind=batch.kind.name,
        version=batch.kind.version,
        population=batch.members.name,
        agents=b"" if batch.is_whole else batch.numbers.astype("<u4").tobytes(),
        contexts=contexts if isinstance(contexts, int) else contexts.astype("<i8").tobytes(),
        payload=[
            (name, values.dtype.str, list(values.shape[1:]), values.tobytes())
            for name, values in batch.payload.items()
        ],
        codes=b"" if decided.codes is None else decided.codes.tobytes(),
        reasons=decided.reasons,
        winners=decided.winners.astype("<i4").tobytes(),
        changes=_changes_of(batch, decided) if count else [],
    )


def _changes_of(batch: CheckedColumns, decided: Decided) -> list[ColumnChange]:
    payload = decided.payload
    if payload is None:  # it was decided row by row
        admitted = decided.codes if decided.codes is None else np.flatnonzero(decided.codes == 0)
        payload = {
            name: values if admitted is None else values.take(admitted, axis=0)
            for name, values in batch.payload.items()
        }
    keys: list[tuple[Rows64, bytes]] = []
    changes = []
    for call in decided.calls:
        at = b""
        if call.at is not None:
            known = next((data for given, data in keys if given is call.at), None)
            at = call.at.astype("<i4").tobytes() if known is None else known
            if known is None:
                keys.append((call.at, at))
        column, values = "", call.values
        if call.op == "add":
            values = _narrowed(values)
        else:
            # A column of the payload is named by equal bytes, not by being one object: which
            # objects there are depends on how the rule was called.
            column = next((name for name, own in payload.items() if _is_same(own, values)), "")
        data = b"" if column else values.tobytes()
        changes.append(
            ColumnChange(call.table, call.field, call.op, at, column, values.dtype.str, data)
        )
    return changes


def _narrowed(amounts: Array) -> Array:
    """Return amounts to add in 4 bytes each if all fit."""
    fits = not len(amounts) or (amounts.min() >= _I4_MIN and amounts.max() <= _I4_MAX)
    return amounts.astype(np.int32 if fits else np.int64)


def _is_same(column: Array, values: Array) -> bool:
    if column is values:
        return True
    if column.dtype != values.dtype or column.shape != values.shape:
        return False
    # Compared as integers: NaN differs from itself, and 0.0 equals -0.0. The first rows differ in
    # most pairs of columns, so they are compared before all.
    words: str = f"u{column.dtype.itemsize}"
    for part in (slice(_FIRST_ROWS), slice(None)):
        own, other = np.ascontiguousarray(column[part]), np.ascontiguousarray(values[part])
        if not np.array_equal(own.view(words), other.view(words)):
            return False
    return True


def batch_of(record: Columns, ledger: Ledger) -> ColumnBatch:
    """Return the column batch of a record, as it was submitted."""
    columns = RecordedColumns(record, ledger.populations[record.population].count)
    return ColumnBatch(
        record.kind,
        record.population,
        columns.payload,
        record.req_id,
        agents=None if names_all(record) else columns.numbers,
        context_seq=columns.contexts,
        submitter=record.submitter,
    )
