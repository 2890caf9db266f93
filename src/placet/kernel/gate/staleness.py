"""Stage 4: has the world moved under the agent since it looked?

Three checks: the world's threshold on the global seq, if one is set; the conditions of an intent
that has some (`conditions.py`); and else the footprint that its kind declares. An agent's own
changes do not make it stale by footprint, and neither do changes of entities that it may not see:
its batch then goes to the rules, as if no entity had that name.
"""

from collections.abc import Iterable

from placet.kernel.context import GateContext
from placet.kernel.gate import conditions
from placet.kernel.gate.changes import describe_change, name_of
from placet.kernel.gate.intent_refusals import refuse_intent
from placet.kernel.ledger.leases import LEASE_KINDS
from placet.kernel.plugin.boundary import plugin_boundary
from placet.kernel.plugin.domain import Kind
from placet.schemas.batch import CheckedBatch
from placet.schemas.identity import Ref
from placet.schemas.intent import Intent
from placet.schemas.limits import SECOND_NS
from placet.schemas.refusal import Refusal, RefusalCode


def check(batch: CheckedBatch, context: GateContext) -> list[Refusal] | None:
    """Return a refusal for each intent based on old state, or whose time has passed; else None.

    Refused are a `context_seq` that the world has not reached or that is too far behind, a past
    `valid_until`, a condition that does not hold, and an intent without conditions that depends on
    an entity which changed after its `context_seq`.

    Raises:
        PluginError: A domain's footprint or `may_see` raised.
    """
    ledger, contexts = context.ledger, batch.contexts
    seq, threshold = ledger.seq, ledger.policy.staleness_threshold
    oldest = newest = contexts[0]
    if len(contexts) > 1:
        oldest, newest = min(contexts), max(contexts)
    # A due batch names the context of its submission: the global threshold would refuse every
    # batch that was scheduled far ahead, so its footprint alone is checked.
    is_from_future = newest > seq and batch.due_of is None
    is_beyond = threshold is not None and seq - oldest > threshold and batch.due_of is None
    is_fresh = batch.conditions is None and _is_fresh(batch, context, oldest)
    if is_fresh and not is_from_future and not is_beyond and batch.valid_until_ns is None:
        return None
    # In order of precedence: only the first refusal of each intent is returned.
    refusals: list[Refusal] = []
    if is_from_future:
        refusals += _from_future(batch, seq)
    if batch.valid_until_ns is not None:
        refusals += _expired(batch, context.now_ns)
    if is_beyond:
        refusals += _beyond_threshold(batch, seq, threshold or 0)
    if batch.conditions is not None and not _is_later(batch, context):
        refusals += conditions.check(batch, context)
    if not is_fresh:
        refusals += _footprints(batch, context)
    if not refusals:
        return None
    first: dict[int | None, Refusal] = {}
    for refusal in refusals:
        first.setdefault(refusal.index, refusal)
    return list(first.values())


def _is_later(batch: CheckedBatch, context: GateContext) -> bool:
    """Return whether a batch is to be scheduled: its conditions are judged when it is due."""
    return batch.due_of is None and (batch.sim_time_ns or 0) > context.now_ns


def _from_future(batch: CheckedBatch, seq: int) -> list[Refusal]:
    return [
        refuse_intent(
            batch,
            index,
            RefusalCode.CONTEXT_FROM_FUTURE,
            f"context_seq {context_seq} is ahead of the world, which is at seq {seq}; "
            "send the seq of a view you were given",
            at="/context_seq",
            context_seq=context_seq,
        )
        for index, context_seq in enumerate(batch.contexts)
        if context_seq > seq
    ]


def _expired(batch: CheckedBatch, now_ns: int) -> list[Refusal]:
    return [
        refuse_intent(
            batch,
            index,
            RefusalCode.EXPIRED,
            f"the intent was valid until {until_ns / SECOND_NS:g} s and it is "
            f"{now_ns / SECOND_NS:g} s; propose anew",
            at="/valid_until",
            context_seq=batch.contexts[index],
        )
        for index, until_ns in enumerate(batch.valid_until_ns or ())
        if until_ns is not None and until_ns < now_ns
    ]


def _beyond_threshold(batch: CheckedBatch, seq: int, threshold: int) -> list[Refusal]:
    """Return a refusal for each intent that is too far behind.

    A lease is requested and released after a wait or a thought, and depends on no view.
    """
    return [
        refuse_intent(
            batch,
            index,
            RefusalCode.STALE_CONTEXT,
            f"context_seq {context_seq} is {seq - context_seq} behind the world at seq {seq}, "
            f"at most {threshold} is allowed; refresh the view and propose again",
            at="/context_seq",
            context_seq=context_seq,
        )
        for index, context_seq in enumerate(batch.contexts)
        if seq - context_seq > threshold and batch.intents[index]["kind"] not in LEASE_KINDS
    ]


def _is_fresh(batch: CheckedBatch, context: GateContext, oldest: int) -> bool:
    """Return whether only the agents' own entities are read and none has changed.

    One lookup per agent and kind.
    """
    kinds, collections = context.registry.kinds, context.state.collections
    for agent_id, kind_name, _ in batch.counts:
        kind = kinds[kind_name]
        collection = kind.reads_self
        if collection is None:
            if kind.reads is None:
                continue  # it depends on nothing
            return False
        rows = collections.get(collection)
        row = None if rows is None else rows.entities.get(agent_id)
        if row is None:
            return False
        # `Stamp.changed_for`, inlined: this is on the path of every batch.
        latest = row.foreign_seq if row.by == agent_id else row.seq
        if latest > oldest:
            return False
    return True


def _footprints(batch: CheckedBatch, context: GateContext) -> list[Refusal]:
    """Compare each intent's footprint with its context, entity by entity.

    Visibility is asked only about entities that were found changed.
    """
    refusals = []
    registry, state = context.registry, context.state
    kinds = registry.kinds
    tracked_from = state.tracked_from
    with plugin_boundary() as boundary:  # `reads` and `may_see` are the domain's code
        for index, intent in enumerate(batch.intents):
            kind = kinds[intent["kind"]]
            if kind.when_stale == "revalidate" or "expect" in intent:
                continue
            boundary.where, boundary.index = f"footprint of {kind.name}", index
            context_seq, agent_id = batch.contexts[index], intent["agent_id"]
            changed: list[Ref] = []
            forgotten = None
            for collection, entity in reads_of(kind, intent):
                stamp = state.stamp(collection, entity)
                if stamp is None:
                    # A deleted entity whose tombstone was trimmed may have changed since.
                    is_due = context_seq < tracked_from and entity is not None
                else:
                    is_due = stamp.seq > context_seq and stamp.changed_for(agent_id) > context_seq
                ref = Ref(collection, entity)
                if not is_due or not registry.may_see(state, agent_id, ref):
                    continue
                if stamp is None:
                    forgotten = ref
                else:
                    changed.append(ref)
            if changed:
                refusals.append(_stale(batch, index, changed, context))
            elif forgotten is not None:
                refusals.append(_too_old(batch, index, forgotten, tracked_from))
    return refusals


def _too_old(batch: CheckedBatch, index: int, ref: Ref, tracked_from: int) -> Refusal:
    return refuse_intent(
        batch,
        index,
        RefusalCode.CONTEXT_TOO_OLD,
        f"context_seq {batch.contexts[index]} is older than the tracked changes of "
        f"{name_of(ref)} (from seq {tracked_from}); refresh the view and propose again",
        at="/context_seq",
        context_seq=batch.contexts[index],
    )


def _stale(batch: CheckedBatch, index: int, refs: list[Ref], context: GateContext) -> Refusal:
    intent = batch.intents[index]
    agent_id = intent["agent_id"]
    limit = context.ledger.policy.limits.changes_listed_max
    changed = [describe_change(ref, agent_id, context) for ref in refs[:limit]]
    names = ", ".join(change["entity"] for change in changed)
    return refuse_intent(
        batch,
        index,
        RefusalCode.STALE_CONTEXT,
        f"{names} changed after context_seq {batch.contexts[index]}; "
        "refresh the view and propose again",
        at="/context_seq",
        changed=changed,
        context_seq=batch.contexts[index],
    )


def reads_of(kind: Kind, intent: Intent) -> Iterable[tuple[str, str | None]]:
    """Return the references that an intent depends on, as its kind declares them."""
    if kind.reads_self is not None:
        return ((kind.reads_self, intent["agent_id"]),)
    return () if kind.reads is None else kind.reads({**intent})  # its own to write into
