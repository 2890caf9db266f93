"""The order of execution within a group of batches that are due at the same moment.

Each agent's batches are a FIFO queue. The queues are merged by the key of their heads: simulated
time, then priority, then a fair key: a hash of seed, tick, number of the group within the tick and
agent. So ties are fair, depend neither on the wall clock nor on the lowest id, nor on the order of
registration, and can be repeated from the log. A batch of several agents is in the queue of each,
and runs when it is at the head of all of them.
"""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import Final, TypeAlias

from placet.kernel.ledger.ledger import Ledger
from placet.kernel.prng import LANE_BYTES, mix64, mix_lanes
from placet.schemas.batch import CheckedBatch

_UNKNOWN: Final = bytes(LANE_BYTES)
"""Key of an agent that is not registered: the agent stage refuses its batch at any place."""

_PRIORITY_MAX: Final = 100
_Key: TypeAlias = tuple[int, int, int, int]


def execution_order(
    batches: Sequence[CheckedBatch], ledger: Ledger, seed: int, now_ns: int
) -> Sequence[CheckedBatch]:
    """Sort the batches of a group into their order of execution. O(n log n).

    Args:
        batches: The group, in order of arrival.
        ledger: Agents with their priority caps, tick, and number of the group.
        seed: The world's seed.
        now_ns: Simulated time of the group, nanoseconds.
    """
    keys = _keys(batches, ledger, seed, now_ns)
    names = [agent_id for batch in batches for agent_id in batch.agents]
    # The usual group: no agent has two batches in it, so the queues are all of one batch.
    if len(set(names)) == len(names):
        return [batches[key[-1]] for key in sorted(keys)]
    # Else a batch must wait for every earlier one of its agents. To sort by key alone would let
    # an agent's urgent batch overtake its own earlier one, and break the order it submitted.
    latest: dict[str, int] = {}
    behind: dict[int, list[int]] = {}
    ahead = [0] * len(batches)
    for place, batch in enumerate(batches):
        for agent_id in batch.agents:
            before = latest.get(agent_id)
            if before is not None:
                behind.setdefault(before, []).append(place)
                ahead[place] += 1
            latest[agent_id] = place
    # The first batch in arrival order has none before it, so the queues cannot wait in a circle.
    heads = [key for key, waits_for in zip(keys, ahead, strict=True) if not waits_for]
    heapify(heads)
    ordered = []
    while heads:
        place = heappop(heads)[-1]
        ordered.append(batches[place])
        for follower in behind.get(place, ()):
            ahead[follower] -= 1
            if not ahead[follower]:
                heappush(heads, keys[follower])
    return ordered


def _keys(batches: Sequence[CheckedBatch], ledger: Ledger, seed: int, now_ns: int) -> list[_Key]:
    """Return the sort keys of the batches among the heads; arrival decides between equal keys."""
    firsts = [ledger.agents.get(batch.agents[0]) for batch in batches]
    # For all batches at once: one by one the keys would cost three times as much.
    fair_keys = mix_lanes(
        mix64(seed, ledger.tick, ledger.group),
        [_UNKNOWN if agent is None else agent.order_key for agent in firsts],
    )
    keys: list[_Key] = []
    for place, batch in enumerate(batches):
        priority = batch.priority
        if len(batch.agents) > 1:
            priority = min(priority, priority_cap(batch.agents, ledger))
        else:
            first = firsts[place]
            if first is not None and priority > first.priority_max:
                priority = first.priority_max
        due_ns = now_ns if batch.due_of is None or batch.sim_time_ns is None else batch.sim_time_ns
        keys.append((due_ns, -priority, fair_keys[place], place))
    return keys


def priority_cap(agent_ids: Sequence[str], ledger: Ledger) -> int:
    """Return the lowest `priority_max` of several agents; 100 if none of them is known."""
    cap = _PRIORITY_MAX
    for agent_id in agent_ids:
        agent = ledger.agents.get(agent_id)
        if agent is not None and agent.priority_max < cap:
            cap = agent.priority_max
    return cap
