"""The measured work: seeded batches of `Move` intents, and their world.

Every stage of the gate is on and none refuses: agents have permissions, `Move` has a quota and a
footprint, contexts have a threshold, req_ids are of the sequence form, the world has bounds.
Intents are made outside of the timed region, a chunk at a time, so that memory stays bounded.
"""

from dataclasses import dataclass
from random import Random
from typing import Final, NamedTuple

from placet.domains.world import World
from placet.runtime.config import OrchestratorConfig
from placet.schemas.config import KernelConfig
from placet.schemas.intent import SCHEMA_VERSION, Intent
from placet.schemas.limits import Limits

SEED: Final = 11
KIND: Final = "Move"
PERMISSIONS: Final = frozenset({KIND, "Speak"})
QUOTA: Final = {"rate": 1_000_000.0, "burst": 1_000_000}
STALENESS_THRESHOLD: Final = 2**40
PRIORITY: Final = 10
SIDE: Final = 1_000.0
"""Length of the world's edges; positions are drawn from within."""

CHUNK_INTENTS: Final = 20_000
"""Intents that are made ahead of one stretch of timed work, unless one round needs more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The shape of a load: numbers of agents, intents and outstanding batches.

    Attributes:
        agents: Number of agents that submit.
        batch_intents: Intents in each batch.
        lanes: Batches that each agent has outstanding at any moment.
        window_ids: Size of each agent's dedup window, which is full before the clock starts.
    """

    agents: int = 100
    batch_intents: int = 10
    lanes: int = 1
    window_ids: int = 1_024

    @property
    def round_intents(self) -> int:
        """Number of intents in one round, in which every lane submits one batch."""
        return self.agents * self.lanes * self.batch_intents

    @property
    def filling_rounds(self) -> int:
        """Number of rounds after which every dedup window is full and evicts."""
        return 2 + self.window_ids // (self.lanes * self.batch_intents)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The sizes of all workloads; the defaults are those of the specification.

    Attributes:
        agents: Agents of W1.
        window_ids: Size of the dedup windows.
        crowds: Factors by which W5 multiplies the agents.
        crowd_window_ids: Size of W5's dedup windows; small, so that all can be filled.
        log_records: Records in the log of the world of W5 with the longest log.
        replay_intents: Intents in the log that is replayed.
        recovery_intents: Lengths of the logs that are opened, shortest first.
        recovery_tail_intents: Number of intents after the snapshot.
        overload_places: Maximum number of queued batches in an overloaded world.
        idle_agents: Agents registered for the memory figure.
        chunk_intents: Intents made ahead of one stretch of timed work.
        import_repeats: How often a fresh interpreter imports the package.
        step_agents: Agents of L1, L2 and their peers.
        step_crowds: Agents of L1 as it grows, fewest first.
        env_agents: Agents of the environments, fewest first.
        look_entities: Entities of the world that an agent looks at.
        town_runs: Runs of `placet run town --no-verify` (L3).
        town_arguments: More arguments of that command.
        column_agents: Sizes of the populations whose column batches are measured.
        members: Size of the population whose registration and memory are measured.
    """

    agents: int = 100
    window_ids: int = 1_024
    crowds: tuple[int, ...] = (1, 10, 100)
    crowd_window_ids: int = 64
    log_records: int = 1_000_000
    replay_intents: int = 100_000
    recovery_intents: tuple[int, ...] = (100_000, 1_000_000)
    recovery_tail_intents: int = 20_000
    overload_places: int = 64
    idle_agents: int = 10_000
    chunk_intents: int = CHUNK_INTENTS
    import_repeats: int = 9
    step_agents: int = 1_000
    step_crowds: tuple[int, ...] = (100, 1_000, 10_000)
    env_agents: tuple[int, ...] = (10, 100, 1_000)
    look_entities: int = 10_000
    town_runs: int = 3
    town_arguments: tuple[str, ...] = ()
    column_agents: tuple[int, ...] = (1_000, 10_000, 100_000)
    members: int = 1_000_000

    @property
    def shape(self) -> Shape:
        """Shape of the load of W1."""
        return Shape(agents=self.agents, window_ids=self.window_ids)

    def load(self, shape: Shape) -> "Load":
        """Return a load of a shape, in chunks of this scale."""
        return Load(shape, chunk_intents=self.chunk_intents)


class ClientLane(NamedTuple):
    """Benchmark data: the prepared batches of one agent, in the order of submission."""

    agent_id: str
    batches: list[list[Intent]]


class Chunk(NamedTuple):
    """Benchmark data: the prepared batches of all lanes for one timed stretch."""

    intents: int
    lanes: list[ClientLane]


class Load:
    """A seeded, endless generator of batches; equal seeds generate equal intents.

    Attributes:
        shape: Shape of the load.
        agent_ids: Names of the agents, which must be registered first.
    """

    def __init__(
        self, shape: Shape, *, seed: int = SEED, chunk_intents: int = CHUNK_INTENTS
    ) -> None:
        self.shape = shape
        self.agent_ids = tuple(f"agent_{number:06d}" for number in range(shape.agents))
        self._random = Random(seed).random
        self._numbers = [0] * (shape.agents * shape.lanes)
        self._rounds = max(1, chunk_intents // shape.round_intents)

    def chunk(self, context_seq: int, rounds: int | None = None) -> Chunk:
        """Generate the next batches of every lane, with `context_seq` in their intents."""
        rounds = rounds or self._rounds
        shape = self.shape
        lanes = [
            ClientLane(agent_id, [self.batch(place, context_seq) for _ in range(rounds)])
            for place, agent_id in enumerate(self.agent_ids * shape.lanes)
        ]
        return Chunk(rounds * shape.round_intents, lanes)

    def batch(self, lane: int, context_seq: int, priority: int = PRIORITY) -> list[Intent]:
        """Generate the next batch of one lane; lanes are numbered agent by agent, then again."""
        random = self._random
        first = self._numbers[lane]
        self._numbers[lane] = last = first + self.shape.batch_intents
        sequence, agent = divmod(lane, len(self.agent_ids))
        agent_id = self.agent_ids[agent]
        return [
            {
                "kind": KIND,
                "payload": {"to": [random() * SIDE, random() * SIDE, random() * SIDE]},
                "agent_id": agent_id,
                "req_id": f"lane{sequence}:{number}",
                "context_seq": context_seq,
                "priority": priority,
                "schema_version": SCHEMA_VERSION,
            }
            for number in range(first, last)
        ]


def make_domain() -> World:
    """Create the domain of all workloads."""
    return World(bounds=[[0.0, 0.0, 0.0], [SIDE, SIDE, SIDE]])


def make_config(shape: Shape, store: str = "memory://") -> OrchestratorConfig:
    """Build a configuration with every gate stage on, and limits that the load does not reach."""
    limits = Limits(
        window_ids_max=shape.window_ids,
        log_bytes_max=16 * 1024**3,
        # The largest crowd submits all at once, before the orchestrator has its first turn.
        mailbox_batches_max=1_000_000,
        mailbox_age_ms_max=600_000,
        loop_lag_ms_max=600_000,
        ingress_rate_per_second_max=1_000_000,
        ingress_burst_max=1_000_000,
    )
    return OrchestratorConfig(
        store=store,
        seed=SEED,
        staleness_threshold=STALENESS_THRESHOLD,
        quotas={KIND: QUOTA},
        limits=limits,
    )


def make_kernel_config(shape: Shape) -> KernelConfig:
    """Build the kernel's part of `make_config`."""
    return make_config(shape).kernel_config()
