"""A line of cells, on which walkers step to a goal: a population, and adapters of both forms."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete

from placet.envs import ArrayAdapter, ArrayEnv, EnvAdapter, WorldEnv
from placet.kernel import Domain, Draft, Field, KernelConfig, Kind, Table
from placet.kernel.plugin.domain import NewPopulation
from placet.kernel.plugin.rows import Rows
from placet.scenarios.population_view import PopulationView

WALKERS = "line.walkers"
CELLS, GOAL = 8, 5
LEFT, STAY, RIGHT = range(3)


def step(rows: Rows) -> None:
    """Step to an adjacent cell; the rule reads and writes the own row alone."""
    to = rows.own["cell"] + rows.payload["by"]
    rows.refuse((to < 0) | (to >= CELLS), "edge", "the line ends here")
    rows.write("cell", to)
    rows.write("steps", rows.own["steps"] + 1)


class Line(Domain):
    """Walkers on the cells 0..7; each begins at a drawn cell."""

    name, version = "line", "1"
    tables = (Table(WALKERS, {"cell": Field("i8", low=-9, high=99), "steps": Field("i8")}),)
    kinds = (
        Kind("Step", {"by": Field("i8", low=-1, high=1)}, rows=step, table=WALKERS),
        Kind("Jump", {"by": Field("i8", low=-1, high=1)}, rows=step, table=WALKERS),
    )

    def on_populate(self, draft: Draft, population: NewPopulation) -> None:
        random = np.random.default_rng(draft.randint_below(2**32, "places"))
        draft.columns(population.table).set("cell", random.integers(0, GOAL, population.count))


class Walk(ArrayAdapter):
    """Observe the own cell; the reward of a step is 1 at the goal, where a walker is done."""

    def __init__(self, *, has_masks: bool = False) -> None:
        self._has_masks = has_masks

    def observation_space(self) -> Box:
        return Box(0, CELLS - 1, (1,), np.float32)

    def action_space(self) -> Any:
        return Discrete(3)

    def to_payload(self, actions: Any, view: PopulationView) -> Mapping[str, Any]:
        return {"Step": {"by": actions - 1}}

    def observe(self, view: PopulationView) -> Any:
        return view["cell"][:, None]

    def reward(self, before: Mapping[str, Any], after: PopulationView) -> Any:
        return (after["cell"] == GOAL) - 0.25 * (after["cell"] == before["cell"])

    def is_done(self, view: PopulationView) -> Any:
        return view["cell"] == GOAL

    def action_masks(self, view: PopulationView) -> Any:
        if not self._has_masks:
            return None
        cell = view["cell"]
        return np.stack([cell > 0, np.ones_like(cell, bool), cell < CELLS - 1], axis=1)

    def state_space(self) -> Any:
        return Box(0, CELLS - 1, (5,), np.float32)

    def state(self, view: PopulationView) -> Any:
        return view["cell"].astype(np.float32)


class WalkAlone(EnvAdapter):
    """The same of one walker, by ordinary intents, with its mask and the state of the line."""

    def observation_space(self, agent: str) -> Any:
        return Box(0, CELLS - 1, (1,), np.float32)

    def action_space(self, agent: str) -> Any:
        return Discrete(3)

    def to_intent(self, agent: str, action: Any, view: Any) -> Mapping[str, Any] | None:
        return {"kind": "Step", "payload": {"by": int(action) - 1}}

    def observe(self, view: Any, agent: str) -> Any:
        return np.array([view.state[WALKERS][agent]["cell"]], np.float32)

    def reward(self, before: Any, after: Any, agent: str) -> float:
        cells = [view.state[WALKERS][agent]["cell"] for view in (before, after)]
        return float((cells[1] == GOAL) - 0.25 * (cells[1] == cells[0]))

    def is_done(self, view: Any, agent: str) -> bool:
        return bool(view.state[WALKERS][agent]["cell"] == GOAL)

    def action_mask(self, view: Any, agent: str) -> Any:
        cell = view.state[WALKERS][agent]["cell"]
        return np.array([cell > 0, True, cell < CELLS - 1])

    def state_space(self) -> Any:
        return Box(0, CELLS - 1, (5,), np.float32)

    def state(self, world: Any) -> Any:
        cells = [world[WALKERS][f"walkers:{number}"]["cell"] for number in range(5)]
        return np.array(cells, np.float32)


def line_env(count: int = 5, *, adapter: ArrayAdapter | None = None, **options: Any) -> ArrayEnv:
    """Return the line as an environment of arrays."""
    return ArrayEnv(Line, adapter or Walk(), "walkers", count, table=WALKERS, **options)


def at(cells: list[int], **options: Any) -> ArrayEnv:
    """Return an environment that has begun, with a walker at each of the cells."""
    options.setdefault("columns", {"cell": np.array(cells)})
    env = ArrayEnv(Placed, Walk(), "walkers", len(cells), table=WALKERS, **options)
    env.reset(1)
    return env


class Placed(Line):
    """Walkers that begin where their registration says."""

    def on_populate(self, draft: Draft, population: NewPopulation) -> None:
        pass


def parallel_line(count: int = 5, **options: Any) -> WorldEnv:
    """Return the same line as a PettingZoo environment."""
    walkers = {"walkers": {"count": count, "table": WALKERS}}
    return WorldEnv(Line, WalkAlone(), {}, populations=walkers, **options)


make_line = partial(line_env, 3, max_steps=6)
MASKED = partial(line_env, 4, adapter=Walk(has_masks=True), max_steps=5)
LIMITED = KernelConfig(quotas={"Step": {"rate": 0.1, "burst": 1}})
