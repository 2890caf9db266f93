"""Decide a column batch as a group: dedup, decision, record, application."""

from typing import TYPE_CHECKING, Final

import numpy as np

from placet.kernel.arrays.row_codes import REUSED, TOO_OLD
from placet.kernel.columns import apply_row_by_row, row_by_row
from placet.kernel.columns import decide as by_arrays
from placet.kernel.columns.decide import FaultSink
from placet.kernel.columns.form import CheckedColumns, at_present
from placet.kernel.columns.record import record_of
from placet.kernel.columns.settle import settle
from placet.kernel.columns.verdict import ColumnVerdict
from placet.kernel.commit.commit import DecisionRecorder
from placet.schemas.log.record import encode_record

if TYPE_CHECKING:
    from placet.kernel.context import GateContext

_NONE: Final = np.zeros(0, np.int32)


def _known(
    batch: CheckedColumns, context: "GateContext", number: int, durability: str
) -> ColumnVerdict | None:
    """Return the verdict on a request that the population remembers, or refuse one; else None.

    The same request gets the same verdict, another one under its req_id is refused.
    """
    members, name = batch.members, f"b{number}"
    answer = members.remembered.get(batch.req_id)
    if answer is not None and answer.fingerprint == batch.fingerprint:
        codes = np.frombuffer(answer.codes, np.uint8) if answer.codes else None
        winners = np.frombuffer(answer.winners, "<i4")
        return ColumnVerdict(
            *(batch, context, name, codes, answer.reasons, winners, answer.seq, durability),
            replayed=True,
        )
    if answer is None and not members.is_forgotten(batch.req_id):
        return None
    codes = np.full(len(batch), TOO_OLD if answer is None else REUSED, np.uint8)
    return ColumnVerdict(batch, context, name, codes, [], _NONE, None, durability)


def decide(
    batch: CheckedColumns,
    recorder: DecisionRecorder,
    seed: int,
    number: int,
    on_fault: FaultSink,
    *,
    uses_arrays: bool = True,
) -> ColumnVerdict:
    """Decide a batch, append its record, and apply it. Nothing is written before it is encoded.

    A request that the population remembers leaves no record.

    Args:
        batch: The batch.
        recorder: Opens the group, and has the world and the end of its log.
        seed: Seed of the world.
        number: Number of the batch.
        on_fault: Receives the exceptions of the rule.
        uses_arrays: Decide and apply it as arrays; else row by row, with the same result.
    """
    context, journal = recorder.context, recorder.journal
    batch = at_present(batch, context.ledger.seq)
    answer = _known(batch, context, number, journal.durability)
    if answer is not None:
        return answer
    recorder.open_group()
    execution = by_arrays if uses_arrays else row_by_row
    decided = execution.decide(batch, context, seed, on_fault)
    record = record_of(batch, decided, context, journal.prev, number)
    data = encode_record(record)
    state, ledger = context.state, context.ledger
    if uses_arrays:
        settle(state, ledger, record, decided.admitted, decided.calls)
    else:
        settle(state, ledger, record, decided.admitted, decided.calls, apply_row_by_row.apply_calls)
    journal.append(data)
    is_admitted = record.seq != record.group_seq
    return ColumnVerdict(
        batch,
        context,
        f"b{number}",
        decided.codes,
        decided.reasons,
        decided.winners,
        record.seq if is_admitted else None,
        journal.durability,
    )
