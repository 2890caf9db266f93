"""Explain a batch: the values that each stage compared, at the state of the decision.

The log has the batch, its verdict and its changes; state and ledger come from a replay up to that
record. What a stage compared is looked up again there, and never stored. If the domain is
available, the batch is re-executed as a dry run, for details that a record leaves out.
"""

from collections.abc import Iterator, Mapping, Sequence

from placet.kernel.gate.staleness import reads_of
from placet.kernel.ledger.dedup_window import PLAIN, DedupEntry, unpack
from placet.kernel.ledger.token_buckets import charges_on
from placet.kernel.log.divergence import STRUCTURE_NOTICES, BatchRecord
from placet.kernel.log.replay import seqs_of
from placet.kernel.log.verify import Verifier
from placet.kernel.registry import Registry
from placet.kernel.rules_version import rules_in
from placet.kernel.state.tree import State
from placet.schemas.batch import CheckedBatch
from placet.schemas.codec import Json, thaw
from placet.schemas.effect import EffectKey
from placet.schemas.explanation import Explanation, StageReport
from placet.schemas.identity import OPERATOR, SYSTEM
from placet.schemas.intent import Intent
from placet.schemas.limits import SECOND_NS
from placet.schemas.log.record import (
    Admitted,
    Changes,
    EntityChange,
    Record,
    Refused,
    Scheduled,
    record_as_dict,
    record_type,
)
from placet.schemas.refusal import Refusal, Stage

STAGES = tuple(stage for stage in Stage if stage is not Stage.ADMISSION)
_ON_ARRIVAL = frozenset({Stage.DEDUP, Stage.QUOTA, Stage.BACKPRESSURE})
_NOT_FIELDS = frozenset({"changes"})


def explain_batch(past: Verifier, record: BatchRecord, position: int) -> Explanation:
    """Explain the next record of a replay, which is a batch.

    Args:
        past: A replay of all records before it; it is not changed.
        record: The next record of the log.
        position: Position of the requested intent in its batch.
    """
    again = past.reverify(record)
    batch = past.batch_of(record) if again is None else again[1]
    refusals = _refusals(record, () if again is None else again[0].refusals)
    assert past.header is not None, "a log begins with its header"
    notes = [] if again is not None else [f"not re-executed: {past.why_not}"]
    if past.needs_host(record):
        notes.append(
            f"the effect validator {past.header.validator} is not available, and may be the reason"
        )
    intent = batch.intents[position]
    return Explanation(
        answer=_answer(record),
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
            "intents": [_intent_as_dict(intent) for intent in batch.intents],
        },
        stages=tuple(_stages(past, record, batch, refusals)),
        changes=() if not isinstance(record, Admitted) else _changes(past.state, record.changes),
        effects=_effects(past.header.world, record),
        rules=str(rules_in(past.header)),
        notes=tuple(notes),
    )


def explain_other(past: Verifier, record: Record) -> Explanation:
    """Explain a record that holds no batch: a registration, a tick, a settlement."""
    changes: Changes = getattr(record, "changes", Changes())
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


def _answer(record: BatchRecord) -> str:
    if isinstance(record, Admitted):
        return "admitted"
    return "refused" if isinstance(record, Refused) else "scheduled"


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
    for place, (index, stage, code, message) in enumerate(record.refusals):
        refusal: dict[str, Json] = {
            "index": index,
            "stage": stage,
            "code": code,
            "message": message,
        }
        if place < len(again) and (again[place].index, again[place].code) == (index, code):
            details = again[place].as_dict()
            refusal |= {name: details[name] for name in ("at", "suggestions", "changed", "details")}
        refusals.append(refusal)
    return refusals


def _stages(
    past: Verifier, record: BatchRecord, batch: CheckedBatch, refusals: list[dict[str, Json]]
) -> Iterator[StageReport]:
    refused_at = Stage(refusals[0]["stage"]) if refusals else None
    is_over = False
    for stage in STAGES:
        if is_over:
            yield StageReport(stage=stage.value, said="not asked")
            continue
        if record.due_of is not None and stage in _ON_ARRIVAL:
            yield StageReport(stage=stage.value, said="passed on arrival")
            continue
        saw = tuple(_COMPARED[stage](past, record, batch))
        is_over = stage is refused_at
        said = "refused" if is_over else "passed"
        if stage is Stage.DOMAIN and isinstance(record, Scheduled):
            said, saw = "not asked", ({"due": record.due_ns / SECOND_NS},)
        yield StageReport(
            stage=stage.value, said=said, saw=saw, refusals=tuple(refusals) if is_over else ()
        )


def _structure(
    past: Verifier, record: BatchRecord, batch: CheckedBatch
) -> Iterator[dict[str, Json]]:
    limits = past.ledger.policy.limits
    saw: dict[str, Json] = {
        "intents": len(batch),
        "intents_max": limits.batch_intents_max,
        "bytes": len(record.encoded),
        "bytes_max": limits.batch_bytes_max,
    }
    notices = record.notices if isinstance(record, Admitted) else None
    warnings = [
        {"index": index, "code": code, "message": message, "at": at}
        for index, found in notices or ()
        for code, message, at in found
        if code in STRUCTURE_NOTICES
    ]
    yield {**saw, "warnings": warnings} if warnings else saw


def _agent(past: Verifier, record: BatchRecord, batch: CheckedBatch) -> Iterator[dict[str, Json]]:
    for agent_id in batch.agents:
        agent = past.ledger.agents.get(agent_id)
        asked = [kind for who, kind, _ in batch.counts if who == agent_id]
        saw: dict[str, Json] = {
            "agent_id": agent_id,
            "registered": agent is not None,
            "submitter": record.submitter,
            "kinds": asked,
        }
        if agent is not None:
            permitted = agent.permissions
            saw |= {
                "owner": agent.owner,
                "suspended": agent.is_suspended,
                "permissions": None if permitted is None else sorted(permitted),
                "may_speak": record.submitter in {OPERATOR, agent_id, agent.owner},
            }
        yield saw


def _dedup(past: Verifier, _: BatchRecord, batch: CheckedBatch) -> Iterator[dict[str, Json]]:
    limits = past.ledger.policy.limits
    for agent_id in batch.agents:
        agent = past.ledger.agents.get(agent_id)
        window = None if agent is None else agent.window
        ids = [one["req_id"] for one in batch.intents if one["agent_id"] == agent_id]
        saw: dict[str, Json] = {
            "agent_id": agent_id,
            "remembered": 0 if window is None else window.count,
            "remembered_max": limits.window_ids_max,
            "age_s_max": limits.window_age_ns_max / SECOND_NS,
            "req_ids": ids,
            "answered_before": [],
        }
        if window is not None:
            answers = {req_id: window.find(req_id) for req_id in ids}
            saw["answered_before"] = [
                {"req_id": i, "codes": [] if one.detail == PLAIN else _codes(one)}
                for i, one in answers.items()
                if one is not None
            ]
        yield saw


def _codes(answered: DedupEntry) -> list[str]:
    return sorted({refusal.code for refusal in unpack(answered).refusals})


def _staleness(
    past: Verifier, record: BatchRecord, batch: CheckedBatch
) -> Iterator[dict[str, Json]]:
    seq, threshold = past.ledger.seq, past.ledger.policy.staleness_threshold
    until = record.valid_until_ns or [None] * len(batch)
    for index, intent in enumerate(batch.intents):
        context_seq, until_ns = batch.contexts[index], until[index]
        saw: dict[str, Json] = {
            "index": index,
            "context_seq": context_seq,
            "seq": seq,
            "threshold": threshold,
            "valid_until": None if until_ns is None else until_ns / SECOND_NS,
        }
        registry = past.registry
        if registry is None or intent["kind"] not in registry.kinds:
            yield {**saw, "reads": None}
            continue
        saw["revalidates"] = registry.kinds[intent["kind"]].when_stale == "revalidate"
        yield {**saw, "reads": _reads(past.state, registry, intent, context_seq)}


def _reads(
    state: State, registry: Registry, intent: Intent, context_seq: int
) -> list[dict[str, Json]] | None:
    """Return, for each read of an intent, the latest change by another agent."""
    agent_id = intent["agent_id"]
    try:
        refs = list(reads_of(registry.kinds[intent["kind"]], intent))
    except Exception:  # noqa: BLE001  # the rule boundary: the refusal has the error
        return None
    reads = []
    for collection, entity in refs:
        stamp = state.stamp(collection, entity)
        changed = None if stamp is None else stamp.changed_for(agent_id)
        reads.append(
            {
                "entity": collection if entity is None else f"{collection}/{entity}",
                "changed": changed,
                "by": None if stamp is None or stamp.by == agent_id else stamp.by,
                "is_stale": changed is not None and changed > context_seq,
            }
        )
    return reads


def _quota(past: Verifier, record: BatchRecord, batch: CheckedBatch) -> Iterator[dict[str, Json]]:
    ledger = past.ledger
    for charge in charges_on(batch, ledger, record.now_ns):
        agent, _, kind, (interval_ns, burst), intents, tat_ns = charge
        after_ns = tat_ns - record.now_ns
        after = burst - after_ns / interval_ns
        yield {
            "agent_id": None if agent is None else agent.agent_id,
            "kind": kind,
            "rate": SECOND_NS / interval_ns,
            "interval_s": interval_ns / SECOND_NS,
            "burst": burst,
            "before": round(after + intents, 6),
            "charged": intents,
            "after": round(after, 6),
        }


def _backpressure(
    past: Verifier, record: BatchRecord, batch: CheckedBatch
) -> Iterator[dict[str, Json]]:
    ledger, registry = past.ledger, past.registry
    kinds = dict.fromkeys(kind for _, kind, _ in batch.counts)
    effects = dict.fromkeys(
        effect
        for kind in kinds
        if registry is not None and kind in registry.kinds
        for effect in registry.kinds[kind].effects
    )
    for effect in effects:
        depth, limit = ledger.outbox_depth.get(effect, 0), ledger.executors.get(effect)
        yield {"executor": effect, "waiting": depth, "waiting_max": limit}
    if isinstance(record, Scheduled):
        limit = ledger.policy.limits.schedule_batches_max
        yield {"schedule": len(ledger.scheduled), "schedule_max": limit}


def _domain(past: Verifier, _: BatchRecord, batch: CheckedBatch) -> Iterator[dict[str, Json]]:
    assert past.header is not None, "a log begins with its header"
    if past.header.validator:
        yield {"validator": past.header.validator}
    registry = past.registry
    order = range(len(batch)) if batch.order is None else batch.order
    for index in order:
        name = batch.intents[index]["kind"]
        is_known = registry is not None and name in registry.kinds
        domain = registry.domain_of[name] if registry is not None and is_known else None
        version = registry.kinds[name].version if registry is not None and is_known else None
        yield {
            "index": index,
            "kind": name,
            "version": version,
            "domain": None if domain is None else f"{domain.name} {domain.version}",
        }


_COMPARED = {
    Stage.STRUCTURE: _structure,
    Stage.AGENT: _agent,
    Stage.DEDUP: _dedup,
    Stage.STALENESS: _staleness,
    Stage.QUOTA: _quota,
    Stage.BACKPRESSURE: _backpressure,
    Stage.DOMAIN: _domain,
}


def _changes(state: State, changes: Changes) -> tuple[Mapping[str, Json], ...]:
    return tuple(_change(state, change) for change in changes.entities)


def _change(state: State, change: EntityChange) -> dict[str, Json]:
    row = state.entity(change.collection, change.entity)
    before, after = dict(row or {}), change.fields or {}
    names = [*after, *(name for name in before if change.is_whole and name not in after)]
    what = "deleted" if change.fields is None else "created" if row is None else "changed"
    return {
        "entity": f"{change.collection}/{change.entity}",
        "what": what,
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
