"""What workers cost and give: the CPU of the critical path of a run, with and without.

    python benchmarks/bench_workers.py [--ray] [--ticks 10]

The critical path is the CPU of the writer and, in each tick, that of the slowest worker. Its ratio
to the CPU of a run in one process is the speed-up on free processors, without the waits between
processes; wall-clock times of a busy machine show nothing of it. `planner` computes for about 2 ms
an agent-tick, `cheap` for about 50 us. Each row is of one run, between two in one process. With
`--ray` the script runs in a network namespace (`unshare`), and adds workers on a Ray of its own.
"""

import argparse
import os
import platform
from dataclasses import replace
from time import perf_counter, process_time
from typing import Any, Final

import namespace

from placet.scenarios import Scenario, load
from placet.scenarios.simulation import Simulation
from placet.scenarios.thinking import Workers, WorkersOn
from placet.stores.gc_tuning import tuned_gc

PLACES: Final[tuple[WorkersOn, ...]] = ("here", "ray")


def alone(scenario: Scenario) -> tuple[float, float, str]:
    """Return CPU seconds, seconds and digest of a run in one process."""
    with tuned_gc(), Simulation(scenario) as simulation:
        began, cpu = perf_counter(), process_time()
        report = simulation.run()
        return process_time() - cpu, perf_counter() - began, report.digest


def on_workers(scenario: Scenario, workers: Workers) -> dict[str, Any]:
    """Return the figures of a run on workers, the first tick with the whole state included."""
    with tuned_gc(), Simulation(scenario, workers=workers) as simulation:
        began, cpu = perf_counter(), process_time()
        report = simulation.run()
        wall_s, writer_s = perf_counter() - began, process_time() - cpu
        costs: Any = simulation._runner.thinkers  # noqa: SLF001  # figures that no user needs
        calls = scenario.ticks * scenario.agents_count
        return {
            "path_s": writer_s + costs.path_s,
            "wall_s": wall_s,
            "digest": report.digest,
            "writer_us": 1e6 * writer_s / calls,
            "taking_us": 1e6 * costs.taking_s / workers.count / calls,
            "sent_bytes": costs.sent_bytes / workers.count / calls,
        }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ray", action="store_true", help="also on Ray")
    parser.add_argument("--ticks", type=int, default=10)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ray and not options.inside:
        namespace.enter()
    load_1 = os.getloadavg()[0]
    print(f"{platform.python_version()}; {os.cpu_count()} processors, load {load_1:.1f}; CPU")
    print("policy    on    workers  alone us  path us  ratio  wall  writer us  taking us  bytes")
    planners = replace(load("planners"), ticks=options.ticks)
    cheap = planners.with_values({"agents.planner.options.plans": 1})
    for name, scenario in (("planner", planners), ("cheap", cheap)):
        calls = scenario.ticks * scenario.agents_count
        for on in PLACES if options.ray else PLACES[:1]:
            for count in (1, 2, 4):
                before = alone(scenario)
                found = on_workers(scenario, Workers(count, on, slots=count))
                # The mean of two around it: the machine's speed drifts with its load.
                after = alone(scenario)
                cpu_s, wall_s = (before[0] + after[0]) / 2, (before[1] + after[1]) / 2
                assert found["digest"] == before[2], "the digest of one process"
                print(
                    f"{name:9} {on:5} {count:7} {1e6 * cpu_s / calls:9.0f} "
                    f"{1e6 * found['path_s'] / calls:8.0f} {cpu_s / found['path_s']:6.2f} "
                    f"{wall_s / found['wall_s']:5.2f} {found['writer_us']:10.1f} "
                    f"{found['taking_us']:10.2f} {found['sent_bytes']:6.0f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
