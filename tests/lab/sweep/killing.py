"""Sweeps whose workers and drivers are killed; also a program: `python killing.py STUDY RUNS`.

The file MARKS gets a line for each run whose outcome was computed, with its seed: a run that was
executed twice stands there twice.
"""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from placet.lab import Scenario, run_scenarios

ROOT = Path(__file__).parents[3]


def town():
    return Scenario.load("town").with_agents(10).with_values(ticks=10)


def die(state):
    os.kill(os.getpid(), signal.SIGKILL)


def die_once(state):
    """End the worker of the first run that comes here, and no other."""
    try:
        Path(os.environ["MARKS"]).touch(exist_ok=False)
    except FileExistsError:
        return 1
    os._exit(3)


def loop_for_ever(state):
    while True:
        pass


def mark(state):
    """Mark the run, and take a little time: kills shall hit runs."""
    time.sleep(0.02)
    place = state["world.agents"]["folk_1"]["position"]
    with Path(os.environ["MARKS"]).open("a") as marks:
        marks.write(f"{place}\n")
    return place[0]


def break_initializer():
    raise RuntimeError("the initializer fails")


def start(study, runs, marks):
    """Start a sweep in a process of its own, which leads its group."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.lab.sweep.killing", str(study), str(runs)],
        cwd=ROOT,
        env={**os.environ, "MARKS": str(marks), "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
    )


def rows_in(study):
    """Return the number of whole rows of a study."""
    files = (Path(study) / "results").glob("*.jsonl")
    return sum(path.read_bytes().count(b"\n") for path in files)


def workers_of(study):
    """Return the processes that write to a study."""
    names = (path.name for path in (Path(study) / "running").iterdir())
    return [int(name.partition("-")[0]) for name in names]


def executions(marks):
    return Counter(Path(marks).read_text().splitlines()) if Path(marks).exists() else Counter()


def main(study, runs):
    results = run_scenarios(
        town(), replications=int(runs), outcome=mark, jobs=2, to=study, logs="none"
    )
    assert not results.failed, results.failed[0]["error"]


if __name__ == "__main__":
    main(*sys.argv[1:])
