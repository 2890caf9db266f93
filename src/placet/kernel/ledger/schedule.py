"""Scheduled batches, rebuilt from their records when they are due or their agent is removed."""

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from operator import attrgetter

from placet.kernel.ledger.ledger import Ledger, scheduled_bytes
from placet.kernel.recorded_batch import recorded_batch
from placet.schemas.batch import CheckedBatch
from placet.schemas.limits import UNLIMITED
from placet.schemas.log.record import Scheduled


def due_batches(
    ledger: Ledger, now_ns: int, count_max: int = UNLIMITED, work_max: int = UNLIMITED
) -> list[CheckedBatch]:
    """Return the scheduled batches that are due now, earliest first, as many as fit into a group.

    O(k log k) in the number of returned batches; only these are rebuilt.

    Args:
        ledger: The ledger that has the schedule.
        now_ns: Simulated nanoseconds.
        count_max: Maximum number of batches, at least 1.
        work_max: Stop after the batch with which the base work is more units than this.
    """
    batches: list[CheckedBatch] = []
    for entry in _due_entries(ledger.schedule, now_ns):
        if entry[1] not in ledger.scheduled:
            continue
        batch = scheduled_batch(ledger.scheduled[entry[1]])
        batches.append(batch)
        work_max -= batch.base_work
        if work_max < 0 or len(batches) >= count_max:
            break
    return batches


def batches_of(ledger: Ledger, agent_id: str) -> list[CheckedBatch]:
    """Return the scheduled batches that hold an intent of an agent, earliest first. O(schedule)."""
    name = agent_id.encode()
    # A cheap filter; the rebuilt batch decides below.
    records = [record for record in ledger.scheduled.values() if name in record.encoded]
    records.sort(key=attrgetter("due_ns", "number"))
    batches = map(scheduled_batch, records)
    return [batch for batch in batches if agent_id in batch.agents]


def room_at_ns(ledger: Ledger, heap: Sequence[tuple[int, int]], places: int, size: int) -> int:
    """Return the simulated time at which due batches have left places and bytes, or all have left.

    O(k log k) in the number of batches that leave, which `size` bounds: each has a minimal size.

    Args:
        ledger: The ledger that has the schedule.
        heap: The heap of the schedule, or of a submitter's share of it.
        places: Number of batches that must leave.
        size: Bytes that must leave, as `scheduled_bytes` counts them.
    """
    due_ns = 0
    for due_ns, number in _due_entries(heap, UNLIMITED):  # noqa: B007  # the last one is returned
        if number in ledger.scheduled:
            places -= 1
            size -= scheduled_bytes(ledger.scheduled[number].encoded)
            if places <= 0 and size <= 0:
                break
    return due_ns


def _due_entries(heap: Sequence[tuple[int, int]], now_ns: int) -> Iterator[tuple[int, int]]:
    """Yield the due entries of a heap in order, without changing it."""
    # No entry is earlier than its parent: the next one is the top, or a child of a yielded entry.
    candidates: list[tuple[tuple[int, int], int]] = []
    places: Sequence[int] = (0,)
    while True:
        for place in places:
            if place < len(heap):
                heappush(candidates, (heap[place], place))
        if not candidates:
            return
        entry, place = heappop(candidates)
        if entry[0] > now_ns:
            return
        yield entry
        places = (2 * place + 1, 2 * place + 2)


def scheduled_batch(record: Scheduled) -> CheckedBatch:
    """Rebuild the batch of an entry of the schedule, as it is decided when it is due."""
    batch = recorded_batch(record)
    batch.due_of, batch.sim_time_ns = record.number, record.due_ns
    return batch
