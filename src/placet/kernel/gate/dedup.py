"""Stage 3: was this asked before?

Verdicts are remembered per batch: all its ids point to one entry. The same set of ids and
contents gets that verdict again; any other mix of known and new ids is an error, and names the
ids.
"""

from collections.abc import Mapping, Sequence

from placet.kernel.context import GateContext
from placet.kernel.gate.intent_refusals import refuse_intent
from placet.kernel.ledger.dedup_window import DedupEntry
from placet.kernel.ledger.stored_verdict import StoredRefusal, StoredVerdict, unpack
from placet.schemas.batch import CheckedBatch, sequence_form
from placet.schemas.limits import SECOND_NS
from placet.schemas.refusal import Refusal, RefusalCode, Stage
from placet.schemas.verdict import Verdict

_STALE_CODES = frozenset(
    {
        RefusalCode.STALE_CONTEXT.value,
        RefusalCode.CONDITION_FAILED.value,
        RefusalCode.CONTEXT_TOO_OLD.value,
    }
)


def check(batch: CheckedBatch, context: GateContext) -> list[Refusal] | Verdict | None:
    """Compare the req_ids of a batch with the remembered verdicts of its agents.

    Returns:
        None for a new batch, the stored verdict for a duplicate, and refusals if a req_id was used
        with other content or may be too old to be remembered.
    """
    agents = context.ledger.agents
    # The usual batch is of one agent and new: one call suffices for all of its ids.
    if len(batch.agents) == 1:
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
        entry = window.find(req_id)
        if entry is None:
            is_too_old = bool(window.forgotten) and window.is_too_old(req_id)
        elif entry.now_ns >= oldest_ns:
            known = known or []
            known.append((index, entry))
            continue
        else:  # past its age but not evicted yet: eviction runs with the next entry only
            is_too_old = sequence_form(req_id) is not None
        if is_too_old:
            refusals = refusals or []
            refusals.append(_req_id_too_old(batch, index))
    if known is None:
        return refusals
    if len(known) == len(batch) and _is_same(batch, known):
        return _repeat(batch, known, context)
    # Some ids are known, but it is not the same batch. To admit the rest would break atomicity,
    # and to return the earlier verdict would hide the new content: refuse and name the ids.
    entries = dict.fromkeys([entry for _, entry in known])  # usually one entry, for many ids
    pasts = {entry: unpack(entry) for entry in entries}
    return (refusals or []) + [_req_id_reused(batch, index, pasts[entry]) for index, entry in known]


def _is_same(batch: CheckedBatch, known: list[tuple[int, DedupEntry]]) -> bool:
    return all(entry.fingerprint == batch.fingerprint for _, entry in known)


def _repeat(
    batch: CheckedBatch, known: list[tuple[int, DedupEntry]], context: GateContext
) -> Verdict | None:
    """Return the earlier verdict, or None where newer contexts make this a new try."""
    intents = batch.intents
    # The fingerprints are equal, so each agent's window has one entry for all of its ids.
    entries = {intents[index]["agent_id"]: entry for index, entry in known}
    pasts = {agent_id: unpack(entry) for agent_id, entry in entries.items()}
    stored = pasts[intents[0]["agent_id"]]
    if stored.refusals and _is_new_try(batch, pasts, stored.refusals[0].code):
        return None
    seqs = None
    if stored.seqs:
        seqs = [pasts[intent["agent_id"]].seqs[intent["req_id"]] for intent in intents]
    index_of = {(i["agent_id"], i["req_id"]): index for index, i in enumerate(intents)}
    refusals = [
        _refused_before(refusal, index_of.get((refusal.agent_id or "", refusal.req_id or "")))
        for refusal in stored.refusals
    ]
    refusals.sort(key=lambda refusal: -1 if refusal.index is None else refusal.index)
    verdict = _replayed(batch.batch_id, stored, refusals, context)
    verdict.attach(batch.req_ids, batch.encoded, seqs)
    return verdict


def _is_new_try(batch: CheckedBatch, pasts: Mapping[str, StoredVerdict], code: str) -> bool:
    """Return whether newer contexts make a request new that was refused as stale."""
    before = [pasts[intent["agent_id"]].contexts[intent["req_id"]] for intent in batch.intents]
    if code == RefusalCode.CONTEXT_FROM_FUTURE:
        return before != batch.contexts
    if code not in _STALE_CODES:
        return False
    pairs = list(zip(before, batch.contexts, strict=True))
    return any(now > then for then, now in pairs) and all(now >= then for then, now in pairs)


def remembered_verdict(stored: StoredVerdict, context: GateContext) -> Verdict:
    """Rebuild the verdict of a stored request for a caller that does not resend the batch.

    It has the agent's req_ids, and no payloads.
    """
    refusals = [_refused_before(refusal, refusal.position) for refusal in stored.refusals]
    seqs = [stored.seqs[req_id] for req_id in stored.ids] if stored.seqs else None
    verdict = _replayed("", stored, refusals, context)
    verdict.attach(list(stored.ids), b"", seqs)
    return verdict


def _replayed(
    batch_id: str,
    stored: StoredVerdict,
    refusals: Sequence[Refusal],
    context: GateContext,
) -> Verdict:
    """Build a repeated verdict: admitted, seq, stage and code as before; messages are new."""
    sim_time = context.now_ns / SECOND_NS
    current_seq = context.ledger.seq
    verdict = Verdict(batch_id, not refusals, stored.seq, current_seq, sim_time, tuple(refusals))
    verdict.replayed = True
    verdict.scheduled = stored.is_scheduled
    return verdict


def _refused_before(refusal: StoredRefusal, index: int | None) -> Refusal:
    return Refusal(
        refusal.code,
        f"this request was refused before, as {refusal.code}; use a new req_id for a new try",
        Stage(refusal.stage),
        index,
        refusal.req_id,
        "" if index is None else f"/intents/{index}",
    )


def _req_id_reused(batch: CheckedBatch, index: int, stored: StoredVerdict) -> Refusal:
    req_id = batch.intents[index]["req_id"]
    if stored.seqs:
        earlier = f"admitted at seq {stored.seqs[req_id]}"
    elif stored.refusals:
        earlier = f"refused as {stored.refusals[0].code}"
    else:
        earlier = f"scheduled at seq {stored.seq}"
    return refuse_intent(
        batch,
        index,
        RefusalCode.REQ_ID_REUSED,
        f"req_id {req_id!r} was used before with other content or in another batch ({earlier}); "
        "use a new req_id",
        at="/req_id",
        earlier=earlier,
    )


def _req_id_too_old(batch: CheckedBatch, index: int) -> Refusal:
    return refuse_intent(
        batch,
        index,
        RefusalCode.REQ_ID_TOO_OLD,
        f"req_id {batch.intents[index]['req_id']!r} is older than the remembered part of its "
        "sequence, so it may have been decided before; use a newer number",
        at="/req_id",
    )
