"""The bundled models agree with Mesa's examples: the means over 20 seeds of what each measures.

Two runs of one model differ by chance, so means are compared: within 5 %, or within the interval in
which 95 of 100 differences of two such means lie, if that is wider.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from placet.kernel import Kernel
from placet.scenarios import Scenario
from placet.scenarios.builtin import flock, segregation, sir, wealth
from placet.scenarios.kernel_runner import KernelRunner
from placet.scenarios.setup import prepare

SEEDS = 20

# Made by `python -m tests.scenarios.mesa_means` with mesa 3.3.1 and numpy 2.4: the mean and the
# standard deviation over 20 seeds.
MESA = {
    "flock order": (0.6025, 0.1703),
    "segregation share": (0.8346, 0.0264),
    "sir attack rate": (0.7190, 0.0474),
    "sir peak tick": (20.45, 4.7515),
    "wealth gini": (0.3866, 0.0356),
}


def measured(name: str, seed: int, watch: Callable[[Kernel], Any], ticks: int) -> list[Any]:
    """Return what a function reads of the world, at the beginning and after each tick."""
    scenario = Scenario.load(name, overrides=[f"seed={seed}", f"ticks={ticks}"])
    runner = KernelRunner(prepare(scenario, store="memory://"))
    kernel = runner.world.kernel
    seen = [watch(kernel)]
    for _ in range(ticks):
        runner.tick()
        seen.append(watch(kernel))
    return seen


def order(seed: int) -> list[float]:
    seen = measured("flock", seed, lambda k: k.population("birds")["heading"].copy(), 200)
    return [flock.order(seen[-1])]


def share(seed: int) -> list[float]:
    def read(kernel: Kernel) -> tuple[Any, ...]:
        people = kernel.population("people")
        return people["cell"].copy(), people["group"], 20

    return [segregation.like_share(*measured("segregation", seed, read, 100)[-1])]


def epidemic(seed: int) -> list[float]:
    seen = measured("sir", seed, lambda k: k.population("people")["state"].copy(), 100)
    infectious = [(state == sir.INFECTIOUS).sum() for state in seen]
    return [float((seen[-1] != sir.SUSCEPTIBLE).mean()), float(np.argmax(infectious))]


def gini(seed: int) -> list[float]:
    seen = measured("wealth", seed, lambda k: k.population("people")["coins"].copy(), 200)
    return [wealth.gini(seen[-1])]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("names", "measure"),
    [
        (("flock order",), order),
        (("segregation share",), share),
        (("sir attack rate", "sir peak tick"), epidemic),
        (("wealth gini",), gini),
    ],
    ids=["flock", "segregation", "sir", "wealth"],
)
def test_means_over_20_seeds_are_those_of_mesa(names, measure):
    found = np.array([measure(seed) for seed in range(SEEDS)])
    for name, values in zip(names, found.T, strict=True):
        mean, deviation = MESA[name]
        interval = 1.96 * np.sqrt((deviation**2 + values.std(ddof=1) ** 2) / SEEDS)
        assert abs(values.mean() - mean) <= max(0.05 * mean, interval), name
