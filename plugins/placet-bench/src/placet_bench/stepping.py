"""Programs that step: every agent acts once in each tick, and every verdict is read.

Each prepares the inputs of a step untimed, then runs the step, timed. `benchmarks/step_side.py`
runs this file with an older version of the packages too, so it imports nothing of `placet` but the
kernel and the domain `world`.
"""

from collections.abc import Callable
from typing import Any, Final, Self, TypeAlias

from placet.domains.world import World
from placet.kernel import Kernel, KernelConfig
from placet.schemas.intent import SCHEMA_VERSION

Batches: TypeAlias = list[list[dict[str, Any]]]

WIDTH: Final = 7
DEPTH: Final = 11
"""Agents move among the cells of a small area, another one at each tick."""

DIRECTIONS: Final = ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1))
"""What a step on a grid adds to x and y."""


class Stepper:
    """The base of the programs that workload `step` compares; an async context manager.

    Attributes:
        name: Name of the row in the table.
        agents: Agents of which each acts once in a step.
    """

    def __init__(self, name: str, agents: int) -> None:
        self.name = name
        self.agents = agents

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        """Nothing to close."""

    async def prepare(self) -> Any:  # noqa: ANN401  # differs by subclass
        """Return the inputs of the next step; not timed."""
        return None

    async def step(self, inputs: Any) -> None:  # noqa: ANN401  # differs by subclass
        """Run one step with the inputs that `prepare` returned; timed."""
        raise NotImplementedError


class KernelStep(Stepper):
    """L1: every agent submits a batch of one `Move`, through `Kernel.step`."""

    def __init__(self, name: str, agents: int) -> None:
        super().__init__(name, agents)
        self._kernel = Kernel(World(), KernelConfig(seed=1))
        self._names = [f"agent_{number:06d}" for number in range(agents)]
        self._tick = 0
        for agent in self._names:
            self._kernel.register_agent(agent, position=[0, 0])

    async def prepare(self) -> Batches:
        """Return one batch of one intent for each agent."""
        self._tick += 1
        tick, seq = self._tick, self._kernel.seq
        return [
            [
                {
                    "kind": "Move",
                    "payload": {"to": [tick % WIDTH, number % DEPTH]},
                    "agent_id": agent,
                    "req_id": f"step:{tick}",
                    "context_seq": seq,
                    "priority": 10,
                    "schema_version": SCHEMA_VERSION,
                }
            ]
            for number, agent in enumerate(self._names)
        ]

    async def step(self, inputs: Batches) -> None:
        """Decide the batches, and read every verdict."""
        verdicts = self._kernel.step(1.0, inputs)
        refused = [verdict for verdict in verdicts if not verdict.admitted]
        if refused or len(verdicts) != self.agents:
            raise AssertionError(f"{self.name}: not every batch was admitted: {refused[:1]}")


class SimulationStep(Stepper):
    """L2: the agents of a scenario move by a policy, tick by tick on a `Simulation`.

    Args:
        name: Name of the row in the table.
        agents: Number of agents of the scenario.
        simulation: The simulation.
    """

    def __init__(self, name: str, agents: int, simulation: Any) -> None:  # noqa: ANN401  # not in older versions
        super().__init__(name, agents)
        self._simulation = simulation

    async def step(self, inputs: None) -> None:
        """Run one tick, and read every verdict."""
        verdicts = self._simulation.step()
        refused = [verdict for verdict in verdicts.values() if not verdict.admitted]
        if refused or len(verdicts) != self.agents:
            raise AssertionError(f"{self.name}: not every batch was admitted: {refused[:1]}")


class Mover:
    """The policy of L2: as in L1, its agent moves to another cell at each tick."""

    def __init__(self, member: Any, _scenario: Any, intent: Callable[..., Any]) -> None:  # noqa: ANN401  # of two versions
        self._intent = intent
        self._depth = float(int(member.agent_id.rpartition("_")[2]) % DEPTH)
        self._tick = 0

    def propose(self, _view: Any) -> list[Any]:  # noqa: ANN401  # of two versions
        """Return a batch of one `Move`."""
        self._tick += 1
        return [self._intent("Move", to=[float(self._tick % WIDTH), self._depth])]


def scenario_text(agents: int, policy: str) -> str:
    """Return the scenario of L2 as TOML, with a policy `module:attribute`."""
    return f"""
        title = "every agent moves once in each tick"
        domain = "world"
        seed = 1
        ticks = 1_000_000
        tick_s = 1.0
        [agents.mover]
        count = {agents}
        policy = "{policy}"
        area = [[0, 0], [{WIDTH}, {DEPTH}]]
    """
