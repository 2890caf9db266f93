"""W2: W1, with every move delivered to nearby agents, each of which observes.

Agents observe by distance, with a reach at which a move has about eight neighbors. What one group
did to a mover is one change for each neighbor, made once and shared by them.
"""

import asyncio
from random import Random
from typing import TYPE_CHECKING, Final, Self

from placet.domains.world import World
from placet.schemas.intent import Intent
from placet_bench.subjects import WholeWorld
from placet_bench.workloads import PRIORITY, SEED, SIDE, Load

if TYPE_CHECKING:
    from placet.runtime.agent_handle import AgentHandle

NEIGHBORS: Final = 8
_STEP: Final = 10.0
"""How far from its place an agent walks."""
_SPHERE: Final = 4.18879
"""Volume of the sphere of radius 1."""


def reach_for(agents: int, neighbors: int = NEIGHBORS, side: float = SIDE) -> float:
    """Return the viewing distance at which an evenly spread agent sees `neighbors` others."""
    share = neighbors / agents
    return float(side * (share / _SPHERE) ** (1 / 3))


def make_observed_domain(reach: float | None, side: float = SIDE) -> World:
    """Create the domain of workload W1 with a viewing distance; None shows everything."""
    observation = None if reach is None else {"distance": reach}
    return World(bounds=[[0.0, 0.0, 0.0], [side, side, side]], observation=observation)


class Walking(Load):
    """The load of workload W1, with agents that walk near a home instead of jumping anywhere."""

    def batch(self, lane: int, context_seq: int, priority: int = PRIORITY) -> list[Intent]:
        """Return the next batch of one lane: steps of its agent near its home position."""
        batch = super().batch(lane, context_seq, priority)
        home = Random(f"{SEED} {batch[0]['agent_id']}")
        places = [home.uniform(_STEP, SIDE - _STEP) for _ in range(3)]
        for intent in batch:
            to = intent["payload"]["to"]
            to[:] = [at + (far / SIDE - 0.5) * _STEP for at, far in zip(places, to, strict=True)]
        return batch


class ObservedWorld(WholeWorld):
    """The world of workload W1, in which agents also observe.

    Args:
        load: The load of batches.
        reach: Viewing distance of agents.
        observers: Number of agents that observe; None is all.

    Attributes:
        observations: Number of received observations.
        changes: Number of changes in these.
    """

    def __init__(self, load: Load, reach: float, observers: int | None = None) -> None:
        super().__init__(load, domain=make_observed_domain(reach))
        self._observers = observers
        self._observing: list[asyncio.Event] = []
        self._watching: list[asyncio.Task[None]] = []
        self.observations = self.changes = 0

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        names = self._load.agent_ids[: self._observers]
        self._observing = [asyncio.Event() for _ in names]
        self._watching = [
            asyncio.create_task(self._watch(self._handles[name], is_observing))
            for name, is_observing in zip(names, self._observing, strict=True)
        ]
        await asyncio.gather(
            *[is_observing.wait() for is_observing in self._observing]
        )  # each with a snapshot
        self.observations = self.changes = 0
        return self

    async def __aexit__(self, *error: object) -> None:
        await super().__aexit__(*error)  # closes the streams, which ends their readers
        await asyncio.gather(*self._watching)

    async def _watch(self, handle: "AgentHandle", is_observing: asyncio.Event) -> None:
        async for observation in handle.observe():
            is_observing.set()
            self.observations += 1
            self.changes += len(observation.changes)
