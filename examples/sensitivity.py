"""Find the settings that matter: Sobol indices of a town, with SALib.

`python sensitivity.py` runs it. Started again with the same folder, it runs only what is missing.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy
from SALib.analyze import sobol
from SALib.sample import sobol as samples

from placet.lab import Scenario, run_scenarios

NAMES = ["settings.max_step", "agents.folk.options.talkative", "quotas.Speak.rate"]
BOUNDS = [[0.5, 4.0], [0.0, 1.0], [0.05, 0.5]]
PROBLEM = {"num_vars": len(NAMES), "names": NAMES, "bounds": BOUNDS}


def people(state: Mapping[str, Mapping[str, object]]) -> int:
    """Return the number of agents at the end of a run: an outcome function."""
    return len(state["world.agents"])


def analyze(count: int = 16, *, jobs: int = 2, to: str | Path | None = None) -> None:
    """Run 8 towns for each of `count` points; print the share of the variance of each setting."""
    town = Scenario.load("town").with_agents(20).with_values(ticks=20)
    rows = [
        dict(zip(NAMES, values, strict=True)) for values in samples.sample(PROBLEM, count, seed=1)
    ]
    scenarios = Scenario.from_dataframe(rows, base=town)
    results = run_scenarios(scenarios, replications=1, outcome=people, jobs=jobs, to=to)
    for outcome in ("refused", "submitted", "people"):
        print_indices(outcome, results.means(outcome))


def print_indices(outcome: str, values: list[float]) -> None:
    if min(values) == max(values):  # its variance is 0, and each index would be 0 / 0
        print(f"{outcome} is {values[0]:g} in every run: no setting changes it")
        return
    indices = sobol.analyze(PROBLEM, numpy.array(values), seed=1)
    print(f"{outcome}: share of the variance, alone and with others")
    for name, first, total in zip(NAMES, indices["S1"], indices["ST"], strict=True):
        print(f"  {name:32} {first:5.2f} {total:5.2f}")


if __name__ == "__main__":
    analyze()
