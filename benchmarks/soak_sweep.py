"""Does a sweep of which drivers and workers are killed repeat a finished run, or change a result?

    ./dev python benchmarks/soak_sweep.py [--runs 200] [--kills 20] [--seed 1]

Drivers and workers are killed in turn, at even distances, with SIGKILL. Each execution of a run
leaves a mark; afterwards every run must have one row, equal to that of an undisturbed sweep.

It does not show: a power loss, a full disk, several machines (tests/sweeps/test_ray.py).
"""

import argparse
import os
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from placet.lab import Results, run_scenarios
from tests.sweeps import killing
from tests.sweeps.sweeping import without_times


def main() -> None:
    """Kill the sweep, compare it, and print the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        study, marks = Path(folder) / "study", Path(folder) / "marks"
        began = time.monotonic()
        chance = random.Random(options.seed)
        killing.kill_sweep(study, marks, runs=options.runs, kills=options.kills, chance=chance)
        took_s = time.monotonic() - began
        executed = killing.executions(marks)
        killed = Results.load(study)
        os.environ["MARKS"] = str(Path(folder) / "other marks")
        undisturbed = run_scenarios(
            killing.town(), replications=options.runs, outcome=killing.mark, jobs=2
        )
        again = sum(executed.values()) - len(executed)
        print(
            f"{options.kills} kills in {options.runs} runs, {took_s:.0f} s: {len(killed)} rows, "
            f"{again} executions of runs that were under way at a kill, results equal: "
            f"{without_times(killed) == without_times(undisturbed)}"
        )


if __name__ == "__main__":
    main()
