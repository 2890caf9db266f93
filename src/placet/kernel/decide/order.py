"""The order of execution within a group of batches that are due at the same moment.

Each agent's batches are a FIFO queue. The queues are merged by the key of their heads: simulated
time, then priority, then a fair key: a hash of seed, tick, number of the group within the tick and
agent. So ties are fair, depend neither on the wall clock nor on the lowest id, nor on the order of
registration, and can be repeated from the log. A batch of several agents is in the queue of each,
and runs when it is at the head of all of them.
"""

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from operator import attrgetter, itemgetter
from typing import Any, Final, TypeAlias

from placet.kernel.decide.single.batch import AnyBatch
from placet.kernel.ledger.ledger import Ledger
from placet.kernel.prng import LANE_BYTES, mix64, mix_lanes
from placet.schemas.batch import CheckedBatch

_UNKNOWN: Final = bytes(LANE_BYTES)
"""Key of an agent that is not registered: the agent stage refuses its batch at any place."""

_PRIORITY_MAX: Final = 100
_AGENT: Final[Callable[[Any], str]] = itemgetter(1)
_PRIORITY: Final[Callable[[Any], int]] = itemgetter(4)
_ORDER_KEY, _PRIORITY_CAP = attrgetter("order_key"), attrgetter("priority_max")

Key: TypeAlias = tuple[int, int, int, int]
"""`(due_ns, -priority, fair key, place of arrival)`; arrival decides only between equal keys."""


def execution_order(
    batches: Sequence[AnyBatch], ledger: Ledger, seed: int, now_ns: int
) -> Sequence[int]:
    """Return the places of the batches of a group in their order of execution. O(n log n).

    Args:
        batches: The group, in order of arrival.
        ledger: Agents with their priority caps, tick, and number of the group.
        seed: The world's seed.
        now_ns: Simulated time of the group, nanoseconds.
    """
    state = mix64(seed, ledger.tick, ledger.group)
    count = len(batches)
    if set(map(type, batches)) == {tuple}:  # by columns: a tick has thousands of them
        names = list(map(_AGENT, batches))
        agents = list(map(ledger.agents.get, names))
        if None not in agents and len(set(names)) == count:
            fair_keys = mix_lanes(state, list(map(_ORDER_KEY, agents)))
            priorities = list(map(min, map(_PRIORITY, batches), map(_PRIORITY_CAP, agents)))
            if priorities.count(priorities[0]) == count:
                return sorted(range(count), key=fair_keys.__getitem__)
            keys = [(-priorities[at], fair_keys[at], at) for at in range(count)]
            return [key[-1] for key in sorted(keys)]
    queues = [_agents(batch) for batch in batches]
    firsts = [ledger.agents.get(agents[0]) for agents in queues]
    # For all batches at once: one by one the keys would cost three times as much.
    fair_keys = mix_lanes(state, [_UNKNOWN if a is None else a.order_key for a in firsts])
    return _merged(
        [
            (_due_ns(batch, now_ns), -_priority(batch, ledger), fair_keys[at], at)
            for at, batch in enumerate(batches)
        ],
        queues,
    )


def _merged(keys: list[Key], queues: list[Sequence[str]]) -> Sequence[int]:
    """Merge the agents' queues by the keys of their heads.

    Args:
        keys: Key of each batch.
        queues: Agents of each batch, in whose queues it is.
    """
    # The usual group: no agent has two batches in it, so the queues are all of one batch.
    if len(set(names := [name for agents in queues for name in agents])) == len(names):
        return [key[-1] for key in sorted(keys)]
    # Else a batch must wait for every earlier one of its agents. To sort by key alone would let
    # an agent's urgent batch overtake its own earlier one, and break the order it submitted.
    latest: dict[str, int] = {}
    behind: dict[int, list[int]] = {}
    ahead = [0] * len(keys)
    for place, agents in enumerate(queues):
        for agent_id in agents:
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
        ordered.append(place)
        for follower in behind.get(place, ()):
            ahead[follower] -= 1
            if not ahead[follower]:
                heappush(heads, keys[follower])
    return ordered


def _agents(batch: AnyBatch) -> Sequence[str]:
    return batch.agents if isinstance(batch, CheckedBatch) else (batch[1],)


def _due_ns(batch: AnyBatch, now_ns: int) -> int:
    if not isinstance(batch, CheckedBatch) or batch.due_of is None or batch.sim_time_ns is None:
        return now_ns
    return batch.sim_time_ns


def _priority(batch: AnyBatch, ledger: Ledger) -> int:
    """Return the priority of a batch, capped by its agents'."""
    if isinstance(batch, CheckedBatch):
        return min(batch.priority, priority_cap(batch.agents, ledger))
    agent = ledger.agents.get(batch[1])
    return batch[4] if agent is None else min(batch[4], agent.priority_max)


def priority_cap(agent_ids: Sequence[str], ledger: Ledger) -> int:
    """Return the lowest `priority_max` of several agents; 100 if none of them is known."""
    cap = _PRIORITY_MAX
    for agent_id in agent_ids:
        agent = ledger.agents.get(agent_id)
        if agent is not None and agent.priority_max < cap:
            cap = agent.priority_max
    return cap
