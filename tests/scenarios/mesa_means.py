"""Mesa's examples under simultaneous activation, which make the table beside the models.

    pip install networkx    # which mesa.examples imports, and nothing here needs
    python -m tests.scenarios.mesa_means

Mesa activates its agents one after another. Here all of them read the state before any is changed:
what they choose is collected first and applied then, and of several who choose one cell a random
one gets it. The models are otherwise those of mesa 3.3.1.
"""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

SEEDS = 20


def flock(seed: int) -> list[float]:
    """Return the order parameter of 200 birds at tick 200."""
    from mesa.examples.basic.boid_flockers.model import BoidFlockers

    model: Any = BoidFlockers(population_size=200, seed=seed)
    boids = list(model.agents)
    for boid in boids:
        boid.direction = np.array(boid.direction, float)
    for _ in range(200):
        chosen = []
        for boid in boids:
            before, boid.speed = boid.direction.copy(), 0  # it turns, and stays where it is
            boid.step()
            chosen.append(boid.direction.copy())
            boid.direction[:], boid.speed = before, 1
        for boid, direction in zip(boids, chosen, strict=True):
            boid.direction[:] = direction
            boid.position += direction * boid.speed
    headings = np.array([boid.direction for boid in boids])
    headings /= np.linalg.norm(headings, axis=1, keepdims=True)
    return [float(np.hypot(*headings.mean(axis=0)))]


def segregation(seed: int) -> list[float]:
    """Return the mean share of like neighbors of the town at tick 100."""
    from mesa.examples.basic.schelling.model import Schelling

    model: Any = Schelling(seed=seed)
    for _ in range(100):
        movers = [agent for agent in model.agents if not agent.happy]
        free = [cell for cell in model.grid.all_cells if cell.is_empty]
        model.random.shuffle(movers)
        taken: set[Any] = set()
        for agent, cell in [(agent, model.random.choice(free)) for agent in movers]:
            if cell not in taken:
                taken.add(cell)
                agent.cell = cell
        model.agents.do("assign_state")
    shares = []
    for agent in model.agents:
        near = list(agent.cell.get_neighborhood(radius=1).agents)
        if near:
            shares.append(sum(other.type == agent.type for other in near) / len(near))
    return [float(np.mean(shares))]


def wealth(seed: int) -> list[float]:
    """Return the Gini coefficient of 100 people at tick 200."""
    from mesa.examples.basic.boltzmann_wealth_model.model import BoltzmannWealth

    model: Any = BoltzmannWealth(seed=seed)
    for _ in range(200):
        model.agents.do("move")
        for agent in [agent for agent in model.agents if agent.wealth > 0]:
            agent.give_money()
    return [float(model.compute_gini())]


def sir(seed: int) -> list[float]:
    """Return the share of 500 people that were ever infected, and the tick of most infectious."""
    from mesa.examples.basic.virus_on_network.agents import State
    from mesa.examples.basic.virus_on_network.model import VirusOnNetwork

    model: Any = VirusOnNetwork(
        num_nodes=500, avg_node_degree=6, initial_outbreak_size=5, virus_spread_chance=0.08,
        virus_check_frequency=1.0, recovery_chance=0.2, gain_resistance_chance=1.0, seed=seed,
    )  # fmt: skip

    def infected() -> list[Any]:
        return [agent for agent in model.agents if agent.state is State.INFECTED]

    counts = [len(infected())]
    for _ in range(100):
        now = infected()
        for agent in now:
            agent.try_to_infect_neighbors()
        for agent in now:
            agent.check_situation()
        counts.append(len(infected()))
    spared = sum(agent.state is State.SUSCEPTIBLE for agent in model.agents)
    return [1 - spared / 500, float(np.argmax(counts))]


MODELS: dict[str, Callable[[int], list[float]]] = {
    "flock": flock,
    "segregation": segregation,
    "sir": sir,
    "wealth": wealth,
}


def main() -> None:
    """Write the mean and the standard deviation of each measure over the seeds."""
    for name, measure in MODELS.items():
        found = np.array([measure(seed) for seed in range(SEEDS)])
        columns = zip(found.mean(axis=0), found.std(axis=0, ddof=1), strict=True)
        pairs = ", ".join(f"({mean:.4f}, {deviation:.4f})" for mean, deviation in columns)
        sys.stdout.write(f'"{name}": [{pairs}],\n')


if __name__ == "__main__":
    main()
