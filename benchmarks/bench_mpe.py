"""What does a step of `WorldEnv` cost beside a game of MPE, with as many agents?

    ./dev --with mpe2==1.1.1 python benchmarks/bench_mpe.py [--seconds S] [--json]

`simple_spread` of MPE (package mpe2) is a game that PettingZoo's users measure with: agents have a
velocity, bounce off each other, and observe each other and the landmarks. The grid of placet has as
many agents, which observe each other and the goal; each action passes the gate, and each step is
recorded and chained, without a store. Both are driven as `ParallelEnv` by drawn actions, and reset
where an episode ends. CPU time; the environments take turns.

It does not show: a policy; the same rules, because a grid has no physics and MPE no gate.
"""

import argparse
import gc
import json
import os
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from statistics import quantiles
from typing import Any

import numpy as np
from mpe2 import simple_spread_v3

from placet.envs.grid import grid_env
from placet_bench.report import machine

SIZES = (3, 10, 30)
STEPS_MAX = 1_000
WIDTH = 32
clock = time.process_time_ns


def made(agents: int) -> dict[str, Any]:
    """Return the environments with so many agents, by name."""
    names = tuple(f"agent_{number}" for number in range(agents))
    return {
        "WorldEnv, grid": grid_env(names, width=WIDTH, height=WIDTH, max_steps=STEPS_MAX),
        "MPE simple_spread": simple_spread_v3.parallel_env(N=agents, max_cycles=STEPS_MAX),
    }


def stepper(env: Any) -> Callable[[], int]:  # noqa: ANN401  # of two packages
    """Return a function that makes one step with drawn actions, and returns its agent-steps."""
    random = np.random.default_rng(7)
    env.reset(seed=7)

    def one_step() -> int:
        if not env.agents:
            env.reset()
        drawn = random.integers(0, 5, len(env.agents)).tolist()
        count = len(drawn)
        env.step(dict(zip(env.agents, drawn, strict=True)))
        return count

    return one_step


def measured(agents: int, seconds: float) -> list[dict[str, Any]]:
    """Return the figures of the environments with so many agents."""
    steppers = {name: stepper(env) for name, env in made(agents).items()}
    costs: dict[str, list[float]] = {name: [] for name in steppers}
    until = clock() + round(seconds * len(steppers) * 1e9)
    while clock() < until or any(len(values) < 5 for values in costs.values()):
        for name, one_step in steppers.items():
            gc.collect(1)
            one_step()  # caches
            before, done = clock(), 0
            while done < 1_000:
                done += one_step()
            costs[name].append((clock() - before) / 1e3 / done)
    figures = []
    for name, values in costs.items():
        low, middle, high = quantiles(values, n=4)
        us = {"p25": low, "median": middle, "p75": high}
        figures.append({"name": name, "agents": agents, "us": us, "per_second": 1e6 / middle})
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=2.0, help="CPU time of each environment")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    rows = [row for agents in SIZES for row in measured(agents, options.seconds)]
    versions = {name: version(name) for name in ("mpe2", "pettingzoo", "numpy")}
    load = os.getloadavg()[0]
    if options.json:
        document = {"machine": machine(), "load": load, "versions": versions, "rows": rows}
        print(json.dumps(document, indent=2))
    else:
        print(" agents  environment        agent-steps/s  µs an agent-step (p25-p75)")
        for row in rows:
            cost = "{median:.1f} ({p25:.1f}-{p75:.1f})".format(**row["us"])
            print(f"{row['agents']:>7}  {row['name']:18} {row['per_second']:>13,.0f}  {cost}")
        print(f"CPython {sys.version.split()[0]}; {versions}; {machine()}; load {load:.1f}")
