"""Continuations of a run with populations: their policies act on from the state of a tick."""

import pytest

from placet.history.reader import fold
from placet.lab.turning.continuation import Continuation, run_source, state_without, states_at
from placet.scenarios.engine import run_scenario
from placet.scenarios.ticks import tick_ns_of
from placet.stores.url import open_event_log
from placet.sweeps.errors import LabError
from tests.scenarios.test_models import small


@pytest.mark.parametrize("name", ["wealth", "shepherd"])
def test_continuation_with_the_seed_of_the_run_ends_as_the_run_did(name, tmp_path):
    store = f"sqlite:///{tmp_path}/run.db"
    report = run_scenario(small(name), store=store)
    log = open_event_log(store)
    run, completed = run_source(log)
    assert fold(log).state.digest().hex() == report.digest
    for state in states_at(log, range(completed), tick_ns_of(run.parsed)):
        world = Continuation(run, state)
        world.run(completed)
        assert world.kernel.digest() == report.digest, f"from tick {state.tick}"
        other = Continuation(run, state, seed=99)
        other.run(completed)
        assert other.kernel.digest() != report.digest


def test_no_batch_is_left_out_of_a_tick_with_column_batches(tmp_path):
    store = f"sqlite:///{tmp_path}/run.db"
    run_scenario(small("shepherd"), store=store)
    log = open_event_log(store)
    run, _ = run_source(log)
    (state,) = states_at(log, [2], tick_ns_of(run.parsed))
    with pytest.raises(LabError, match="a tick with column batches"):
        state_without(run, state, [], [])
