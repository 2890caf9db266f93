"""What does a short run of a sweep cost, with logs and without, in processes and on Ray?

    ./dev python benchmarks/bench_sweep.py [--runs 1000] [--pairs 3] [--ray]

Runs of `town` with 10 agents and 10 ticks, in warm workers. With `--ray`, sweeps on Ray and on a
`ProcessPoolExecutor` of as many slots alternate; Ray runs in a network namespace with loopback
alone (`unshare`), because it binds the addresses of the machine.

It does not show: runs of seconds, several machines, a start of Ray or of the processes.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import count
from pathlib import Path

import namespace

from placet.lab import Scenario
from placet.sweeps.loop import SweepLoop
from placet.sweeps.on_ray.session import RayPools, ray_session
from placet.sweeps.on_ray.staging import stage
from placet.sweeps.plan import plan_sweep
from placet.sweeps.pools import GivenPools, Pools
from placet.sweeps.results import results_of
from placet.sweeps.study import Study
from placet.sweeps.sweep import tasks_of
from placet.sweeps.worker import Logs

TOWN = Scenario.load("town").with_agents(10).with_values(ticks=10)
SLOTS = 2


def sweeper(pools: Pools, runs: int, seeds: Iterator[int]) -> Callable[[Logs], tuple[float, float]]:
    """Return a function that runs a sweep; it returns its seconds and the CPU ms of a run."""

    def sweep(logs: Logs) -> tuple[float, float]:
        plan = plan_sweep([TOWN], seeds=[next(seeds) for _ in range(runs)])
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            with Study(folder).locked() as study:
                study.add_plan(plan)
                tasks = tasks_of(
                    plan, study, logs=logs, retry=False, timeout_s=None, is_apart=pools.is_apart
                )
                SweepLoop(study, tasks, pools, total=len(tasks)).run()
                results = results_of(study, plan.keys())
            took_s = time.perf_counter() - began
            assert not results.failed
            cpu_s = [row["cpu_s"] for row in Study(folder).read_rows().values()]
        return took_s, statistics.median(cpu_s) * 1e3

    return sweep


def in_processes(runs: int) -> None:
    """Print the cost of a run in worker processes, with logs and without."""
    with ProcessPoolExecutor(SLOTS) as executor:
        seeds = count(1)
        sweeper(GivenPools(executor), 20, seeds)("none")  # warm
        sweep = sweeper(GivenPools(executor), runs, seeds)
        kinds: tuple[Logs, ...] = ("none", "all")
        for logs in kinds:
            took_s, cpu_ms = sweep(logs)
            print(f"{runs} runs, logs {logs}: {took_s:.1f} s, {cpu_ms:.1f} ms of CPU a run")


def beside_ray(runs: int, pairs: int) -> None:
    """Print how long sweeps take on Ray, beside a pool of processes."""
    staged = stage(plan_sweep([TOWN], seeds=[1]))
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(SLOTS) as executor,
        ray_session(None, jobs=SLOTS, staged=staged, folder=Path(folder)),
    ):
        on_ray = RayPools(staged, jobs=None, timeout_s=None, on_notice=print)
        seeds = count(1)
        contenders: dict[str, Pools] = {"pool": GivenPools(executor), "Ray": on_ray}
        for pools in contenders.values():
            sweeper(pools, 40, seeds)("none")  # warm
        ratios = []
        for pair in range(pairs):
            order = list(contenders.items()) if pair % 2 else list(contenders.items())[::-1]
            took = {name: sweeper(pools, runs, seeds)("none") for name, pools in order}
            ratios.append(took["Ray"][0] / took["pool"][0])
            sys.stderr.write(f"{took}\n")
    print(
        f"{runs} warm runs on Ray / in a pool: median {statistics.median(ratios):.2f}, "
        f"{min(ratios):.2f} to {max(ratios):.2f} of {pairs} pairs"
    )


def main() -> None:
    """Run the comparison that the options name."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--ray", action="store_true")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ray and not options.inside:
        namespace.enter()
    if options.ray:
        beside_ray(options.runs, options.pairs)
    else:
        in_processes(options.runs)


if __name__ == "__main__":
    main()
