"""Scheduled batches, rebuilt from their records when they are due or their agent is removed."""

from collections.abc import Iterable, Iterator, Sequence

from placet.kernel.ledger.ledger import Ledger
from placet.kernel.recorded_batch import recorded_batch
from placet.schemas.batch import CheckedBatch


def due_batches(ledger: Ledger, now_ns: int) -> list[CheckedBatch]:
    """Return the scheduled batches that are due now, earliest first. O(d log d) in their number."""
    due = _due_entries(ledger.schedule, now_ns)
    return _batches(ledger, [entry for entry in due if entry[1] in ledger.scheduled])


def batches_of(ledger: Ledger, agent_id: str) -> list[CheckedBatch]:
    """Return the scheduled batches that hold an intent of an agent, earliest first. O(schedule)."""
    name = agent_id.encode()
    entries = [
        (record.due_ns, number)
        for number, record in ledger.scheduled.items()
        if name in record.encoded  # a cheap filter; the rebuilt batch decides below
    ]
    return [batch for batch in _batches(ledger, entries) if agent_id in batch.agents]


def _due_entries(heap: Sequence[tuple[int, int]], now_ns: int) -> Iterator[tuple[int, int]]:
    """Yield the due entries of a heap: no entry below one is earlier than it."""
    places = [0]
    while places:
        place = places.pop()
        if place < len(heap) and heap[place][0] <= now_ns:
            yield heap[place]
            places += (2 * place + 1, 2 * place + 2)


def _batches(ledger: Ledger, entries: Iterable[tuple[int, int]]) -> list[CheckedBatch]:
    batches = []
    for due_ns, number in sorted(entries):
        batch = recorded_batch(ledger.scheduled[number])
        batch.due_of, batch.sim_time_ns = number, due_ns
        batches.append(batch)
    return batches
