"""A run past its timeout is a row, whatever caught the interruption; tests raise the alarm."""

import json
import signal

import pytest

from placet.lab import Results, run_scenarios
from placet.sweeps import half_run
from placet.sweeps.worker import RunTimeout
from tests.sweeps import killing
from tests.sweeps.sweeping import InlineExecutor, short_town

HOUR_S = 3600


def expire() -> None:
    """Do what the clock does when the timeout has passed."""
    signal.raise_signal(signal.SIGALRM)


def raise_timeout(state):
    expire()


def catch_timeout(state):
    """Catch the interruption, as the boundary of a rule does, and go on."""
    try:
        expire()
    except BaseException:  # noqa: BLE001  # what a user may write
        return 1


def replace_timeout(state):
    try:
        expire()
    except BaseException as error:
        raise ValueError("a hook failed") from error


def catch_timeout_twice(state):
    catch_timeout(state)
    assert signal.getitimer(signal.ITIMER_REAL)[1] > 0  # it rings again
    expire()


def timed(outcome, **options) -> Results:
    executor = InlineExecutor()
    return run_scenarios(
        short_town(), seeds=[1], outcome=outcome, executor=executor, timeout_s=HOUR_S, **options
    )


@pytest.mark.parametrize(
    "outcome", [raise_timeout, catch_timeout, replace_timeout, catch_timeout_twice]
)
def test_a_timeout_is_a_row_also_where_it_is_caught(outcome):
    (row,) = timed(outcome)
    assert row["status"] == "timeout"
    assert row["error"] == "the run took longer than 3600 s"
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


@pytest.mark.parametrize(("is_caught", "resumed_at"), [(False, 8), (True, None)])
def test_a_log_in_which_a_timeout_was_caught_is_not_resumed(
    tmp_path, monkeypatch, is_caught, resumed_at
):
    monkeypatch.setattr(half_run, "WORTH_S", 0.0)
    study = tmp_path / "study"
    arguments = {"seeds": [5], "executor": InlineExecutor(), "to": study, "logs": "all"}

    def interrupted(self, counts, advance=half_run.HalfRun.advance):
        advance(self, counts)
        if counts.ticks == 5 and is_caught:
            with pytest.raises(RunTimeout):
                expire()
        if counts.ticks == 8:
            expire()

    with monkeypatch.context() as patch:
        patch.setattr(half_run.HalfRun, "advance", interrupted)
        (row,) = run_scenarios(killing.town(), timeout_s=HOUR_S, **arguments)
    assert row["status"] == "timeout"
    (row,) = run_scenarios(killing.town(), retry=True, **arguments)
    assert row["status"] == "done"
    lines = "".join(path.read_text() for path in (study / "results").iterdir()).splitlines()
    (done,) = [line for line in map(json.loads, lines) if line["status"] == "done"]
    assert done["resumed_at"] == resumed_at
