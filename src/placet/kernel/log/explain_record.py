"""Explain a batch: the values that each stage compared, at the state of the decision.

The log has the batch, its verdict and its changes; state and ledger come from a replay up to that
record. The compared values are looked up again there, and never stored. If the domain is
available, the batch is re-executed as a dry run, for details that a record leaves out.
"""

from collections.abc import Iterator, Mapping, Sequence

from placet.kernel.gate import GATE, RunsAt
from placet.kernel.log.divergence import BatchRecord
from placet.kernel.log.explain_stages import EXPLAINED_STAGES
from placet.kernel.log.replay import seqs_of
from placet.kernel.log.verify import Verifier
from placet.kernel.plugin.known_names import idle_names
from placet.kernel.plugin.rules_version import rules_in
from placet.kernel.state.tree import State
from placet.schemas.batch import CheckedBatch
from placet.schemas.codec import Json, thaw
from placet.schemas.effect import EffectKey
from placet.schemas.explanation import Explanation, StageReport
from placet.schemas.identity import SYSTEM
from placet.schemas.intent import Intent
from placet.schemas.limits import SECOND_NS
from placet.schemas.log.record import (
    Admitted,
    Changes,
    Columns,
    EntityChange,
    Record,
    Refused,
    Scheduled,
    record_as_dict,
    record_type,
)
from placet.schemas.refusal import Refusal, Stage

_NOT_FIELDS = frozenset({"changes"})


def explain_batch(past: Verifier, record: BatchRecord, position: int) -> Explanation:
    """Return the explanation of the next record of a replay, which holds a batch.

    Args:
        past: A replay of all records before it; it is not changed.
        record: The next record of the log.
        position: Position of the requested intent in its batch.
    """
    again = past.dry_run(record)
    batch = past.batch_of(record) if again is None else again[1]
    refusals = _refusals(record, () if again is None else again[0].refusals)
    notes = [] if again is not None else [f"not re-executed: {past.why_not}"]
    if past.needs_host(record):
        host = past.known_header.validator
        notes.append(f"the effect validator {host} is not available, and may be the reason")
    if past.registry is not None:
        has_own = bool(past.known_header.validator)
        notes += idle_names(past.registry, past.ledger, has_own=has_own)
    intent = batch.intents[position]
    return Explanation(
        answer="admitted" if isinstance(record, Admitted) else record_type(record),
        agent_id=intent["agent_id"],
        req_id=intent["req_id"],
        record=past.journal.count,
        seq=_seq_of(record, position),
        seq_before=past.ledger.seq,
        sim_time=record.now_ns / SECOND_NS,
        batch={
            "batch_id": record.batch_id,
            "submitter": record.submitter,
            "position": position,
            "group_seq": record.group_seq,
            "tick": record.tick,
            "group": record.group,
            "intents": [_intent_as_dict(intent) for intent in batch.intents],
        },
        stages=tuple(_stages(past, record, batch, refusals)),
        changes=() if not isinstance(record, Admitted) else _changes(past.state, record.changes),
        effects=_effects(past.known_header.world, record),
        rules=str(rules_in(past.known_header)),
        notes=tuple(notes),
    )


def explain_other(past: Verifier, record: Record) -> Explanation:
    """Return the explanation of a record without intents: a registration, tick or settlement.

    A column batch as a whole is one too; `explain_row` explains one of its rows.
    """
    changes = Changes()  # those of a column batch are columns, which `explain_row` reads
    if not isinstance(record, Columns):
        changes = getattr(record, "changes", changes)
    fields = {k: v for k, v in record_as_dict(record).items() if k not in _NOT_FIELDS}
    return Explanation(
        answer=record_type(record),
        agent_id=getattr(record, "agent_id", SYSTEM),
        record=past.journal.count,
        seq=record.seq,
        seq_before=record.seq - seqs_of(record),
        sim_time=record.now_ns / SECOND_NS,
        batch=fields,
        changes=_changes(past.state, changes),
        rules="" if past.header is None else str(rules_in(past.header)),
    )


def _seq_of(record: BatchRecord, position: int) -> int | None:
    if isinstance(record, Refused):
        return None
    if isinstance(record, Scheduled):
        return record.seq
    rank = position if record.order is None else record.order.index(position)
    return record.seq - len(record.contexts) + 1 + rank


def _intent_as_dict(intent: Intent) -> dict[str, Json]:
    names = ("agent_id", "req_id", "kind", "payload", "context_seq", "priority")
    return {name: thaw(intent[name]) for name in names}  # type: ignore[literal-required]  # its own


def _refusals(record: BatchRecord, again: Sequence[Refusal]) -> list[dict[str, Json]]:
    """Return the recorded refusals, with the details of the same refusals from re-execution."""
    if not isinstance(record, Refused):
        return []
    refusals: list[dict[str, Json]] = []
    for place, recorded in enumerate(record.refusals):
        refusal = dict(zip(("index", "stage", "code", "message"), recorded, strict=True))
        index, _, code, _ = recorded
        if place < len(again) and (again[place].index, again[place].code) == (index, code):
            details = again[place].as_dict()
            refusal |= {name: details[name] for name in ("at", "suggestions", "changed", "details")}
        refusals.append(refusal)
    return refusals


def _stages(
    past: Verifier, record: BatchRecord, batch: CheckedBatch, refusals: list[dict[str, Json]]
) -> Iterator[StageReport]:
    refused_at = Stage(refusals[0]["stage"]) if refusals else None
    is_reached = True
    for row in GATE:
        name = row.stage.value
        if not is_reached:
            yield StageReport(stage=name, result="not reached")
        elif record.due_of is not None and row.runs_at is RunsAt.ARRIVAL:
            yield StageReport(stage=name, result="passed on arrival")
        else:
            compared = tuple(EXPLAINED_STAGES[row.stage].compare(past, record, batch))
            if row.stage is refused_at:
                is_reached = False
                yield StageReport(
                    stage=name, result="refused", compared=compared, refusals=tuple(refusals)
                )
            elif row.stage is Stage.DOMAIN and isinstance(record, Scheduled):
                yield StageReport(stage=name, result="not reached", compared=compared)
            else:
                yield StageReport(stage=name, result="passed", compared=compared)


def _changes(state: State, changes: Changes) -> tuple[Mapping[str, Json], ...]:
    return tuple(_change(state, change) for change in changes.entities)


def _change(state: State, change: EntityChange) -> dict[str, Json]:
    row = state.entity(change.collection, change.entity)
    before, after = dict(row or {}), change.fields or {}
    names = [*after, *(name for name in before if change.is_whole and name not in after)]
    verb = "deleted" if change.fields is None else "created" if row is None else "changed"
    return {
        "entity": f"{change.collection}/{change.entity}",
        "what": verb,
        "fields": {
            name: {"before": thaw(before.get(name)), "after": thaw(after.get(name))}
            for name in names
        },
        "seq": change.seq,
        "by": change.by,
    }


def _effects(world: str, record: BatchRecord) -> tuple[Mapping[str, Json], ...]:
    if not isinstance(record, Admitted):
        return ()
    return tuple(
        {"key": str(EffectKey(world, seq, k)), "kind": kind, "payload": payload}
        for k, (seq, kind, payload, _) in enumerate(record.effects)
    )
