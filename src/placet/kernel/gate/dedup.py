"""Stage 3: was this asked before?

Answers are remembered per batch: all its ids point to one answer. The same set of ids and contents
gets that answer again; any other mix of known and new ids is a mistake, and named.
"""

from collections.abc import Mapping, Sequence

from placet.kernel.context import GateContext
from placet.kernel.gate.intent_refusals import refuse_intent
from placet.kernel.ledger.dedup_window import DedupEntry, StoredRefusal, StoredVerdict, unpack
from placet.schemas.batch import CheckedBatch
from placet.schemas.identity import sequence_form
from placet.schemas.limits import SECOND_NS
from placet.schemas.refusal import Refusal, RefusalCode, Stage
from placet.schemas.verdict import Verdict

_STALE_CODES = frozenset({RefusalCode.STALE_CONTEXT.value, RefusalCode.CONTEXT_TOO_OLD.value})


def check(batch: CheckedBatch, context: GateContext) -> list[Refusal] | Verdict | None:
    """Answer a repetition, refuse a reuse, let everything new pass."""
    agents = context.ledger.agents
    if len(batch.agents) == 1:  # the usual batch, and usually new: one question for all its ids
        window = agents[batch.agents[0]].window
        if window is None or window.is_new(batch.req_ids, batch.span):
            return None
    known: list[tuple[int, DedupEntry]] | None = None
    refusals: list[Refusal] | None = None
    oldest_ns = context.now_ns - context.ledger.policy.limits.window_age_ns_max
    for index, intent in enumerate(batch.intents):
        window = agents[intent["agent_id"]].window
        if window is None:
            continue
        req_id = intent["req_id"]
        answer = window.find(req_id)
        if answer is None:
            is_too_old = bool(window.forgotten) and window.is_too_old(req_id)
        elif answer.now_ns >= oldest_ns:
            known = known or []
            known.append((index, answer))
            continue
        else:  # past its age, though nothing has pushed it out yet
            is_too_old = sequence_form(req_id) is not None
        if is_too_old:
            refusals = refusals or []
            refusals.append(_too_old(batch, index))
    if known is None:
        return refusals
    if len(known) == len(batch) and _is_same(batch, known):
        return _again(batch, known, context)
    answers = dict.fromkeys([answer for _, answer in known])  # as a rule one, for many ids
    pasts = {answer: unpack(answer) for answer in answers}
    return (refusals or []) + [_reused(batch, index, pasts[answer]) for index, answer in known]


def _is_same(batch: CheckedBatch, known: list[tuple[int, DedupEntry]]) -> bool:
    return all(answer.fingerprint == batch.fingerprint for _, answer in known)


def _again(
    batch: CheckedBatch, known: list[tuple[int, DedupEntry]], context: GateContext
) -> Verdict | None:
    """Return the earlier answer, or None where newer contexts make this a new try."""
    intents = batch.intents
    # One content has one answer, so an agent's window has one for all its ids.
    answers = {intents[index]["agent_id"]: answer for index, answer in known}
    pasts = {agent_id: unpack(answer) for agent_id, answer in answers.items()}
    past = pasts[intents[0]["agent_id"]]
    if past.refusals and _is_new_try(batch, pasts, past.refusals[0].code):
        return None
    seqs = None
    if past.seqs:
        seqs = [pasts[intent["agent_id"]].seqs[intent["req_id"]] for intent in intents]
    places = {(i["agent_id"], i["req_id"]): index for index, i in enumerate(intents)}
    refusals = [
        _refused_before(found, places.get((found.agent_id or "", found.req_id or "")))
        for found in past.refusals
    ]
    refusals.sort(key=lambda refusal: -1 if refusal.index is None else refusal.index)
    verdict = _replayed(batch.batch_id, past, refusals, context)
    verdict.attach(batch.req_ids, batch.encoded, seqs)
    return verdict


def _is_new_try(batch: CheckedBatch, pasts: Mapping[str, StoredVerdict], code: str) -> bool:
    """After a staleness refusal, a newer look at the world makes the same request a new one."""
    before = [pasts[intent["agent_id"]].contexts[intent["req_id"]] for intent in batch.intents]
    if code == RefusalCode.CONTEXT_FROM_FUTURE:
        return before != batch.contexts
    if code not in _STALE_CODES:
        return False
    pairs = list(zip(before, batch.contexts, strict=True))
    return any(now > then for then, now in pairs) and all(now >= then for then, now in pairs)


def remembered_verdict(past: StoredVerdict, context: GateContext) -> Verdict:
    """Build the answer to a request whose batch is not at hand: the agent's ids, no payloads."""
    refusals = [_refused_before(found, found.position) for found in past.refusals]
    seqs = [past.seqs[req_id] for req_id in past.ids] if past.seqs else None
    verdict = _replayed("", past, refusals, context)
    verdict.attach(past.ids, b"", seqs)
    return verdict


def _replayed(
    batch_id: str,
    past: StoredVerdict,
    refusals: Sequence[Refusal],
    context: GateContext,
) -> Verdict:
    """Build an answer: admitted, seq, stage and code are as they were; texts are not."""
    sim_time = context.now_ns / SECOND_NS
    current_seq = context.ledger.seq
    verdict = Verdict(batch_id, not refusals, past.seq, current_seq, sim_time, tuple(refusals))
    verdict.replayed = True
    verdict.scheduled = past.is_scheduled
    return verdict


def _refused_before(found: StoredRefusal, index: int | None) -> Refusal:
    return Refusal(
        found.code,
        f"this request was refused before, as {found.code}; use a new req_id for a new try",
        Stage(found.stage),
        index,
        found.req_id,
        "" if index is None else f"/intents/{index}",
    )


def _reused(batch: CheckedBatch, index: int, past: StoredVerdict) -> Refusal:
    req_id = batch.intents[index]["req_id"]
    if past.seqs:
        answer = f"admitted at seq {past.seqs[req_id]}"
    elif past.refusals:
        answer = f"refused as {past.refusals[0].code}"
    else:
        answer = f"scheduled at seq {past.seq}"
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
