"""Is an answer to an agent different in two worlds that differ in hidden state only?

    ./dev python benchmarks/soak_noninterference.py [--pairs N] [--steps N] [--jobs N] [--json]

Runs pairs of whole runs of every scene of `tests/noninterference` (all built-in domains and two of
the tests' own): a trace of 24 steps of three agents in two worlds, of which the second omits or
replaces the steps that the first agent may not see. Every answer to that agent is compared. The
pairs are divided among the scenes; the exit code is 1 if an answer differs.

It does not show: HTTP and MCP, which `tests/noninterference/test_channels.py` compares, and the
excepted channels of docs/reference/threat_model.md.
"""

import argparse
import json
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from placet.testing.noninterference_property import difference_of
from placet.testing.paired_runs import PairedRun
from placet.testing.trace import TraceRunner
from placet_bench.report import machine
from tests.noninterference.drawn import STEPS
from tests.noninterference.scenes import SCENES

FIRST_SEED = 1_000
"""Above the seeds that the tests run."""


class Outcome(NamedTuple):
    """The result of one pair.

    Attributes:
        scene: Name of the scene.
        seed: Seed of its trace.
        hidden: Steps that one of the worlds omitted or replaced.
        found: The first answer that differs; empty without one.
    """

    scene: str
    seed: int
    hidden: int
    found: str


def run_pair(job: tuple[str, int, int]) -> Outcome:
    """Run the pair of a scene, a seed and a number of steps."""
    name, seed, steps = job
    scene = SCENES[name]
    trace = scene.trace(seed, steps)
    pair = PairedRun(TraceRunner(scene.factory), scene.factory, trace)
    found = difference_of(pair, trace)
    return Outcome(name, seed, pair.hidden_count, found or "")


def main() -> int:
    """Read the options, run, and print; return 1 if an answer differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=3_000)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    names = list(SCENES)
    jobs = [
        (names[n % len(names)], FIRST_SEED + n // len(names), options.steps)
        for n in range(options.pairs)
    ]
    began = time.perf_counter()
    with ProcessPoolExecutor(options.jobs) as pool:
        outcomes = list(pool.map(run_pair, jobs, chunksize=20))
    different = [outcome for outcome in outcomes if outcome.found]
    summary = {
        "pairs": len(outcomes),
        "pairs_with_hidden_steps": sum(outcome.hidden > 0 for outcome in outcomes),
        "hidden_steps": sum(outcome.hidden for outcome in outcomes),
        "pairs_with_a_different_answer": len(different),
        "seconds": round(time.perf_counter() - began),
        "machine": machine(),
    }
    if options.json:
        print(json.dumps({**summary, "different": [d._asdict() for d in different]}, indent=2))
    else:
        for name in names:
            of_scene = [outcome for outcome in outcomes if outcome.scene == name]
            hidden = sum(outcome.hidden for outcome in of_scene)
            bad = sum(bool(outcome.found) for outcome in of_scene)
            print(f"{name:35} {len(of_scene):>5} pairs {hidden:>7} hidden steps {bad:>4} different")
        for outcome in different[:5]:
            print(f"{outcome.scene}, seed {outcome.seed}: {outcome.found}")
        print(summary)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
