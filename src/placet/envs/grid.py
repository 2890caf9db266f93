"""A ready environment: agents of the domain `world` walk on a grid to a goal.

It is also an example of an adapter: it uses only intents and views, as any client does.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

try:
    import numpy as np
    from gymnasium.spaces import Box, Discrete, Space
except ModuleNotFoundError as error:
    raise ImportError(
        "placet.envs.grid needs the extra 'gym': pip install 'placet[gym]'"
    ) from error

from placet.envs.parallel_env import Array, EnvAdapter, Registrations, WorldEnv
from placet.kernel.prng import randint_below
from placet.runtime.plugins import find_domain
from placet.schemas.codec import Json
from placet.schemas.view import View

STEPS: Final = ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1))
"""What an action adds to x and y; the first proposes nothing."""

_UNSEEN: Final = -1.0
_AGENTS: Final = "world.agents"


class MoveOnGrid(EnvAdapter):
    """The adapter of a grid world: agents step from cell to cell towards a goal cell.

    The reward of a step is the number of cells by which the agent came nearer to the goal.
    An observation has 1 + agents rows of x and y: the goal, the agent's own position, and those of
    the other agents in order; an agent that is not visible is at -1, -1.

    Args:
        agents: Ids of the agents on the grid.
        width: Cells along x; positions are 0..width-1.
        height: Cells along y.
        goal: The cell to reach, where an agent is done.
    """

    def __init__(
        self, agents: Sequence[str], width: int, height: int, goal: tuple[int, int]
    ) -> None:
        self._agents = tuple(agents)
        self._goal = goal
        self._highest = np.tile(np.array([width - 1, height - 1], np.float32), (1 + len(agents), 1))

    def observation_space(self, agent: str) -> Space[Any]:
        """Return the box of the positions of the goal and of all agents."""
        return Box(np.full_like(self._highest, _UNSEEN), self._highest, dtype=np.float32)

    def action_space(self, agent: str) -> Space[Any]:
        """Return the discrete space of the five actions: stay, and a step in four directions."""
        return Discrete(len(STEPS))

    def to_intent(self, agent: str, action: Any, view: View) -> Mapping[str, Json] | None:  # noqa: ANN401
        """Return a move to a neighboring cell; None for the action that stays."""
        dx, dy = STEPS[int(action)]
        if (dx, dy) == STEPS[0]:
            return None
        x, y = _position(view, agent)
        return {"kind": "Move", "payload": {"to": [x + dx, y + dy]}}

    def observe(self, view: View, agent: str) -> Array:
        """Return the positions of the goal, the agent and the other agents: (1 + agents, 2)."""
        others = [other for other in self._agents if other != agent]
        positions = [self._goal, *(_position(view, other) for other in (agent, *others))]
        return np.array(positions, np.float32)

    def reward(self, before: View, after: View, agent: str) -> float:
        """Return the number of cells by which the agent came nearer to the goal; may be < 0."""
        return self._distance(before, agent) - self._distance(after, agent)

    def is_done(self, view: View, agent: str) -> bool:
        """Return whether the agent is at the goal."""
        return self._distance(view, agent) == 0

    def _distance(self, view: View, agent: str) -> float:
        x, y = _position(view, agent)
        return abs(x - self._goal[0]) + abs(y - self._goal[1])


def grid_env(
    agents: Sequence[str] = ("ann", "bob"),
    *,
    width: int = 8,
    height: int = 8,
    goal: tuple[int, int] | None = None,
    max_steps: int = 100,
) -> WorldEnv:
    """Create the environment of a grid whose agents start at positions drawn from the seed.

    A step over the edge is refused as `world.out_of_bounds`.

    Args:
        agents: Ids of the agents.
        width: Cells along x.
        height: Cells along y.
        goal: The cell to reach; None is the middle.
        max_steps: Steps after which the episode is truncated.
    """
    middle = (width // 2, height // 2)
    adapter = MoveOnGrid(agents, width, height, middle if goal is None else goal)
    world = find_domain("world")
    bounds = [[0, 0], [width - 1, height - 1]]
    return WorldEnv(
        lambda: world(bounds=bounds, max_step=1.0),
        adapter,
        _random_positions(agents, width, height),
        max_steps=max_steps,
    )


def _random_positions(
    agents: Sequence[str], width: int, height: int
) -> Callable[[int], Registrations]:
    def registrations(seed: int) -> Registrations:
        return {
            agent: {
                "position": [
                    randint_below(width, seed, 0, 0, 0, "x", agent),
                    randint_below(height, seed, 0, 0, 0, "y", agent),
                ]
            }
            for agent in agents
        }

    return registrations


def _position(view: View, agent: str) -> tuple[float, float]:
    fields = view.state[_AGENTS].get(agent)
    if fields is None:
        return _UNSEEN, _UNSEEN
    x, y, _ = fields["position"]
    return x, y
