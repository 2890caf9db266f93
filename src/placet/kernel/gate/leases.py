"""The leases in stage 7, after rules, hooks and invariants: requests, and changes of others.

A batch that changed an entity on which another agent has a running lease is refused as `leased`,
with the longest time until it may pass. Such a refusal is not final and leaves no record: a record
for each retry would fill the log. Ticks, settlements, patches, registrations and removals are not
refused because of leases.
"""

from typing import Final

import msgspec

from placet.kernel.context import GateContext
from placet.kernel.gate.changes import name_of
from placet.kernel.gate.intent_refusals import refuse_batch, refuse_intent
from placet.kernel.ledger.leases import (
    LEASE,
    LEASE_KINDS,
    LeaseTable,
    apply_intents,
    has_lease_kinds,
    refs_of,
)
from placet.kernel.plugin.boundary import plugin_boundary
from placet.schemas.batch import CheckedBatch
from placet.schemas.identity import Ref
from placet.schemas.intent import Intent
from placet.schemas.limits import SECOND_NS
from placet.schemas.refusal import Refusal, RefusalCode, seconds_until

_AGAIN: Final = "send the batch again then"


def check(batch: CheckedBatch, table: LeaseTable, context: GateContext) -> list[Refusal] | None:
    """Judge a batch whose rules have passed; put the outputs of its lease intents into the draft.

    Raises:
        PluginError: A domain's `may_see` raised.
    """
    now = table.at(context.now_ns)
    if now.held and (refusals := _held_by_others(batch, now, context)):
        return refusals
    if not has_lease_kinds(batch.counts):
        return None
    refused = _lease_refusal(batch, now, context)
    if refused is not None:
        return [refused]
    # On a copy: the table changes when the record is applied.
    outputs = apply_intents(now.copy(), batch.intents, context.ledger.agents, context.now_ns)
    context.transaction.add_outputs(outputs)
    return None


def _held_by_others(
    batch: CheckedBatch, now: LeaseTable, context: GateContext
) -> list[Refusal] | None:
    for ref in context.transaction.changed():
        ticket = now.held.get(ref)
        if ticket is None:
            continue
        other = next((name for name in batch.agents if name != ticket.agent_id), None)
        if other is not None:
            assert ticket.until_ns is not None, "a running lease has an end"
            refusal = _leased(ref, ticket.agent_id, ticket.until_ns, other, context)
            return [refusal] if batch.due_of is None else [_final(refusal)]
    return None


def _leased(ref: Ref, holder: str, until_ns: int, agent_id: str, context: GateContext) -> Refusal:
    """Return the refusal of a batch; it names entity and holder where its agent sees them."""
    registry, state = context.registry, context.state
    with plugin_boundary("visibility of a leased entity"):
        is_seen = registry.may_see(state, agent_id, ref)
        is_known = is_seen and registry.may_know_agent(state, agent_id, holder)
    what = name_of(ref) if is_seen else "an entity that it would change"
    by = f" by {holder!r}" if is_known else ""
    retry_after = seconds_until(until_ns, context.now_ns)
    return refuse_batch(
        RefusalCode.LEASED,
        f"{what} is leased{by} for at most {retry_after:g} s more; {_AGAIN}, or lease it first",
        retry_after=retry_after,
        agent_id=agent_id,
        entity=name_of(ref) if is_seen else None,
        holder=holder if is_known else None,
    )


def _final(refusal: Refusal) -> Refusal:
    """Return the refusal of a scheduled batch, which is due once."""
    message = refusal.message.replace(_AGAIN, "send a new batch then")
    return msgspec.structs.replace(refusal, message=message, retry_after=None)


def _lease_refusal(batch: CheckedBatch, now: LeaseTable, context: GateContext) -> Refusal | None:
    """Return the refusal of the first lease intent that the world does not grant a ticket."""
    count = sum(number for _, kind, number in batch.counts if kind in LEASE_KINDS)
    for index, intent in enumerate(batch.intents):
        if intent["kind"] not in LEASE_KINDS:
            continue
        if count > 1:
            why = "a batch has at most one lease intent; send the others after it"
            return refuse_intent(batch, index, RefusalCode.LEASE_REFUSED, why)
        if intent["kind"] == LEASE:
            return _refused_request(batch, index, intent, now, context)
    return None


def _refused_request(
    batch: CheckedBatch, index: int, intent: Intent, now: LeaseTable, context: GateContext
) -> Refusal | None:
    payload, settings = intent["payload"], now.settings
    refs, own = refs_of(payload), now.tickets.get(intent["agent_id"])
    seconds_max, at = settings.length_ns_max / SECOND_NS, ""
    if payload["seconds"] > seconds_max:
        why, at = f"a lease is at most {seconds_max:g} s long", "/payload/seconds"
    elif len(refs) > settings.refs_max:
        why, at = f"a lease has at most {settings.refs_max} entities", "/payload/refs"
    elif own is not None and own.refs != refs:
        why, at = "the agent has a ticket for other entities; release it first", "/payload/refs"
    elif own is None and len(now.tickets) >= settings.tickets_max:
        why = f"{settings.tickets_max} tickets are taken, which is all; try again later"
    else:
        return _hidden_refusal(batch, index, refs, context)
    return refuse_intent(batch, index, RefusalCode.LEASE_REFUSED, why, at=at)


def _hidden_refusal(
    batch: CheckedBatch, index: int, refs: tuple[Ref, ...], context: GateContext
) -> Refusal | None:
    """Return the refusal of a request for an entity that its agent does not see, by one text."""
    agent_id = batch.intents[index]["agent_id"]
    with plugin_boundary("visibility of an entity to lease", index):
        for ref in refs:
            if context.registry.seen(context.state, agent_id, ref) is None:
                return refuse_intent(
                    batch,
                    index,
                    RefusalCode.LEASE_UNKNOWN,
                    f"there is no entity {name_of(ref)}; lease entities of the agent's view",
                    at="/payload/refs",
                )
    return None
