"""`placet sweep`: what it prints, and its errors."""

import signal
import time

import pytest

from placet.lab import Results
from tests.cli.command_line import Process

SWEEP = ("sweep", "town", "--agents", "6", "--ticks", "3")


def test_bad_options_are_named_with_what_to_do(placet):
    cases = {
        ("sweep", "twon", "--to", "study"): (1, "did you mean 'town'"),
        (*SWEEP, "--set", "settings.max_stp=1", "--to", "study"): (1, "did you mean 'max_step'"),
        (*SWEEP, "--set", "agents.folks.count=1", "--to", "study"): (1, "did you mean 'folk'"),
        (*SWEEP, "--set", "max_step", "--to", "study"): (1, "expected key=value"),
        (*SWEEP, "--seeds", "one", "--to", "study"): (1, "'one' names no seeds"),
        (*SWEEP, "--outcome", "nothing:here", "--to", "study"): (1, "'nothing:here'"),
        (*SWEEP, "--ray-address", "a:1", "--to", "study"): (2, "belong to --on ray"),
        (*SWEEP, "--on", "ray", "--ray-address", "ray://a:1", "--to", "study"): (1, "ray://"),
        (*SWEEP, "--jobs", "0", "--to", "study"): (2, "--jobs"),
        SWEEP: (2, "--to"),
    }
    for arguments, (code, text) in cases.items():
        outcome = placet(*arguments)
        assert (outcome.code, outcome.out) == (code, ""), arguments
        assert text in outcome.err, arguments
    assert not (placet.folder / "study").exists()


@pytest.mark.slow
def test_a_sweep_prints_its_rows_and_runs_none_again(placet):
    options = ("--set", "agents.folk.count=2..4:2", "--seeds", "1..3", "--jobs", "2")
    first = placet(*SWEEP, *options, "--to", "study")
    assert first.code == 0
    assert first.err == ""
    lines = first.out.splitlines()
    assert lines[0] == "6 runs, means over the seeds of each setting:"
    assert lines[1].split()[:3] == ["agents.folk.count", "runs", "failed"]
    assert [line.split()[:3] for line in lines[2:4]] == [["2", "3", "0"], ["4", "3", "0"]]
    assert "Results.load('study')" in first.out
    again = placet(*SWEEP, *options, "--to", "study", "--json")
    rows = again.json()["rows"]
    assert [(row["agents.folk.count"], row["seed"]) for row in rows] == [
        (count, seed) for count in (2, 4) for seed in (1, 2, 3)
    ]
    assert rows == Results.load(placet.folder / "study").rows


@pytest.mark.slow
def test_a_failing_outcome_is_shown_and_is_the_exit_code(placet):
    (placet.folder / "measures.py").write_text("def wrong(state):\n    return state['nothing']\n")
    outcome = placet(*SWEEP, "--outcome", "measures:wrong", "--to", "study")
    assert outcome.code == 1
    assert "measures:wrong raised MissingKeyError(\"there is no collection 'nothing'" in outcome.out
    assert "--retry" in outcome.out


@pytest.mark.slow
def test_ctrl_c_keeps_what_is_finished(placet):
    study = placet.folder / "study"
    arguments = (*SWEEP, "--seeds", "1..4000", "--jobs", "2", "--to", "study")
    with Process(*arguments, folder=placet.folder) as process:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if study.exists() and sum(p.stat().st_size for p in study.glob("results/*")) > 2000:
                break
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        outcome = process.end()
    assert outcome.code == 130
    assert "finished runs are kept in study" in outcome.err
    assert "Traceback" not in outcome.err
    assert 0 < len(Results.load(study)) < 4000
