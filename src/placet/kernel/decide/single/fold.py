"""Replay of a `SingleBlock`: its plain batches are applied without building a record of each."""

from collections.abc import Callable

from placet.kernel.ledger.dedup_window import RangeEntry, admitted
from placet.kernel.ledger.ledger import Ledger
from placet.kernel.state.collection import OF_TABLE
from placet.kernel.state.tree import State
from placet.schemas.batch import sequence_form
from placet.schemas.codec import freeze
from placet.schemas.log.expand import BatchRecord, BlockBatches, BlockItem
from placet.schemas.log.record import SingleBlock


def fold_block(
    record: SingleBlock, state: State, ledger: Ledger, fold_one: Callable[[BatchRecord], None]
) -> None:
    """Apply the batches of a group to state and ledger, in order of execution.

    Args:
        record: The group.
        state: The state.
        ledger: The ledger.
        fold_one: Applies the record of a batch that is not plain, or is charged to a quota.
    """
    batches, keys, now_ns = BlockBatches(record), record.keys, record.now_ns
    is_charged = ledger.has_quotas or ledger.policy.checks_work
    limits, agents, dedup = ledger.policy.limits, ledger.agents, ledger.dedup
    ordinals, remember_above = ledger.ordinals, dedup.remembering(now_ns, limits)
    for item in batches:
        if is_charged or not item.is_plain:
            fold_one(batches.record_of(item))
            continue
        ledger.seq = seq = item.seq
        if ordinals.now_ns != now_ns:
            ordinals.begin(now_ns)
        ordinals.names.append(item.agent_id)
        agent_id, req_id = item.agent_id, item.req_id
        agent, sequence = agents[agent_id], sequence_form(req_id)
        window = agent.window
        if sequence is None:
            dedup.remember(agent, admitted(item.fingerprint, now_ns, seq, (req_id,)), limits)
        else:
            name, n = sequence
            entry = RangeEntry(item.fingerprint, now_ns, seq, name, n, n)
            if window is None or window.is_above(req_id, sequence):
                remember_above(agent, window, entry)
            else:
                dedup.remember(agent, entry, limits)
        if item.put is not None:
            _fold_put(item, *keys[item.put[0]], state)


def _fold_put(item: BlockItem, collection: str, field: str, state: State) -> None:
    """Write the one change of a batch, with its stamp."""
    assert item.put is not None, "the batch changed a field"
    _, entity, value, foreign_seq = item.put
    entity = item.agent_id if entity is None else entity
    kept = state.collections[collection].entities[entity]
    if kept.epoch not in {state.epoch, OF_TABLE}:  # a cut shares it
        kept = state.own(collection, entity, kept)
    fields = kept.fields
    if field in fields:
        fields[field] = freeze(value)
    else:
        kept.fields = dict(sorted({**fields, field: freeze(value)}.items()))
    kept.seq, kept.by, kept.foreign_seq = item.seq, item.agent_id, foreign_seq
    if kept.digest is not None:
        state.mark_dirty(collection, entity, kept)
