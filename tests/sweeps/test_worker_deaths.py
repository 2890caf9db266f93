"""Workers and drivers of a sweep die; nothing finished is repeated, and the results are equal."""

import json
import random
import sqlite3
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor

import pytest

from placet.lab import run_scenarios
from placet.sweeps import half_run
from placet.sweeps.errors import LabError
from tests.sweeps import killing
from tests.sweeps.sweeping import InlineExecutor, agents_left, short_town, without_times

pytestmark = pytest.mark.slow


@pytest.fixture
def marks(tmp_path, monkeypatch):
    monkeypatch.setenv("MARKS", str(tmp_path / "marks"))
    return tmp_path / "marks"


def test_a_run_that_kills_its_worker_is_marked_and_the_others_finish(tmp_path):
    towns = short_town().product(max_step=[0.5, 1])
    healthy = run_scenarios(towns, replications=5, outcome=agents_left, jobs=2, to=tmp_path / "a")
    assert healthy.failed == []
    results = run_scenarios(towns[:1], seeds=[1], outcome=killing.die, jobs=2, to=tmp_path / "b")
    (row,) = results
    assert row["status"] == "died"
    assert "its worker process died" in row["error"]


def test_a_worker_that_dies_once_costs_no_run(tmp_path, marks):
    results = run_scenarios(
        short_town(), replications=12, outcome=killing.die_once, jobs=2, to=tmp_path / "study"
    )
    assert results.failed == []
    assert results.column("die_once") == [1] * 12


def test_the_pool_of_the_caller_is_made_again(tmp_path, marks):
    with ProcessPoolExecutor(2) as executor:
        results = run_scenarios(
            short_town(), replications=12, outcome=killing.die_once, executor=executor
        )
    assert results.failed == []


def test_three_pools_without_a_run_end_the_sweep():
    executor = ProcessPoolExecutor(2, initializer=killing.break_initializer)
    with pytest.raises(LabError, match=r"3 pools .* before any run began.*__main__.*initializer"):
        run_scenarios(short_town(), replications=4, executor=executor)


def test_a_run_past_its_timeout_is_a_row(tmp_path):
    results = run_scenarios(
        short_town(), seeds=[1, 2], outcome=killing.loop_for_ever, jobs=2, timeout_s=0.5
    )
    assert results.column("status") == ["timeout"] * 2
    assert "longer than 0.5 s" in results[0]["error"]


@pytest.mark.timeout(300)
def test_a_sweep_that_is_killed_repeats_no_finished_run(tmp_path, marks):
    """Kill the driver twice and workers three times in a sweep of 60."""
    chance, study = random.Random(1), tmp_path / "study"
    killing.kill_sweep(study, marks, runs=60, kills=5, chance=chance)
    undisturbed = run_scenarios(
        killing.town(), replications=60, outcome=killing.mark, executor=InlineExecutor()
    )
    final = run_scenarios(
        killing.town(), replications=60, outcome=killing.mark, executor=InlineExecutor(), to=study
    )
    assert without_times(final) == without_times(undisturbed)


def test_a_half_done_run_is_resumed_from_its_log(tmp_path, monkeypatch):
    """Kill a run of some seconds, and see it resume with the counts of an undisturbed run."""
    monkeypatch.setattr(half_run, "WORTH_S", 0.0)
    scenario = killing.town().with_values(ticks=30)
    study = tmp_path / "study"
    whole = run_scenarios(scenario, seeds=[5], executor=InlineExecutor(), to=tmp_path / "whole")

    def stop_at(self, counts, advance=half_run.HalfRun.advance):
        advance(self, counts)
        if counts.ticks == 12:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(half_run.HalfRun, "advance", stop_at)
        with pytest.raises(KeyboardInterrupt):
            run_scenarios(scenario, seeds=[5], executor=InlineExecutor(), to=study, logs="all")
    resumed = run_scenarios(scenario, seeds=[5], executor=InlineExecutor(), to=study, logs="all")
    assert without_times(resumed) == without_times(whole)
    (rows,) = (study / "results").glob("*.jsonl")
    assert json.loads(rows.read_text())["resumed_at"] == 12
    assert not list((study / "logs").glob("*.counts"))


def test_a_half_done_run_whose_counts_are_not_of_its_last_tick_starts_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(half_run, "WORTH_S", 0.0)
    scenario, study = killing.town(), tmp_path / "study"
    arguments = {"seeds": [5], "executor": InlineExecutor(), "to": study, "logs": "all"}

    def stop_before(self, counts, advance=half_run.HalfRun.advance):
        if counts.ticks == 5:
            raise KeyboardInterrupt
        advance(self, counts)

    with monkeypatch.context() as patch:
        patch.setattr(half_run.HalfRun, "advance", stop_before)
        with pytest.raises(KeyboardInterrupt):
            run_scenarios(scenario, **arguments)
    assert run_scenarios(scenario, **arguments)[0]["status"] == "done"
    (rows,) = (study / "results").glob("*.jsonl")
    assert json.loads(rows.read_text())["resumed_at"] is None


def test_a_damaged_log_of_a_half_done_run_starts_anew(tmp_path):
    scenario, study = killing.town(), tmp_path / "study"
    arguments = {"seeds": [5], "executor": InlineExecutor(), "to": study, "logs": "all"}
    whole = run_scenarios(scenario, **arguments)
    (log,) = (study / "logs").glob("*.db")
    (rows,) = (study / "results").glob("*.jsonl")
    rows.unlink()
    log.with_suffix(".counts").write_text("[10,1,1,{}]\n")
    with sqlite3.connect(log) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    log.write_bytes(log.read_bytes()[:5000])
    assert without_times(run_scenarios(scenario, **arguments)) == without_times(whole)


SCRIPT = """
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from placet.lab import Scenario, run_scenarios
town = Scenario.load("town").with_agents(4).with_values(ticks=2)
print(len(run_scenarios(town, replications=3, {pool})))
"""


def run_script(folder, pool, *, is_typed_in=False):
    script = folder / "script.py"
    script.write_text(SCRIPT.format(pool=pool))
    with script.open() as lines:
        return subprocess.run(
            [sys.executable, "-" if is_typed_in else script],
            stdin=lines if is_typed_in else subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )


@pytest.mark.parametrize("is_typed_in", [False, True])
def test_a_script_needs_no_guard_for_the_sweeps_own_processes(tmp_path, is_typed_in):
    done = run_script(tmp_path, "jobs=2", is_typed_in=is_typed_in)
    assert done.stdout == "3\n", done.stderr


def test_a_pool_of_a_script_without_a_guard_ends_with_its_reason(tmp_path):
    done = run_script(tmp_path, 'executor=ProcessPoolExecutor(2, get_context("spawn"))')
    assert done.returncode == 1
    assert 'put the call of run_scenarios under `if __name__ == "__main__":`' in done.stderr
    assert "3 pools of workers ended before any run began" in done.stderr
