"""Stage 3: was this asked before?

Answers are remembered per batch: all its ids point to one answer. The same set of ids and contents
gets that answer again; any other mix of known and new ids is a mistake, and named.
"""

from collections.abc import Sequence

from placet.kernel.gate.context import GateContext, refuse_intent
from placet.kernel.window import FINGERPRINT, NOW_NS, Block, Past, PastRefusal, unpack
from placet.schemas.batch import CheckedBatch
from placet.schemas.intent import Intent
from placet.schemas.limits import SECOND_NS
from placet.schemas.refusal import Refusal, RefusalCode, Stage
from placet.schemas.verdict import Verdict

_STALE_CODES = frozenset({RefusalCode.STALE_CONTEXT.value, RefusalCode.CONTEXT_TOO_OLD.value})


def check(batch: CheckedBatch, context: GateContext) -> list[Refusal] | Verdict | None:
    """Answer a repetition, refuse a reuse, let everything new pass."""
    if batch.due_of is not None:
        return None  # its ids are known: they were remembered when it was scheduled
    agents = context.ledger.agents
    known: list[tuple[int, Block]] | None = None
    refusals: list[Refusal] | None = None
    age_ns_max = context.ledger.policy.limits.window_age_ns_max
    for index, intent in enumerate(batch.intents):
        window = agents[intent["agent_id"]].window
        if window is None:
            continue
        req_id = intent["req_id"]
        block = window.ids.get(req_id)
        if block is not None and block[NOW_NS] >= context.now_ns - age_ns_max:  # type: ignore[operator]  # an int
            known = known or []
            known.append((index, block))
        elif window.forgotten and window.is_too_old(req_id):
            refusals = refusals or []
            refusals.append(_too_old(batch, index))
    if known is None:
        return refusals
    if refusals is None and len(known) == len(batch) and _is_same(batch, known):
        return _again(batch, known, context)
    return (refusals or []) + [_reused(batch, index, block) for index, block in known]


def _is_same(batch: CheckedBatch, known: list[tuple[int, Block]]) -> bool:
    return all(block[FINGERPRINT] == batch.fingerprint for _, block in known)


def _again(
    batch: CheckedBatch, known: list[tuple[int, Block]], context: GateContext
) -> Verdict | None:
    """Give the earlier answer, or None where newer contexts make this a new try."""
    past = Past({})
    for _, block in known:
        part = unpack(block)
        past = Past(
            past.seqs | part.seqs,
            past.refusals or part.refusals,
            past.contexts | part.contexts,
            part.scheduled,
        )
    if past.refusals and _is_new_try(batch, past):
        return None
    return _replayed(batch.batch_id, past, batch.intents, context)


def _is_new_try(batch: CheckedBatch, past: Past) -> bool:
    """After a staleness refusal, a newer look at the world makes the same request a new one."""
    before = [past.contexts[intent["req_id"]] for intent in batch.intents]
    if past.refusals[0].code == RefusalCode.CONTEXT_FROM_FUTURE:
        return before != batch.contexts
    if past.refusals[0].code not in _STALE_CODES:
        return False
    pairs = list(zip(before, batch.contexts, strict=True))
    return any(now > then for then, now in pairs) and all(now >= then for then, now in pairs)


def remembered_verdict(past: Past, context: GateContext) -> Verdict:
    """Build the answer to a repetition whose batch is not at hand: ids, but no payloads."""
    intents = [{"req_id": req_id, "payload": {}} for req_id in past.seqs or past.contexts]
    return _replayed("", past, intents, context)  # type: ignore[arg-type]  # all that a result reads


def _replayed(
    batch_id: str, past: Past, intents: Sequence[Intent], context: GateContext
) -> Verdict:
    """Build an answer: admitted, seq, stage and code are as they were; texts are not."""
    places = {intent["req_id"]: index for index, intent in enumerate(intents)}
    refusals = tuple(_refused_before(found, places.get(found.req_id or "")) for found in past.refusals)
    sim_time = context.now_ns / SECOND_NS
    seq = max(past.seqs.values(), default=None)
    verdict = Verdict(batch_id, not refusals, seq, context.ledger.seq, sim_time, refusals)
    verdict.replayed = True
    verdict.scheduled = past.scheduled is not None
    verdict.attach(intents, [past.seqs[i["req_id"]] for i in intents] if past.seqs else None)
    return verdict


def _refused_before(found: PastRefusal, index: int | None) -> Refusal:
    return Refusal(
        found.code,
        f"this request was refused before, as {found.code}; use a new req_id for a new try",
        Stage(found.stage),
        index,
        found.req_id,
        "" if index is None else f"/intents/{index}",
    )


def _reused(batch: CheckedBatch, index: int, block: Block) -> Refusal:
    req_id = batch.intents[index]["req_id"]
    past = unpack(block)
    if past.seqs:
        answer = f"admitted at seq {past.seqs[req_id]}"
    elif past.refusals:
        answer = f"refused as {past.refusals[0].code}"
    else:
        answer = "scheduled"
    return refuse_intent(
        batch,
        index,
        RefusalCode.REQ_ID_REUSED,
        f"req_id {req_id!r} was used before with other content or in another batch ({answer}); "
        "use a new req_id",
        at="/req_id",
        earlier=answer,
    )


def _too_old(batch: CheckedBatch, index: int) -> Refusal:
    return refuse_intent(
        batch,
        index,
        RefusalCode.REQ_ID_TOO_OLD,
        f"req_id {batch.intents[index]['req_id']!r} is older than what is remembered of its "
        "sequence, so it may have been answered before; use a newer number",
        at="/req_id",
    )
