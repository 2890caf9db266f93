"""Index the intents of a batch once, for all later stages.

The structure stage builds the batches that arrive; `recorded_batch` rebuilds one from its
record, for the schedule and for replay. Both index the intents here, so later stages read the
same.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

from placet.schemas.batch import CheckedBatch, Part, part_of
from placet.schemas.identity import Span, only_sequence, sequence_form
from placet.schemas.log.intents import checked_intents
from placet.schemas.log.record import Admitted, Refused, Scheduled

T = TypeVar("T", bound=Hashable)


def index_intents(batch: CheckedBatch, parts: Sequence[Part]) -> bool:
    """Set `req_ids`, `span`, `agents`, `counts`, `priority` and `order` of a batch.

    Args:
        batch: The batch.
        parts: The encoded parts of its intents, in the submitted order.

    Returns:
        False if an agent uses a req_id twice in the batch.
    """
    if len(parts) > 1:
        return _index_many(batch, parts)
    agent_id, req_id, kind, _, batch.priority = parts[0]
    batch.req_ids = [req_id]
    sequence = sequence_form(req_id)
    if sequence is None:
        batch.span = None
    else:
        name, number = sequence
        batch.span = Span(name, number, number, True)
    batch.agents = (agent_id,)
    batch.counts = ((agent_id, kind, 1),)
    batch.order = None
    return True


def _index_many(batch: CheckedBatch, parts: Sequence[Part]) -> bool:
    count = len(parts)
    # Five columns at once: a list for each would take twice as long.
    agents, req_ids, kinds, _, priorities = zip(*parts, strict=True)
    batch.req_ids = list(req_ids)
    batch.span = only_sequence(batch.req_ids)
    batch.priority = priorities[0]
    batch.order = None
    if priorities.count(batch.priority) != count:
        batch.priority = max(priorities)
        order = sorted(range(count), key=lambda position: -priorities[position])
        batch.order = order if order != list(range(count)) else None
    if agents.count(agents[0]) == count:  # the usual batch: one agent, and often one kind
        batch.agents = (agents[0],)
        if kinds.count(kinds[0]) == count:
            batch.counts = ((agents[0], kinds[0], count),)
        else:
            batch.counts = tuple([(agents[0], k, n) for k, n in _counted(kinds).items()])
        return len(set(req_ids)) == count
    batch.agents = tuple(dict.fromkeys(agents))
    pairs = _counted(zip(agents, kinds, strict=True))
    batch.counts = tuple([(agent, kind, n) for (agent, kind), n in pairs.items()])
    return len(set(zip(agents, req_ids, strict=True))) == count


def _counted(values: Iterable[T]) -> dict[T, int]:
    """Count the few values of a batch in a third of a Counter's time."""
    counts: dict[T, int] = {}
    for value in values:
        counts[value] = counts.get(value, 0) + 1
    return counts


def recorded_batch(record: Admitted | Refused | Scheduled) -> CheckedBatch:
    """Rebuild the checked batch that a record was made of.

    Raises:
        ValueError: The record's bytes are not a batch.
    """
    batch = CheckedBatch()
    batch.intents = intents = checked_intents(
        record.encoded, record.contexts, record.valid_until_ns
    )
    batch.encoded = record.encoded
    batch.fingerprint = record.fingerprint
    batch.submitter = record.submitter
    batch.batch_id = record.batch_id
    batch.contexts = record.contexts
    batch.valid_until_ns = record.valid_until_ns
    batch.due_of = record.due_of
    batch.sim_time_ns = batch.valid_for_ns = batch.notices = None
    batch.dry_run = False
    index_intents(batch, list(map(part_of, intents)))
    return batch
