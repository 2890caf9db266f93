"""The stages of the gate as an explanation shows them.

Each has two functions. `compare` returns the values that the stage compared, looked up again in
the state and the ledger before the decision. `describe` writes one of these values as text.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from placet.kernel.gate import GATE
from placet.kernel.gate.changes import name_of
from placet.kernel.gate.conditions import found_by, text_of
from placet.kernel.gate.staleness import reads_of
from placet.kernel.ledger.agent import Agent
from placet.kernel.ledger.dedup_window import PLAIN, DedupEntry
from placet.kernel.ledger.stored_verdict import unpack
from placet.kernel.ledger.token_buckets import charges_on, work_charges
from placet.kernel.log.divergence import STRUCTURE_NOTICES, BatchRecord
from placet.kernel.log.sandbox import Read
from placet.kernel.log.verify import Verifier
from placet.kernel.plugin.registry import Registry
from placet.kernel.state.tree import State
from placet.schemas.batch import CheckedBatch
from placet.schemas.codec import Json, thaw
from placet.schemas.condition import ABSENT, holds
from placet.schemas.config import AGENT_WORK, WORLD_WORK, Quota
from placet.schemas.identity import OPERATOR, Ref
from placet.schemas.intent import Intent
from placet.schemas.json_value import format_value
from placet.schemas.limits import SECOND_NS
from placet.schemas.log.record import Admitted, AdmittedWithWork, Scheduled
from placet.schemas.refusal import Stage

Compared: TypeAlias = Mapping[str, Json]
"""The values of one comparison: of the batch, or of one of its agents, intents or quotas."""


@dataclass(frozen=True, slots=True)
class ExplainedStage:
    """How one stage is explained.

    Attributes:
        compare: Returns the compared values: of a replay before the batch, its record, the batch.
        describe: Returns the lines of text for one comparison.
        nothing_compared: The text for a stage that had nothing to compare.
    """

    compare: Callable[[Verifier, BatchRecord, CheckedBatch], Iterator[Compared]]
    describe: Callable[[Compared], Iterator[str]]
    nothing_compared: str = ""


def _compare_structure(
    past: Verifier, record: BatchRecord, batch: CheckedBatch
) -> Iterator[Compared]:
    limits = past.ledger.policy.limits
    compared: dict[str, Json] = {
        "intents": len(batch),
        "intents_max": limits.batch_intents_max,
        "bytes": len(record.encoded),
        "bytes_max": limits.batch_bytes_max,
    }
    notices = record.notices if isinstance(record, Admitted) else None
    warnings = [
        {"index": index, "code": code, "message": message, "at": at}
        for index, intent_notices in notices or ()
        for code, message, at in intent_notices
        if code in STRUCTURE_NOTICES
    ]
    yield {**compared, "warnings": warnings} if warnings else compared


def _describe_structure(compared: Compared) -> Iterator[str]:
    if "field" in compared:  # of a row of a column batch
        low, high = compared["low"], compared["high"]
        yield f"{compared['field']} {compared['value']}, within {low} and {high}"
        return
    yield (
        f"{_count(compared['intents'], 'intent')} of at most {compared['intents_max']}, "
        f"{compared['bytes']} bytes of at most {compared['bytes_max']}"
    )
    for warning in compared.get("warnings", ()):
        yield f"warning {warning['code']}: {warning['message']}"


def _compare_agent(past: Verifier, record: BatchRecord, batch: CheckedBatch) -> Iterator[Compared]:
    for agent_id in batch.agents:
        agent = past.ledger.agents.get(agent_id)
        kinds = [kind for who, kind, _ in batch.counts if who == agent_id]
        compared: dict[str, Json] = {
            "agent_id": agent_id,
            "registered": agent is not None,
            "submitter": record.submitter,
            "kinds": kinds,
        }
        if agent is not None:
            compared |= compared_agent(agent, record.submitter, agent_id)
        yield compared


def compared_agent(agent: Agent, submitter: str, *speakers: str) -> dict[str, Json]:
    """Return the comparison of the agent stage for one agent.

    Args:
        agent: The agent.
        submitter: The submitter of the batch.
        speakers: Who may submit for it, besides its owner and the operator.
    """
    permitted = agent.permissions
    return {
        "owner": agent.owner,
        "suspended": agent.is_suspended,
        "permissions": None if permitted is None else sorted(permitted),
        "may_submit": submitter in {OPERATOR, agent.owner, *speakers},
    }


def _describe_agent(compared: Compared) -> Iterator[str]:
    if not compared["registered"]:
        yield f"{compared['agent_id']} is not registered"
        return
    permitted = compared["permissions"]
    may = "all kinds" if permitted is None else ", ".join(permitted) or "nothing"
    yield (
        f"{compared['agent_id']}: registered, {'' if compared['suspended'] else 'not '}suspended, "
        f"may propose {may}; proposed {', '.join(compared['kinds'])}"
    )
    if not compared["may_submit"]:
        yield f"{compared['submitter']} may not submit for it; its owner is {compared['owner']}"


def _compare_dedup(past: Verifier, _: BatchRecord, batch: CheckedBatch) -> Iterator[Compared]:
    limits = past.ledger.policy.limits
    for agent_id in batch.agents:
        agent = past.ledger.agents.get(agent_id)
        window = None if agent is None else agent.window
        ids = [intent["req_id"] for intent in batch.intents if intent["agent_id"] == agent_id]
        compared: dict[str, Json] = {
            "agent_id": agent_id,
            "remembered": 0 if window is None else window.count,
            "remembered_max": limits.window_ids_max,
            "age_s_max": limits.window_age_ns_max / SECOND_NS,
            "req_ids": ids,
            "answered_before": [],
        }
        if window is not None:
            entries = {req_id: window.find(req_id) for req_id in ids}
            compared["answered_before"] = [
                {"req_id": i, "codes": [] if entry.detail == PLAIN else _codes(entry)}
                for i, entry in entries.items()
                if entry is not None
            ]
        yield compared


def _codes(answered: DedupEntry) -> list[str]:
    return sorted({refusal.code for refusal in unpack(answered).refusals})


def _describe_dedup(compared: Compared) -> Iterator[str]:
    if "population" in compared:  # of a column batch
        verdicts = _count(compared["remembered"], "verdict")
        yield (
            f"{compared['req_id']} is new; {verdicts} on column batches of "
            f"{compared['population']} remembered (at most {compared['remembered_max']})"
        )
        return
    before = compared["answered_before"]
    if before:
        for answer in before:
            codes = ", ".join(answer["codes"])
            yield f"{answer['req_id']} was decided before" + (
                f" ({codes}); with a newer context it is decided anew" if codes else ""
            )
        return
    ids = compared["req_ids"]
    new = f"{ids[0]} is new" if len(ids) == 1 else f"{ids[0]} … {ids[-1]} are new"
    remembered = _count(compared["remembered"], "verdict")
    yield (
        f"{new}; {remembered} of {compared['agent_id']} remembered "
        f"(at most about {compared['remembered_max']}, {compared['age_s_max']:g} s)"
    )


def _compare_staleness(
    past: Verifier, record: BatchRecord, batch: CheckedBatch
) -> Iterator[Compared]:
    seq, threshold = past.ledger.seq, past.ledger.policy.staleness_threshold
    until = record.valid_until_ns or [None] * len(batch)
    for index, intent in enumerate(batch.intents):
        context_seq, until_ns = batch.contexts[index], until[index]
        compared: dict[str, Json] = {
            "index": index,
            "context_seq": context_seq,
            "seq": seq,
            "threshold": threshold,
            "valid_until": None if until_ns is None else until_ns / SECOND_NS,
        }
        registry = past.registry
        if registry is None or intent["kind"] not in registry.kinds:
            yield {**compared, "reads": None}
            continue
        if "expect" in intent:
            yield {**compared, "reads": [], "conditions": _conditions(past.state, registry, intent)}
            continue
        compared["revalidates"] = registry.kinds[intent["kind"]].when_stale == "revalidate"
        yield {**compared, "reads": _reads(past.state, registry, intent, context_seq)}


def _reads(
    state: State, registry: Registry, intent: Intent, context_seq: int
) -> list[dict[str, Json]] | None:
    """Return, for each read of an intent, the latest change by another agent.

    An entity that the agent might not see is as one that never existed.
    """
    agent_id = intent["agent_id"]
    try:
        refs = [Ref(*ref) for ref in reads_of(registry.kinds[intent["kind"]], intent)]
        is_seen = {ref: registry.may_see(state, agent_id, ref) for ref in refs}
        stamps = {ref: state.stamp(*ref) if is_seen[ref] else None for ref in refs}
        authors = {
            ref: stamp.by
            for ref, stamp in stamps.items()
            if stamp is not None
            and stamp.by != agent_id
            and registry.may_know_agent(state, agent_id, stamp.by)
        }
    except Exception:  # noqa: BLE001  # the rule boundary: the refusal has the error
        return None
    reads: list[dict[str, Json]] = []
    for ref in refs:
        collection, entity = ref
        stamp = stamps[ref]
        changed = None if stamp is None else stamp.changed_for(agent_id)
        reads.append(
            {
                "entity": collection if entity is None else f"{collection}/{entity}",
                "changed": changed,
                "by": authors.get(ref),
                "is_stale": changed is not None and changed > context_seq,
            }
        )
    return reads


def _conditions(state: State, registry: Registry, intent: Intent) -> list[dict[str, Json]] | None:
    """Return each condition of an intent, with the value that its agent saw at that moment."""
    described: list[dict[str, Json]] = []
    try:
        for condition in intent["expect"]:
            found = found_by(condition, intent["agent_id"], registry, state)
            described.append(
                {
                    **condition,
                    "text": text_of(condition),
                    "found": None if found is ABSENT else thaw(found),
                    "is_absent": found is ABSENT,
                    "holds": holds(found, condition["op"], condition.get("value")),
                }
            )
    except Exception:  # noqa: BLE001  # the rule boundary: the refusal has the error
        return None
    return described


def _describe_staleness(compared: Compared) -> Iterator[str]:
    threshold = compared["threshold"]
    behind = compared["seq"] - compared["context_seq"]
    bound = "no bound is set" if threshold is None else f"at most {threshold} allowed"
    yield (
        f"intent {compared['index']}: context_seq {compared['context_seq']}, the world was at seq "
        f"{compared['seq']}: {behind} behind, {bound}"
    )
    if compared["valid_until"] is not None:
        yield f"  valid until {compared['valid_until']:g} s"
    reads = compared["reads"]
    if reads is None:
        yield "  its reads are not known without its domain"
        return
    for condition in compared.get("conditions") or ():
        found = "nothing" if condition["is_absent"] else format_value(condition["found"])
        mark = "" if condition["holds"] else "  <- does not hold"
        yield f"  expects {condition['text']}: found {found}{mark}"
    if compared.get("revalidates") and reads:
        yield "  staleness is left to the rule of its kind"
    for read in reads:
        yield f"  reads {read['entity']}: {_read_text(read)}"


def _read_text(read: Compared) -> str:
    if read["changed"] is None:
        return "never existed, or is hidden from the agent"
    if not read["changed"]:
        return "not changed by another agent"
    who = "another agent" if read["by"] is None else read["by"]
    mark = "  <- after context_seq" if read["is_stale"] else ""
    return f"changed by {who} at seq {read['changed']}{mark}"


def _compare_quota(past: Verifier, record: BatchRecord, batch: CheckedBatch) -> Iterator[Compared]:
    ledger = past.ledger
    charges = charges_on(batch, ledger, record.now_ns)
    if isinstance(record, AdmittedWithWork):
        charges += work_charges(batch, ledger, record.work, record.now_ns)
    for charge in charges:
        agent, bucket, kind, quota, intents, tat_ns = charge
        agent_id = None if agent is None else agent.agent_id
        kind = f"units of {bucket}" if bucket in {AGENT_WORK, WORLD_WORK} else kind
        yield compared_charge(agent_id, kind, quota, intents, tat_ns - record.now_ns)


def compared_charge(
    agent_id: str | None, kind: str | None, quota: Quota, charged: int, after_ns: int
) -> dict[str, Json]:
    """Return the comparison of the quota stage for one token bucket.

    Args:
        agent_id: The agent of the bucket; None is all agents together.
        kind: The kind, or the unit, that it counts; None is all kinds.
        quota: Its quota.
        charged: Intents, or units, that it is charged with.
        after_ns: Its theoretical arrival time after the charge, from the time of the decision on.
    """
    after = quota.burst - after_ns / quota.interval_ns
    return {
        "agent_id": agent_id,
        "kind": kind,
        "rate": SECOND_NS / quota.interval_ns,
        "interval_s": quota.interval_ns / SECOND_NS,
        "burst": quota.burst,
        "before": round(after + charged, 6),
        "charged": charged,
        "after": round(after, 6),
    }


def _describe_quota(compared: Compared) -> Iterator[str]:
    who = "all agents together" if compared["agent_id"] is None else compared["agent_id"]
    kinds = "all kinds" if compared["kind"] is None else compared["kind"]
    yield (
        f"{who}, {kinds}: {compared['rate']:g}/s, burst {compared['burst']}, one per "
        f"{compared['interval_s']:g} s; available {compared['before']:g}, "
        f"charged {compared['charged']}, left {compared['after']:g}"
    )


def _compare_backpressure(
    past: Verifier, record: BatchRecord, batch: CheckedBatch
) -> Iterator[Compared]:
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


def _describe_backpressure(compared: Compared) -> Iterator[str]:
    if "schedule" in compared:
        batches = _count(compared["schedule"], "batch", "batches")
        yield f"schedule: {batches}, at most {compared['schedule_max']}"
        return
    limit = compared["waiting_max"]
    bound = "no executor is registered" if limit is None else f"at most {limit}"
    yield f"executor {compared['executor']}: {_count(compared['waiting'], 'open effect')}, {bound}"


def _compare_domain(past: Verifier, record: BatchRecord, batch: CheckedBatch) -> Iterator[Compared]:
    if isinstance(record, Scheduled):
        yield {"due": record.due_ns / SECOND_NS}
        return
    if past.known_header.validator:
        yield {"validator": past.known_header.validator}
    if leases := _running_leases(past, record, batch):
        yield {"leases": leases}
    registry = past.registry
    order = range(len(batch)) if batch.order is None else batch.order
    for index in order:
        name = batch.intents[index]["kind"]
        kind = None if registry is None else registry.kinds.get(name)
        yield compared_kind(registry, index, name, None if kind is None else kind.version)
        yield from (
            _compared_read(past.state, read) for read in past.reads if read.position == index
        )


def _compared_read(state: State, read: Read) -> dict[str, Json]:
    """Return one read of a rule, with the latest change of the entity before the batch."""
    stamp = state.stamp(read.collection, read.entity)
    place = f"{read.collection}/{read.entity}"
    return {
        "index": read.position,
        "read": place if read.field is None else f"{place}/{read.field}",
        "value": thaw(read.value),
        "changed_seq": None if stamp is None else stamp.seq,
        "changed_by": None if stamp is None else stamp.by,
    }


def compared_kind(
    registry: Registry | None, index: int, name: str, version: str | None
) -> dict[str, Json]:
    """Return the known facts about the rule of an intent; its domain may not be available."""
    domain = None if registry is None else registry.domain_of.get(name)
    return {
        "index": index,
        "kind": name,
        "version": version,
        "domain": None if domain is None else f"{domain.name} {domain.version}",
    }


def _running_leases(
    past: Verifier, record: BatchRecord, batch: CheckedBatch
) -> list[dict[str, Json]]:
    """Return the leases that ran at the decision, of the entities that all its agents see."""
    table, registry, state = past.ledger.leases, past.registry, past.state
    if table is None or registry is None:
        return []
    return [
        {
            "entity": name_of(ref),
            "holder": ticket.agent_id,
            "until": (ticket.until_ns or 0) / SECOND_NS,
        }
        for ref, ticket in table.at(record.now_ns).held.items()
        if all(registry.may_see(state, agent_id, ref) for agent_id in batch.agents)
    ]


def _describe_domain(compared: Compared) -> Iterator[str]:
    for lease in compared.get("leases", ()):
        yield f"{lease['entity']} is leased by {lease['holder']} until {lease['until']:g} s"
    if "leases" in compared:
        return
    if "due" in compared:
        yield f"the rules run when the batch is due, at {compared['due']:g} s"
    elif "read" in compared:
        stamp, by = compared["changed_seq"], compared["changed_by"]
        since = "" if stamp is None else f" (its entity last changed at seq {stamp}, by {by})"
        value = format_value(compared["value"])
        yield f"intent {compared['index']} read {compared['read']} = {value}{since}"
    elif "validator" in compared:
        yield f"effect validator {compared['validator']} ran first, before the rule of each intent"
    else:
        of = "a domain that is not available" if compared["domain"] is None else compared["domain"]
        yield f"intent {compared['index']}: rule {compared['kind']} of {of}"


def _count(count: int, singular: str, more: str = "") -> str:
    return f"{count} {singular if count == 1 else more or singular + 's'}"


EXPLAINED_STAGES: Final = {
    Stage.STRUCTURE: ExplainedStage(_compare_structure, _describe_structure),
    Stage.AGENT: ExplainedStage(_compare_agent, _describe_agent),
    Stage.DEDUP: ExplainedStage(_compare_dedup, _describe_dedup),
    Stage.STALENESS: ExplainedStage(_compare_staleness, _describe_staleness),
    Stage.QUOTA: ExplainedStage(_compare_quota, _describe_quota, "no quota applies"),
    Stage.BACKPRESSURE: ExplainedStage(
        _compare_backpressure,
        _describe_backpressure,
        "the batch requests no effect, and is not scheduled for later",
    ),
    Stage.DOMAIN: ExplainedStage(_compare_domain, _describe_domain),
}
"""The explanation of each stage of the gate. Admission leaves no record to explain."""

assert list(EXPLAINED_STAGES) == [row.stage for row in GATE], "each stage of the gate is explained"
