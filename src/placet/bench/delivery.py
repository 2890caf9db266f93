"""W2: W1, with every move delivered to nearby agents, each of which observes.

Agents observe by distance, with a reach at which a move has about eight neighbors. What one group
did to a mover is one change for each neighbor, made once and shared by them.
"""

import asyncio
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from placet.bench.subjects import WholeWorld
from placet.bench.workloads import PRIORITY, SEED, SIDE, Load
from placet.domains.world import World
from placet.schemas.intent import Intent

if TYPE_CHECKING:
    from placet.runtime.agent_handle import AgentHandle

NEIGHBORS: Final = 8
_STEP: Final = 10.0
"""How far from its place an agent walks."""
_SPHERE: Final = 4.18879
"""Volume of the sphere of radius 1."""


def reach_for(agents: int, neighbors: int = NEIGHBORS, side: float = SIDE) -> float:
    """Return the reach at which so many of the agents, spread evenly, are near one of them."""
    share = neighbors / agents
    return float(side * (share / _SPHERE) ** (1 / 3))


def make_observed_domain(reach: float | None, side: float = SIDE) -> World:
    """Make W1's world, in which agents see so far; None is a world that shows everything."""
    observation = None if reach is None else {"distance": reach}
    return World(bounds=[[0.0, 0.0, 0.0], [side, side, side]], observation=observation)


class Walking(Load):
    """W1's load, with agents that walk in a small area instead of jumping anywhere."""

    def batch(self, lane: int, context_seq: int, priority: int = PRIORITY) -> list[Intent]:
        """Make the next batch of one lane, all of it steps about its agent's home."""
        batch = super().batch(lane, context_seq, priority)
        home = Random(f"{SEED} {batch[0]['agent_id']}")
        places = [home.uniform(_STEP, SIDE - _STEP) for _ in range(3)]
        for intent in batch:
            to = intent["payload"]["to"]
            to[:] = [at + (far / SIDE - 0.5) * _STEP for at, far in zip(places, to, strict=True)]
        return batch


class ObservedWorld(WholeWorld):
    """W1's world with observers.

    Args:
        load: As W1's.
        reach: How far agents see.
        observers: How many of them look; None is all.

    Attributes:
        observations: How many were taken.
        changes: How many changes were in them.
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

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await super().__aexit__(kind, error, trace)  # whoever watches is told, and ends
        await asyncio.gather(*self._watching)

    async def _watch(self, handle: "AgentHandle", is_observing: asyncio.Event) -> None:
        async for observation in handle.observe():
            is_observing.set()
            self.observations += 1
            self.changes += len(observation.changes)
