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
from random import Random

from placet.lab import Scenario, run_scenarios

ROOT = Path(__file__).parents[2]


def town() -> Scenario:
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
        [sys.executable, "-m", "tests.sweeps.killing", str(study), str(runs)],
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


def kill_sweep(study: Path, marks: Path, *, runs: int, kills: int, chance: Random) -> None:
    """Kill drivers and workers in turn until the sweep is finished; check every execution."""
    killed, driver = 0, start(study, runs, marks)
    deadline = time.monotonic() + 240
    while driver.poll() is None or driver.returncode != 0:
        assert time.monotonic() < deadline
        if driver.poll() is not None:
            assert driver.returncode == -signal.SIGKILL, driver.stderr.read()
            driver.stderr.close()
            driver = start(study, runs, marks)
        wanted = (killed + 1) * runs // (kills + 1)
        if killed < kills and study.exists() and rows_in(study) >= wanted:
            victims = workers_of(study)
            victim = driver.pid if killed % 2 or not victims else chance.choice(victims)
            try:
                os.kill(victim, signal.SIGKILL)
            except ProcessLookupError:
                continue
            killed += 1
        time.sleep(0.01)
    driver.stderr.close()
    assert killed == kills
    recorded = rows_in(study)
    assert recorded == runs, "a run was recorded twice"
    executed = executions(marks)
    assert len(executed) == runs
    # A run that was under way at a kill is executed again; two are under way at most.
    assert sum(executed.values()) - runs <= 2 * kills


def executions(marks: Path) -> Counter[str]:
    return Counter(Path(marks).read_text().splitlines()) if Path(marks).exists() else Counter()


def main(study, runs):
    results = run_scenarios(
        town(), replications=int(runs), outcome=mark, jobs=2, to=study, logs="none"
    )
    assert not results.failed, results.failed[0]["error"]


if __name__ == "__main__":
    main(*sys.argv[1:])
