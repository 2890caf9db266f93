"""How many agent-steps a second does stable-baselines3 get from its `VecEnv`?

    ./dev --with stable-baselines3==2.9.2,supersuit python benchmarks/bench_sb3.py [--seconds S]

The line of `bench_envs.py` by two ways: SuperSuit's vector environment over `WorldEnv`, and
`Sb3VecEnv` over 1 and 4 worlds. Each action passes the gate, and each step is recorded and chained,
without a store. CPU time; the environments of one size take turns.

It does not show: a policy, the buffers of the learner, resets.
"""

import argparse
import gc
import json
import os
import sys
import time
from functools import partial
from importlib.metadata import version
from statistics import quantiles
from typing import Any

import numpy as np
import supersuit
from bench_envs import NAME, STEPS_MAX, TABLE, Line, WalkAlone, array_env

from placet.envs import VectorEnv, WorldEnv
from placet.envs.sb3_vec_env import Sb3VecEnv
from placet_bench.report import machine

SIZES = (8, 96, 1_000)
clock = time.process_time_ns


def by_supersuit(agents: int) -> Any:  # noqa: ANN401  # of a package without annotations
    """Return the agents of a `WorldEnv` as the copies of a `VecEnv`, by SuperSuit."""
    walkers = {NAME: {"count": agents, "table": TABLE}}
    world = WorldEnv(Line, WalkAlone(), {}, populations=walkers, max_steps=STEPS_MAX)
    copies = supersuit.pettingzoo_env_to_vec_env_v1(world)
    return supersuit.concat_vec_envs_v1(copies, 1, num_cpus=0, base_class="stable_baselines3")


def by_arrays(agents: int, worlds: int) -> Sb3VecEnv:
    """Return the members of some worlds as the copies of a `VecEnv`."""
    make_env = partial(array_env, agents // worlds)
    return Sb3VecEnv(VectorEnv(make_env, worlds, autoreset_mode="SameStep"))


def measured(agents: int, seconds: float) -> list[dict[str, Any]]:
    """Return the figures of the environments of a size."""
    envs = {
        "SuperSuit over WorldEnv": by_supersuit(agents),
        "Sb3VecEnv, 1 world": by_arrays(agents, 1),
        "Sb3VecEnv, 4 worlds": by_arrays(agents, 4),
    }
    random = np.random.default_rng(7)
    costs: dict[str, list[float]] = {name: [] for name in envs}
    for env in envs.values():
        env.reset()
    until = clock() + round(seconds * len(envs) * 1e9)
    while clock() < until or any(len(values) < 5 for values in costs.values()):
        for name, env in envs.items():
            drawn = random.integers(0, 3, (max(1, 2_000 // agents), agents))
            gc.collect(1)
            env.step(drawn[0])  # caches
            before = clock()
            for actions in drawn:
                env.step(actions)
            costs[name].append((clock() - before) / 1e3 / drawn.size)
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
    versions = {name: version(name) for name in ("stable-baselines3", "supersuit", "numpy")}
    load = os.getloadavg()[0]
    if options.json:
        document = {"machine": machine(), "load": load, "versions": versions, "rows": rows}
        print(json.dumps(document, indent=2))
    else:
        print(" agents  environment              agent-steps/s  µs an agent-step (p25-p75)")
        for row in rows:
            cost = "{median:.2f} ({p25:.2f}-{p75:.2f})".format(**row["us"])
            print(f"{row['agents']:>7}  {row['name']:23} {row['per_second']:>14,.0f}  {cost}")
        print(f"CPython {sys.version.split()[0]}; {versions}; {machine()}; load {load:.1f}")
