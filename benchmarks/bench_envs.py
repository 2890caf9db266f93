"""How many agent-steps a second do the environments make, with gate and log?

    ./dev python benchmarks/bench_envs.py [--seconds S] [--json]

Walkers on a line step by an action drawn from the seed; the adapters observe the own cell. The same
domain is a `WorldEnv` (an ordinary intent of each member), an `ArrayEnv` (a column batch) and a
`VectorEnv` of 8 worlds with an eighth of the members each. Records are encoded and chained, and no
store keeps them. CPU time; the environments of one size take turns.

It does not show: an adapter that costs something; resets, which are counted by themselves; a
policy.
"""

import argparse
import gc
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from statistics import quantiles
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete

from placet.envs import ArrayAdapter, ArrayEnv, EnvAdapter, VectorEnv, WorldEnv
from placet.kernel import Domain, Field, Kind, Table
from placet.kernel.plugin.rows import Rows
from placet.scenarios.population_view import PopulationView
from placet_bench.report import machine

TABLE, NAME, LAST, WORLDS = "line.walkers", "walkers", 999, 8
STEPS_MAX = 1_000_000_000
SIZES = (8, 96, 1_000, 10_000, 100_000)
WORLD_ENV_MAX = 1_000
clock = time.process_time_ns


def step(rows: Rows) -> None:
    """Step to an adjacent cell."""
    to = rows.own["cell"] + rows.payload["by"]
    rows.refuse((to < 0) | (to > LAST), "edge", "the line ends here")
    rows.write("cell", to)


class Line(Domain):
    """Walkers that all begin in the middle of a line."""

    name, version = "line", "1"
    tables = (Table(TABLE, {"cell": Field("i4", default=500)}),)
    kinds = (Kind("Step", {"by": Field("i4", low=-1, high=1)}, rows=step, table=TABLE),)


class Walk(ArrayAdapter):
    """The own cell, and no reward."""

    def observation_space(self) -> Box:
        """Return the space of a cell."""
        return Box(0, LAST, (1,), np.float32)

    def action_space(self) -> Discrete:
        """Return the space of a step to the left, none, and one to the right."""
        return Discrete(3)

    def to_payload(self, actions: Any, view: PopulationView) -> Mapping[str, Any]:  # noqa: ANN401
        """Propose the step."""
        return {"Step": {"by": actions - 1}}

    def observe(self, view: PopulationView) -> Any:  # noqa: ANN401
        """Return the own cell."""
        return view["cell"][:, None]

    def reward(self, before: Mapping[str, Any], after: PopulationView) -> Any:  # noqa: ANN401
        """Return nothing to learn from."""
        return np.zeros(after.count)


class WalkAlone(EnvAdapter):
    """The same of one walker."""

    def observation_space(self, agent: str) -> Box:
        """Return the space of a cell."""
        return Box(0, LAST, (1,), np.float32)

    def action_space(self, agent: str) -> Discrete:
        """Return the space of a step to the left, none, and one to the right."""
        return Discrete(3)

    def to_intent(self, agent: str, action: Any, view: Any) -> Mapping[str, Any]:  # noqa: ANN401
        """Propose the step."""
        return {"kind": "Step", "payload": {"by": action - 1}}

    def observe(self, view: Any, agent: str) -> Any:  # noqa: ANN401
        """Return the own cell."""
        return np.array([view.state[TABLE][agent]["cell"]], np.float32)

    def reward(self, before: Any, after: Any, agent: str) -> float:  # noqa: ANN401
        """Return nothing to learn from."""
        return 0.0


def array_env(agents: int) -> ArrayEnv:
    """Return the line as an environment of arrays, whose episode does not end."""
    return ArrayEnv(Line, Walk(), NAME, agents, table=TABLE, max_steps=STEPS_MAX)


def made(agents: int) -> dict[str, Any]:
    """Return the environments of a size, by name."""
    envs: dict[str, Any] = {"ArrayEnv": array_env(agents)}
    envs["VectorEnv of 8"] = VectorEnv(partial(array_env, agents // WORLDS), WORLDS)
    if agents <= WORLD_ENV_MAX:
        walkers = {NAME: {"count": agents, "table": TABLE}}
        envs["WorldEnv"] = WorldEnv(Line, WalkAlone(), {}, populations=walkers, max_steps=STEPS_MAX)
    return envs


def stepper(env: Any, agents: int) -> Callable[[], None]:  # noqa: ANN401  # three classes
    """Return a function that makes one step of an environment, with drawn actions."""
    random = np.random.default_rng(7)

    def one_step() -> None:
        actions = random.integers(0, 3, agents)
        if isinstance(env, WorldEnv):
            env.step(dict(zip(env.agents, actions.tolist(), strict=True)))
        else:
            env.step(actions)

    return one_step


def measured(agents: int, seconds: float) -> list[dict[str, Any]]:
    """Return the figures of the environments of a size."""
    envs = made(agents)
    figures: list[dict[str, Any]] = []
    for name, env in envs.items():
        before = clock()
        env.reset(seed=7)
        figures.append({"name": name, "agents": agents, "reset_ms": (clock() - before) / 1e6})
    steppers = {name: stepper(env, agents) for name, env in envs.items()}
    costs: dict[str, list[float]] = {name: [] for name in envs}
    until = clock() + round(seconds * len(envs) * 1e9)
    while clock() < until or any(len(values) < 5 for values in costs.values()):
        for name, one_step in steppers.items():
            gc.collect(1)
            one_step()  # caches
            repeated = max(1, 2_000 // agents)
            before = clock()
            for _ in range(repeated):
                one_step()
            costs[name].append((clock() - before) / 1e3 / repeated / agents)
    for figure in figures:
        low, middle, high = quantiles(costs[figure["name"]], n=4)
        figure |= {"us": {"p25": low, "median": middle, "p75": high}, "per_second": 1e6 / middle}
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=2.0, help="CPU time of each environment")
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES, help="numbers of agents")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    rows = [row for agents in options.sizes for row in measured(agents, options.seconds)]
    load = os.getloadavg()[0]
    if options.json:
        print(json.dumps({"machine": machine(), "load": load, "rows": rows}, indent=2))
    else:
        print(" agents  environment     agent-steps/s  µs an agent-step (p25-p75)  reset ms")
        for row in rows:
            cost = "{median:.3f} ({p25:.3f}-{p75:.3f})".format(**row["us"])
            line = f"{row['agents']:>7}  {row['name']:15} {row['per_second']:>13,.0f}  {cost:26}"
            print(f"{line}  {row['reset_ms']:.1f}")
        print(f"CPython {sys.version.split()[0]}; {machine()}; load {load:.1f}")
