"""Turning points: continuations repeat the run, find the tick of a coin's toss, and blame it."""

import asyncio
import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from placet import Orchestrator, OrchestratorConfig
from placet.cli.app import run_command
from placet.history.fork import ForkOptions, fork
from placet.history.position import Position
from placet.history.reader import fold
from placet.kernel import Kind
from placet.kernel.state.tree import WorldState
from placet.lab import turning_point
from placet.lab.turning.continuation import Continuation, other_seeds, run_source, states_at
from placet.scenarios.resume import find_run
from placet.scenarios.ticks import tick_ns_of
from placet.stores.url import open_event_log
from placet.sweeps.errors import LabError
from tests.lab.coin import TOSS, Coin, Put, all_heads, any_heads, never

if TYPE_CHECKING:
    from placet.lab.turning.search import Cost
from tests.lab.runs import log_of, run_coin
from tests.scenarios.actors import by_actors

SEEDS = 12


@pytest.fixture(scope="module")
def coin(tmp_path_factory):
    return run_coin(tmp_path_factory.mktemp("coin"))


# continuations


def test_a_continuation_with_the_seed_of_the_run_ends_as_the_run_did(coin):
    log = log_of(coin)
    run, completed = run_source(log)
    expected = fold(log).state.digest().hex()
    states = list(states_at(log, range(completed), tick_ns_of(run.parsed)))
    assert [state.tick for state in states] == list(range(8))
    for state in states:
        world = Continuation(run, state)
        world.run(completed)
        assert world.kernel.digest() == expected, f"from tick {state.tick}"


def test_a_continuation_with_another_seed_ends_as_a_resumed_fork_with_that_seed(coin, tmp_path):
    log = log_of(coin)
    run, completed = run_source(log)
    (state,) = states_at(log, [2], tick_ns_of(run.parsed))
    world = Continuation(run, state, seed=77)
    world.run(completed)
    to = tmp_path / "fork.db"
    forked = fork(log, str(to), ForkOptions(seed=77), at=Position(tick=2))
    recorded = find_run(open_event_log(forked.store))
    assert recorded is not None
    runner = by_actors(recorded.scenario, store=forked.store, is_resumed=True, world=recorded.world)
    report = asyncio.run(runner.run())
    assert world.kernel.digest() == report.digest != fold(log).state.digest().hex()


def test_other_seeds_are_distinct_and_without_the_seed_of_the_run():
    seeds = other_seeds(2**63 - 2, 4)
    assert seeds == [2**63 - 1, 0, 1, 2]


# turning points


def test_the_turning_point_is_the_tick_of_the_toss(coin):
    turn = turning_point(coin, any_heads, every=1, seeds=SEEDS)
    assert (turn.before, turn.tick) == (TOSS, TOSS + 1)
    assert turn.recorded is turn.becomes_likely
    assert {point.share for point in turn.points[TOSS + 1 :]} == {float(turn.becomes_likely)}
    assert all(0 < point.hits < SEEDS for point in turn.points[: TOSS + 1])
    assert f"between tick {TOSS} and tick {TOSS + 1}" in str(turn)


def test_ticks_without_a_batch_are_continued_like_others(tmp_path):
    coin = run_coin(tmp_path, "agents.walker.count=0")
    turn = turning_point(coin, any_heads, every=1, seeds=SEEDS)
    assert [point.tick for point in turn.points] == list(range(8))
    assert (turn.before, turn.tick) == (TOSS, TOSS + 1)


@pytest.mark.slow
@pytest.mark.parametrize("every", [1, 4])
def test_a_compacted_log_is_continued_from_its_remaining_ticks(tmp_path, every):
    coin = run_coin(tmp_path, snapshot_every_seqs=7)
    whole = turning_point(coin, any_heads, every=every, seeds=SEEDS, blame=every == 1)
    assert run_command(["compact", coin, "--keep", "35"]) == 0
    rest = turning_point(coin, any_heads, every=every, seeds=SEEDS, blame=every == 1)
    assert rest.points == tuple(point for point in whole.points if point.tick >= 4)
    assert (rest.tick, rest.blame) == (whole.tick, whole.blame)


def test_a_log_that_was_compacted_to_its_end_has_no_tick_to_continue(tmp_path):
    coin = run_coin(tmp_path, snapshot_every_seqs=1)
    assert run_command(["compact", coin, "--keep", "1"]) == 0
    with pytest.raises(LabError, match="it was compacted, and no tick before its last is left"):
        turning_point(coin, any_heads, seeds=SEEDS)


@pytest.mark.slow
def test_both_sides_of_the_coin_are_turning_points(tmp_path):
    sides = {
        turning_point(
            run_coin(tmp_path, f"seed={seed}"), any_heads, every=1, seeds=SEEDS
        ).becomes_likely
        for seed in (1, 2, 3, 4)
    }
    assert sides == {True, False}


def test_a_notebook_shows_the_points_and_the_answer(coin):
    turn = turning_point(coin, any_heads, every=4, seeds=SEEDS)
    page = turn._repr_html_()
    assert page.count("<tr>") == 1 + len(turn.points)
    assert str(turn) in page


def test_every_tenth_tick_brackets_the_turning_point(coin):
    turn = turning_point(coin, any_heads, every=3, seeds=SEEDS)
    assert [point.tick for point in turn.points] == [0, 3, 6]
    assert (turn.before, turn.tick) == (3, 6)


@pytest.mark.slow
def test_an_interrupt_ends_workers_in_the_middle_of_a_continuation(coin):
    arguments = ["turning-point", coin, "--outcome", "tests.lab.coin:hangs", "--jobs", "2"]
    with subprocess.Popen(
        [sys.executable, "-m", "placet", *arguments], stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert "continuations of" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130


@pytest.mark.slow
def test_worker_processes_find_the_same_points(coin):
    alone = turning_point(coin, any_heads, every=4, seeds=SEEDS)
    together = turning_point(coin, any_heads, every=4, seeds=SEEDS, jobs=2)
    assert together == alone


def test_the_expected_cost_comes_before_it_is_spent(coin):
    costs: list[Cost] = []
    counts: list[int] = []
    turning_point(
        coin,
        any_heads,
        every=4,
        seeds=SEEDS,
        on_cost=lambda cost: costs.append(cost) if not counts else pytest.fail("too late"),
        on_progress=counts.append,
    )
    (cost,) = costs
    assert cost._replace(seconds=0.0) == ("probabilities", 2, 2 * SEEDS, (8 + 4) * SEEDS, 0.0, 1)
    assert cost.seconds > 0
    assert sum(counts) == 2 * SEEDS


def test_a_stopped_run_is_continued_from_its_last_tick_too(tmp_path):
    store = run_coin(tmp_path, stop_at=5)
    turn = turning_point(store, any_heads, every=4, seeds=SEEDS)
    assert turn.recorded is None
    assert [point.tick for point in turn.points] == [0, 4, 5]
    assert turn.tick == 5


# blame


@pytest.fixture(scope="module")
def heads(tmp_path_factory):
    """Return the path of a run of two tossers whose coins show heads."""
    folder = tmp_path_factory.mktemp("heads")
    for seed in range(1, 10):
        store = run_coin(folder, f"seed={seed}", "agents.tosser.count=2")
        if any_heads(WorldState(fold(log_of(store)).state)):
            return store
    raise AssertionError("no toss out of nine shows heads")


def blamed_agents(blame):
    return [
        sorted(agent for batch in cause.batches for agent in batch.agent_ids)
        for cause in blame.causes
    ]


def test_each_batch_that_is_needed_is_a_cause_of_its_own(heads):
    blame = turning_point(heads, all_heads, every=3, seeds=SEEDS, blame=True).blame
    assert blame is not None
    assert blame.tick == TOSS + 1
    assert (blame.after.share, blame.without_all.share) == (1.0, 0.0)
    assert blame.batches == 8
    assert sorted(blamed_agents(blame)) == [["tosser_1"], ["tosser_2"]]
    assert {cause.without.hits for cause in blame.causes} == {0}
    assert blame.causes[0].batches[0].intents == (("Put", {"side": "heads"}),)


@pytest.mark.slow
def test_batches_of_which_each_suffices_are_one_joint_cause(heads):
    blame = turning_point(heads, any_heads, every=3, seeds=SEEDS, blame=True).blame
    assert blame is not None
    assert blamed_agents(blame) == [["tosser_1", "tosser_2"]]


@pytest.mark.slow
def test_a_run_that_tips_without_all_batches_blames_none(tmp_path):
    for seed in range(1, 10):
        store = run_coin(tmp_path, f"seed={seed}", "agents.tosser.count=1")
        turn = turning_point(store, any_heads, every=3, seeds=SEEDS, blame=True)
        if not turn.becomes_likely:  # a tosser that is silent shows no heads either
            assert turn.blame is not None
            assert turn.blame.causes == ()
            assert turn.blame.without_all.hits == 0
            return
    raise AssertionError("no toss out of nine shows tails")


def test_a_tick_decided_differently_by_the_present_rules_blames_none(heads, monkeypatch):
    def put_more(draft, intent):
        draft.put("coin.coins", intent["agent_id"], "side", intent["payload"]["side"])

    monkeypatch.setattr(Coin, "kinds", [Kind("Put", Put, put_more)])
    with pytest.raises(
        LabError, match=r"tick 5 .* is decided differently here than it was recorded"
    ):
        turning_point(heads, any_heads, every=3, seeds=SEEDS, blame=True)


# bad input


@pytest.mark.parametrize(
    ("outcome", "message"),
    [
        ("coin", "names no function; expected module:function"),
        ("tests.lab.nothing:f", "cannot be imported: No module named 'tests.lab.nothing'"),
        ("tests.lab.coin:win", "has no function 'win'; there are put, any_heads, all_heads"),
        ("tests.lab.coin:raises", r"the outcome function raises raised KeyError\('bank'\)"),
        ("tests.lab.coin:exits", r"the outcome function exits raised SystemExit\(3\)"),
        ("tests.lab.coin:a_number", "returned 0.5, expected True or False"),
    ],
)
def test_a_wrong_outcome_function_is_named_before_anything_is_continued(coin, outcome, message):
    with pytest.raises(LabError, match=message):
        turning_point(coin, outcome, seeds=SEEDS, on_cost=lambda cost: pytest.fail("too late"))


def test_a_constant_outcome_has_no_turning_point(coin):
    turn = turning_point(coin, never, every=3, seeds=SEEDS)
    assert turn.tick is None
    assert turn.is_constant
    assert "does not occur in all 36 continuations: no tick decides it" in str(turn)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seeds": 3}, "3 seeds are too few: .* reaches 0.44 only, .*; give at least 4 seeds"),
        ({"seeds": 30, "threshold": 0.9}, "reaches 0.89 only, .* is 0.9; give at least 35 seeds"),
        ({"threshold": 1.0}, "above 0 and below 1, got 1"),
        ({"threshold": float("nan")}, "above 0 and below 1, got nan"),
        ({"threshold": 0.9999999}, "0.9999999 is so near to 1 that more than 1000000 seeds"),
        ({"threshold": 1e-9}, "1e-09 is so near to 0 that more than 1000000 seeds"),
        ({"threshold": 5e-324}, "so near to 0 that more than 1000000 seeds"),
        ({"threshold": 0.99999}, "is 0.99999; give at least 384143 seeds"),
        ({"threshold": 0.1}, "is 0.1; give at least 35 seeds"),
        ({"every": 0}, "at least 1 tick, got 0"),
        ({"every": 2.5}, "at least 1 tick, got 2.5"),
        ({"seeds": 30.5}, "a number of seeds, got 30.5"),
        ({"jobs": 0}, "jobs must be at least 1, got 0"),
    ],
)
def test_wrong_options_are_errors(coin, options, message):
    with pytest.raises(LabError, match=message):
        turning_point(coin, any_heads, **options)


def test_an_outcome_that_another_process_cannot_import_needs_one_job(coin):
    with pytest.raises(LabError, match=r"cannot import the outcome .*; or use jobs=1"):
        turning_point(coin, lambda state: True, every=3, seeds=SEEDS, jobs=2)


def test_a_policy_that_fails_is_named_with_seed_and_tick(tmp_path):
    store = run_coin(tmp_path, "agents.tosser.options={fails=true}")
    with pytest.raises(LabError, match=r"from tick 0 with seed 3: .*a policy that fails in tick 6"):
        turning_point(store, any_heads, every=3, seeds=SEEDS)


def test_a_log_of_no_scenario_cannot_be_continued(tmp_path):
    store = f"sqlite:///{tmp_path}/plain.db"

    async def begin():
        async with Orchestrator(Coin(), OrchestratorConfig(store=store)):
            pass

    asyncio.run(begin())
    with pytest.raises(LabError, match="its first record names no scenario"):
        turning_point(store, any_heads)


def test_a_run_of_a_clock_that_does_not_wait_cannot_be_continued(tmp_path):
    store = run_coin(tmp_path, "clock=next_event")
    with pytest.raises(LabError, match='run the scenario with clock = "stepped"'):
        turning_point(store, any_heads)


def test_a_log_that_is_written_is_refused(tmp_path):
    store = run_coin(tmp_path)
    log = log_of(store)
    log.open()
    try:
        with pytest.raises(LabError, match=r"is written by this process .*: wait until the run"):
            turning_point(store, any_heads)
    finally:
        log.close()


# the command


def test_the_command_prints_points_and_the_tick(coin, capsys):
    code = run_command(
        ["turning-point", coin, "--outcome", "tests.lab.coin:any_heads", "--every", "3"]
    )
    output = capsys.readouterr()
    assert code == 0
    assert "3 ticks x 30 seeds: 90 continuations of 450 ticks in all, about" in output.err
    assert output.out.splitlines()[-1].startswith("tests.lab.coin:any_heads became ")
    assert "between tick 3 and tick 6: from then on P is " in output.out


def test_the_command_prints_json_and_exits_1_without_a_turning_point(coin, capsys):
    command = ["turning-point", coin, "--outcome", "tests.lab.coin:never", "--every", "3"]
    code = run_command([*command, "--seeds", "12", "--json"])
    result = json.loads(capsys.readouterr().out)
    assert code == 1
    assert result["tick"] is None
    assert result["constant"] is True
    assert [point["hits"] for point in result["points"]] == [0, 0, 0]
