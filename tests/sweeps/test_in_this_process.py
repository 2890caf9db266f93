"""`jobs=1` runs in this process: a debugger works, and any function is an outcome."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pandas as pd
import pytest

from placet.lab import Results, Scenario, run_scenarios
from placet.sweeps import worker
from placet.sweeps.errors import LabError
from tests.sweeps.sweeping import agents_left, short_town


def here(state):
    return os.getpid()


@pytest.mark.slow
def test_one_job_is_this_process_and_more_are_not(tmp_path):
    scenarios = short_town().product(max_step=[0.5, 1])
    results = run_scenarios(scenarios, outcome=here, jobs=1, to=tmp_path / "study")
    assert results.column("here") == [os.getpid()] * 2
    assert Results.load(tmp_path / "study").column("here") == [os.getpid()] * 2
    assert worker._writers.writer is None
    assert os.getpid() not in run_scenarios(short_town(), outcome=here).column("here")
    timed = run_scenarios(short_town(), outcome=here, jobs=1, timeout_s=60)
    assert os.getpid() not in timed.column("here")


def test_a_debugger_stops_in_an_outcome(monkeypatch):
    stops = []
    monkeypatch.setattr(sys, "breakpointhook", lambda: stops.append(sys._getframe(1).f_code))

    def stopping(state):
        breakpoint()  # it is the test
        return len(state)

    results = run_scenarios(short_town(), outcome=[stopping, lambda state: 1, here], jobs=1)
    assert stops == [stopping.__code__]
    assert results.outcomes == ["stopping", "<lambda>", "here"]


def test_a_function_without_a_module_is_refused_where_another_process_or_study_needs_it(tmp_path):
    for more in ({"jobs": 2}, {}, {"jobs": 1, "to": tmp_path / "study"}):
        with pytest.raises(LabError, match=r"cannot import .* use jobs=1, which runs in this"):
            run_scenarios(short_town(), outcome=lambda state: 1, **more)
    with pytest.raises(LabError, match="two outcome functions have the name <lambda>"):
        run_scenarios(short_town(), outcome=[lambda state: 1, lambda state: 2], jobs=1)


def test_an_interrupt_ends_a_sweep_in_this_process_and_keeps_what_is_finished(tmp_path):
    calls = []

    def interrupting(progress):
        calls.append(progress.done)
        if progress.done == 1:
            raise KeyboardInterrupt

    scenarios = short_town().product(max_step=[0.5, 1, 2])
    with pytest.raises(KeyboardInterrupt):
        run_scenarios(scenarios, jobs=1, to=tmp_path / "s", on_progress=interrupting)
    assert len(Results.load(tmp_path / "s")) == 1
    assert len(run_scenarios(scenarios, jobs=1, to=tmp_path / "s")) == 3


@pytest.mark.parametrize("jobs", [0, -1, True, 1.5, "2"])
def test_a_number_of_jobs_is_an_int_from_1_on(jobs):
    with pytest.raises(LabError, match=f"at least 1, got {jobs!r}; expected an int"):
        run_scenarios(short_town(), jobs=jobs)
    with pytest.raises(LabError, match="give `executor` or `jobs`, not both"):
        run_scenarios(short_town(), jobs=2, executor=ThreadPoolExecutor)


def test_seeds_are_run_as_given_or_refused():
    rows = pd.DataFrame({"seed": [5, 3, 4], "max_step": [1, 1, 2.0]})
    scenarios = Scenario.from_dataframe(rows, base=short_town())
    results = run_scenarios(scenarios, outcome=agents_left, jobs=1)
    assert results.column("seed") == [5, 3, 4]
    for more in ({"seeds": [1, 2]}, {"replications": 2}):
        with pytest.raises(LabError, match=r"have the seeds 5, 3 \.\.\., which"):
            run_scenarios(scenarios, **more)
    given: list[Any] = [[1, 2, 1], [1, True], [1.0]]
    for seeds in given:
        with pytest.raises(LabError, match=r"given twice|a seed must be an integer"):
            run_scenarios(short_town(), seeds=seeds)


def test_equal_values_of_an_axis_are_runs_as_given():
    values = [1, 1.0, 1]
    results = run_scenarios(short_town().product(max_step=values), columns=["max_step"], jobs=1)
    assert list(map(repr, results.column("settings.max_step"))) == ["1", "1.0", "1"]
    assert len(set(results.column("digest"))) == 1
    assert len(results.by_scenario()) == 3
