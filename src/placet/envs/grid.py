"""A ready environment: agents of the domain `world` walk on a grid to a goal.

It is also an example of an adapter: it uses only intents and views, as any client does.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from gymnasium.spaces import Box, Discrete, Space

from placet.envs.episode_log import StoreOf, keeps_no_log
from placet.envs.parallel_env import (
    Array,
    EnvAdapter,
    Registrations,
    WorldEnv,
    collects_nothing,
)
from placet.envs.single_agent_env import SingleAgentEnv
from placet.history.timeline.moments import NO_PORTRAYALS
from placet.kernel.prng import randint_below
from placet.plugins.domains import find_domain
from placet.schemas.codec import Json
from placet.schemas.keywords import explain_keywords
from placet.schemas.portrayal import Portrayals
from placet.schemas.view import View

if TYPE_CHECKING:
    from placet.tables.collector import Collector

STEPS: Final = ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1))
"""What an action adds to x and y; the first proposes nothing."""

_UNSEEN: Final = -1.0
_AGENTS: Final = "world.agents"


class MoveOnGrid(EnvAdapter):
    """The adapter of a grid world: agents step from cell to cell towards a goal cell.

    The reward of a step is the number of cells by which the agent came nearer to the goal.
    An observation has rows of x and y: the goal, the agent's own position, and those of the
    visible other agents, nearest first, equally near ones by name; rows that are left are -1, -1.
    So its size, and the time that it takes, do not grow with the agents out of sight.

    Args:
        width: Cells along x; positions are 0..width-1.
        height: Cells along y.
        goal: The cell to reach, where an agent is done.
        others: Number of rows for other agents.
    """

    def __init__(self, width: int, height: int, goal: tuple[int, int], others: int) -> None:
        self._goal = goal
        self._others = others
        self.map_frame = (0.0, 0.0, width - 1.0, height - 1.0)
        self.map_cell = 1.0
        self.map_goals = [(float(goal[0]), float(goal[1]))]
        self._highest = np.tile(np.array([width - 1, height - 1], np.float32), (2 + others, 1))

    def observation_space(self, agent: str) -> Space[Any]:
        """Return the box of the positions: (2 + others, 2), float32."""
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
        """Return the positions of goal, agent and nearest other agents: (2 + others, 2)."""
        x, y = _position(view, agent)
        others = []
        for name, fields in view.state[_AGENTS].items():
            if name != agent:
                a, b, _ = fields["position"]
                others.append(((a - x) ** 2 + (b - y) ** 2, name, (a, b)))
        nearest = [position for _, _, position in sorted(others)[: self._others]]
        nearest += [(_UNSEEN, _UNSEEN)] * (self._others - len(nearest))
        return np.array([self._goal, (x, y), *nearest], np.float32)

    def reward(self, before: View, after: View, agent: str) -> float:
        """Return the number of cells by which the agent came nearer to the goal; may be < 0."""
        return self._distance(before, agent) - self._distance(after, agent)

    def is_done(self, view: View, agent: str) -> bool:
        """Return whether the agent is at the goal."""
        return self._distance(view, agent) == 0

    def _distance(self, view: View, agent: str) -> float:
        x, y = _position(view, agent)
        return abs(x - self._goal[0]) + abs(y - self._goal[1])


@explain_keywords
def grid_env(
    agents: Sequence[str] = ("ann", "bob"),
    *,
    width: int = 8,
    height: int = 8,
    goal: tuple[int, int] | None = None,
    sight: float = 5.0,
    others_max: int = 8,
    max_steps: int = 100,
    render_mode: str | None = None,
    portrayal: Portrayals = NO_PORTRAYALS,
    collector: "Callable[[int], Collector | None]" = collects_nothing,
    store: StoreOf = keeps_no_log,
) -> WorldEnv:
    """Create the environment of a grid whose agents start at positions drawn from the seed.

    A step over the edge is refused as `world.out_of_bounds`.

        env = grid_env(("ann", "bob"), width=5, height=5, max_steps=20)
        observations, infos = env.reset(seed=1)
        while env.agents:
            actions = {agent: env.action_space(agent).sample() for agent in env.agents}
            observations, rewards, terminations, truncations, infos = env.step(actions)

    Args:
        agents: Ids of the agents.
        width: Cells along x.
        height: Cells along y.
        goal: The cell to reach; None is the middle.
        sight: Distance within which an agent sees others, in cells.
        others_max: Largest number of other agents in an observation, the nearest ones.
        max_steps: Steps after which the episode is truncated.
        render_mode: As of `WorldEnv`.
        portrayal: As of `WorldEnv`.
        collector: As of `WorldEnv`.
        store: As of `WorldEnv`.

    Raises:
        ValueError: An argument is invalid; the message names it.
    """
    _require_names(agents)
    for name, number, least in (
        ("width", width, 1),
        ("height", height, 1),
        ("others_max", others_max, 0),
    ):
        if type(number) is not int or number < least:
            raise ValueError(f"{name} must be an int of at least {least}, got {number!r}")
    middle = (width // 2, height // 2) if goal is None else goal
    if (
        len(middle) != len(STEPS[0])
        or middle[0] not in range(width)
        or middle[1] not in range(height)
    ):
        raise ValueError(f"goal must be a cell of the grid of {width} x {height}, got {goal!r}")
    others = min(others_max, max(0, len(agents) - 1))
    adapter = MoveOnGrid(width, height, middle, others)
    world = find_domain("world")
    bounds = [[0, 0], [width - 1, height - 1]]
    return WorldEnv(
        partial(world, bounds=bounds, max_step=1.0, observation={"distance": sight}),
        adapter,
        partial(_random_positions, tuple(agents), width, height),
        max_steps=max_steps,
        render_mode=render_mode,
        portrayal=portrayal,
        collector=collector,
        store=store,
    )


def single_grid_env(*, render_mode: str | None = None, **options: Any) -> SingleAgentEnv:  # noqa: ANN401
    """Create the grid of one agent, which gymnasium has as `placet/Grid-v0`.

    Args:
        render_mode: As of `WorldEnv`.
        **options: As of `grid_env`.
    """
    return SingleAgentEnv(grid_env(("agent",), render_mode=render_mode, **options))


def _require_names(agents: Sequence[str]) -> None:
    if isinstance(agents, str) or len(set(agents)) < len(agents):
        raise ValueError(f"agents must be a sequence of different names, got {agents!r:.80}")


def _random_positions(agents: Sequence[str], width: int, height: int, seed: int) -> Registrations:
    return {
        agent: {
            "position": [
                randint_below(width, seed, 0, 0, 0, "x", agent),
                randint_below(height, seed, 0, 0, 0, "y", agent),
            ]
        }
        for agent in agents
    }


def _position(view: View, agent: str) -> tuple[float, float]:
    fields = view.state[_AGENTS].get(agent)
    if fields is None:
        return _UNSEEN, _UNSEEN
    x, y, _ = fields["position"]
    return x, y
