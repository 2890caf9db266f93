"""The step of a PettingZoo environment: placet's `WorldEnv`, and plain dicts without placet.

In both an agent walks on a grid at random, and observes its own position and those of up to
`SEEN_MAX` others nearby (`WorldEnv`), or its own position alone (plain dicts). The grid grows with
the agents, so that an agent sees equally many in an environment of any size.
"""

from collections.abc import Mapping
from itertools import islice
from math import ceil, sqrt
from random import Random
from typing import Any, Final

try:
    import numpy as np
    from gymnasium.spaces import Box, Discrete, Space
    from pettingzoo.utils.env import ParallelEnv
except ModuleNotFoundError as error:
    raise ImportError(
        "PettingZoo is not installed, so environments are not in the comparison: "
        "pip install '.[gym]' in a clone of placet"
    ) from error

from placet.domains.world import World
from placet.envs.parallel_env import Array, EnvAdapter, WorldEnv
from placet.schemas.codec import Json
from placet.schemas.view import View
from placet_bench.stepping import DIRECTIONS, Stepper
from placet_bench.workloads import SEED

SEEN_MAX: Final = 8
SIGHT: Final = 2.0
CELLS_PER_AGENT: Final = 2

_AGENTS: Final = "world.agents"
_STEPS_MAX: Final = 1_000_000_000


def width_for(agents: int) -> int:
    """Return the width of a square grid that has `CELLS_PER_AGENT` cells for each agent."""
    return ceil(sqrt(agents * CELLS_PER_AGENT))


class _Walk(EnvAdapter):
    """The adapter: a discrete step on the grid; the agent's position, and those of others near."""

    def __init__(self, width: int) -> None:
        self._last = width - 1
        self._box = Box(-1.0, float(width), (1 + SEEN_MAX, 2), np.float32)
        self._discrete = Discrete(len(DIRECTIONS))

    def observation_space(self, agent: str) -> Space[Any]:
        return self._box

    def action_space(self, agent: str) -> Space[Any]:
        return self._discrete

    def to_intent(self, agent: str, action: Any, view: View) -> Mapping[str, Json] | None:  # noqa: ANN401
        dx, dy = DIRECTIONS[action]
        x, y, _ = view.state[_AGENTS][agent]["position"]
        last = self._last
        return {
            "kind": "Move",
            "payload": {"to": [min(max(x + dx, 0), last), min(max(y + dy, 0), last)]},
        }

    def observe(self, view: View, agent: str) -> Array:
        observed = np.full((1 + SEEN_MAX, 2), -1.0, np.float32)
        others = view.state[_AGENTS].items()
        own = view.state[_AGENTS][agent]["position"]
        observed[0] = own[:2]
        seen = (fields["position"] for name, fields in others if name != agent)
        for row, position in enumerate(islice(seen, SEEN_MAX), 1):
            observed[row] = position[:2]
        return observed

    def reward(self, before: View, after: View, agent: str) -> float:
        return 0.0


class PlainEnv(ParallelEnv[str, Array, int]):
    """A PettingZoo environment in plain dicts, as its documentation shows one.

    An agent observes its own position.
    """

    metadata: dict[str, Any] = {"name": "plain_v0", "render_modes": []}  # noqa: RUF012  # as PettingZoo's

    def __init__(self, agents: int) -> None:
        self.possible_agents = [f"agent_{number}" for number in range(agents)]
        self.agents = list(self.possible_agents)
        self._last = width_for(agents) - 1
        self._positions = dict.fromkeys(self.agents, (0, 0))

    def step(self, actions: dict[str, int]) -> tuple[Any, ...]:
        """Move the agents; return the five dicts of `ParallelEnv.step`."""
        positions, last = self._positions, self._last
        for agent, action in actions.items():
            x, y = positions[agent]
            dx, dy = DIRECTIONS[action]
            positions[agent] = min(max(x + dx, 0), last), min(max(y + dy, 0), last)
        observations = {agent: np.array(positions[agent], np.float32) for agent in self.agents}
        rewards = dict.fromkeys(self.agents, 0.0)
        are_over = dict.fromkeys(self.agents, False)
        return observations, rewards, are_over, dict(are_over), {agent: {} for agent in self.agents}


class EnvStep(Stepper):
    """Steps an environment with an action of every agent, drawn from a seed beforehand."""

    def __init__(self, name: str, env: ParallelEnv[str, Array, Any]) -> None:
        super().__init__(name, len(env.agents))
        self._env = env
        self._random = Random(SEED)

    async def prepare(self) -> dict[str, int]:
        """Draw an action for every agent."""
        actions = range(len(DIRECTIONS))
        return dict(
            zip(self._env.agents, self._random.choices(actions, k=self.agents), strict=True)
        )

    async def step(self, inputs: dict[str, int]) -> None:
        """Run one step, and read the info of every agent."""
        infos = self._env.step(inputs)[4]
        refused = [info for info in infos.values() if not info.get("admitted", True)]
        if refused or len(infos) != self.agents:
            raise AssertionError(f"{self.name}: not every action was admitted: {refused[:1]}")


def world_env_step(name: str, agents: int) -> EnvStep:
    """Return `WorldEnv` on a grid for so many agents, reset."""
    width = width_for(agents)
    bounds = [[0, 0], [width - 1, width - 1]]
    spread = Random(SEED)
    env = WorldEnv(
        lambda: World(bounds=bounds, observation={"distance": SIGHT}),
        _Walk(width),
        {
            f"agent_{number}": {"position": [spread.randrange(width), spread.randrange(width)]}
            for number in range(agents)
        },
        max_steps=_STEPS_MAX,
    )
    env.reset(seed=SEED)
    return EnvStep(name, env)


def plain_env_step(name: str, agents: int) -> EnvStep:
    """Return the environment in plain dicts for so many agents."""
    return EnvStep(name, PlainEnv(agents))
