"""Who comes first in a group. Never the wall clock, never arrival alone, never the lowest id.

Each agent's batches are a FIFO queue; the queues are merged by the key of their heads: simulated
time, then priority, then a key drawn from seed, group and agent, so that ties are fair and can be
repeated from the log.
"""

from collections import deque
from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import Final, TypeAlias

from placet.kernel.draw import mix64
from placet.kernel.ledger import Ledger
from placet.schemas.batch import CheckedBatch

_MASK64: Final = (1 << 64) - 1
_Key: TypeAlias = tuple[int, int, int, int]


def in_order(
    batches: Sequence[CheckedBatch], ledger: Ledger, seed: int, now_ns: int
) -> Sequence[CheckedBatch]:
    """Put a group's batches into their order of execution. O(n log n)."""
    if len(batches) < 2:
        return batches
    salt = mix64(seed, ledger.seq)
    queues: dict[str, deque[tuple[_Key, CheckedBatch]]] = {}
    for arrival, batch in enumerate(batches):
        key = _key(batch, arrival, salt, ledger, now_ns)
        queues.setdefault(batch.agents[0], deque()).append((key, batch))
    return _merge(list(queues.values()))


def _key(
    batch: CheckedBatch, arrival: int, salt: int, ledger: Ledger, now_ns: int
) -> _Key:
    agent = ledger.agents.get(batch.agents[0])
    if agent is None:  # it will be refused; where it stands does not matter
        index, priority = _MASK64, 0
    else:
        index, priority = agent.index, min(batch.priority, agent.priority_max)
    due_ns = now_ns if batch.due_of is None or batch.sim_time_ns is None else batch.sim_time_ns
    return (due_ns, -priority, _fair(salt, index), arrival)


def _fair(salt: int, index: int) -> int:
    """Give an agent its place among equals for one group: one round of SplitMix64."""
    word = (salt ^ index) * 0xBF58476D1CE4E5B9 & _MASK64
    return (word ^ word >> 29) * 0x94D049BB133111EB & _MASK64


def _merge(queues: list[deque[tuple[_Key, CheckedBatch]]]) -> list[CheckedBatch]:
    heads = [(queue[0][0], place) for place, queue in enumerate(queues)]
    heapify(heads)
    merged = []
    while heads:
        _, place = heappop(heads)
        queue = queues[place]
        merged.append(queue.popleft()[1])
        if queue:
            heappush(heads, (queue[0][0], place))
    return merged
