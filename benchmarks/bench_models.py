"""What does an agent of a bundled model of columns cost in a tick, beside Mesa's example?

    ./dev --with networkx python benchmarks/bench_models.py [--agents 10000] [--rounds 3]

Mesa's examples import networkx.

CPU time: of placet with policy, gate and log in memory, through `KernelRunner`; of Mesa's model as
its `step()` is, which activates agents one after another. Both have the density of their scenario.
The two take turns; the median of each is printed, with the least and the greatest.

It does not show: the state digest, a store, collecting data; Mesa's time to make its agents.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from math import isqrt, sqrt
from typing import Any

import numpy as np

from placet.scenarios import Scenario
from placet.scenarios.kernel_runner import KernelRunner
from placet.scenarios.setup import prepare

TICKS = {"placet": 10, "mesa": 1}


def placet_tick(name: str, *overrides: str) -> Callable[[], Any]:
    """Return a function that runs one tick of a bundled scenario."""
    options = [f"ticks={10**6}", *overrides]
    return KernelRunner(prepare(Scenario.load(name, overrides=options), store="memory://")).tick


def models(agents: int) -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """Return the tick of each model here, and in Mesa, with so many agents."""
    from mesa.examples.basic.boid_flockers.model import BoidFlockers  # noqa: PLC0415  # slow
    from mesa.examples.basic.boltzmann_wealth_model.model import BoltzmannWealth  # noqa: PLC0415
    from mesa.examples.basic.schelling.model import Schelling  # noqa: PLC0415
    from mesa.examples.basic.virus_on_network.model import VirusOnNetwork  # noqa: PLC0415

    town, plane, grid = isqrt(agents * 5 // 4), 100 * sqrt(agents / 200), isqrt(agents)
    people = f"populations.people.count={agents}"
    birds = f"populations.birds.count={agents}"
    birds_of: Any = BoidFlockers
    purses_of: Any = BoltzmannWealth
    network_of: Any = VirusOnNetwork
    network = network_of(
        num_nodes=agents, avg_node_degree=6, initial_outbreak_size=agents // 10,
        virus_spread_chance=0.08, virus_check_frequency=1.0, recovery_chance=0.02,
        gain_resistance_chance=1.0,
    )  # fmt: skip
    sir = (
        people,
        f"settings.links={3 * agents}",
        f"settings.outbreak={agents // 10}",
        "populations.people.options.recover=0.02",
    )
    return {
        "flock": (
            placet_tick("flock", birds, f"settings.side={plane}"),
            birds_of(population_size=agents, width=plane, height=plane).step,
        ),
        "segregation": (
            placet_tick("segregation", people, f"settings.side={town + 1}"),
            Schelling(width=town + 1, height=town + 1).step,
        ),
        "wealth": (
            placet_tick("wealth", people, f"settings.side={grid}"),
            purses_of(n=agents, width=grid, height=grid).step,
        ),
        "sir": (placet_tick("sir", *sir), network.step),
    }


def cpu_us(tick: Callable[[], Any], ticks: int, agents: int) -> float:
    """Return the CPU time of an agent's tick, microseconds."""
    began = time.process_time()
    for _ in range(ticks):
        tick()
    return 1e6 * (time.process_time() - began) / ticks / agents


def main() -> None:
    """Measure each model, and print a line for it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--agents", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    for name, (here, mesa) in models(options.agents).items():
        pairs = [
            (
                cpu_us(here, TICKS["placet"], options.agents),
                cpu_us(mesa, TICKS["mesa"], options.agents),
            )
            for _ in range(options.rounds)
        ]
        factors = [other / own for own, other in pairs]
        told = [
            f"{statistics.median(each):.3g} ({min(each):.3g}-{max(each):.3g})"
            for each in (*zip(*pairs, strict=True), factors)
        ]
        print(f"{name:12} placet {told[0]} us, Mesa {told[1]} us, factor {told[2]}", flush=True)


if __name__ == "__main__":
    np.seterr(all="ignore")  # of Mesa's birds at one place
    main()
