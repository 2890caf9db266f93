"""Comparing two runs: the agents that differ, from when on, and the differences that follow."""

import json

import pytest

from placet.cli.app import run_command
from placet.history.fork import ForkOptions, fork
from placet.history.position import Position
from placet.lab import Scenario, compare, run_scenarios
from placet.schemas.errors import StoreError
from placet.stores.url import open_event_log
from tests.lab.coin import TOML, TOSS
from tests.lab.runs import log_of, run_coin


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Return two runs that differ in one toss, and one that equals the first."""
    folder = tmp_path_factory.mktemp("runs")
    heads = run_coin(folder, "agents.tosser.options={side='heads'}")
    tails = run_coin(folder, "agents.tosser.options={side='tails'}")
    again = run_coin(folder, "agents.tosser.options={side='heads'}")
    return heads, tails, again


def test_the_agent_that_chose_differently_is_named_with_its_tick(runs):
    heads, tails, _ = runs
    comparison = compare(heads, tails)
    (agent,) = comparison.agents
    assert (agent.agent_id, agent.tick, agent.sim_time) == ("tosser_1", TOSS, TOSS + 1.0)
    assert (agent.chose, agent.decided) == (1, 0)
    assert agent.first is not None
    assert agent.second is not None
    assert (agent.first.payload, agent.second.payload) == ({"side": "heads"}, {"side": "tails"})
    assert [row.as_dict() for row in comparison.ticks] == [
        {"tick": TOSS, "agents": 1, "agents_so_far": 1, "chose": 1, "decided": 0}
    ]
    (state,) = comparison.state
    assert state == ("coin.coins", 1, "tosser_1/side", "heads", "tails")


def test_equal_runs_have_no_differences(runs):
    heads, _, again = runs
    comparison = compare(heads, again)
    assert comparison.is_equal
    assert comparison.tables() == {"agents": [], "ticks": [], "kinds": [], "state": []}


def test_a_verdict_that_differs_is_no_choice_of_the_agent(tmp_path):
    free = run_coin(tmp_path)
    strict = run_coin(tmp_path, "settings.refused='walk 2'")
    comparison = compare(free, strict)
    assert {agent.agent_id for agent in comparison.agents} == {f"walker_{n}" for n in range(1, 7)}
    assert {(agent.chose, agent.decided) for agent in comparison.agents} == {(0, 1)}
    (kind,) = comparison.kinds
    assert kind.refused == (0, 6)


def test_a_notebook_shows_tables_with_every_text_escaped(runs, tmp_path):
    heads, _, again = runs
    evil = run_coin(tmp_path, "agents.tosser.options={side='<b>'}")
    page = compare(heads, evil)._repr_html_()
    assert "<td>tosser_1</td>" in page
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert repr(compare(heads, again)).startswith("<Comparison: equal in all ")


def test_a_run_and_its_fork_part_at_the_fork(runs, tmp_path):
    heads, _, _ = runs
    parent = log_of(heads)
    forked = fork(parent, str(tmp_path / "fork.db"), ForkOptions(seed=9), at=Position(tick=3))
    comparison = compare(heads, open_event_log(forked.store))
    assert comparison.parting.record == forked.record
    assert (comparison.ends, comparison.parted_at) == ((8, 3), 3)
    assert comparison.agents == ()  # the fork was not continued


def test_a_compacted_log_is_compared_as_the_whole_one(tmp_path):
    heads = run_coin(tmp_path, "agents.tosser.options={side='heads'}", snapshot_every_seqs=7)
    to = str(tmp_path / "fork.db")
    forked = fork(log_of(heads), to, ForkOptions(seed=9), at=Position(tick=5)).store
    whole = compare(heads, open_event_log(forked))
    assert (whole.ends, whole.parted_at) == ((8, 5), 5)
    assert run_command(["compact", heads, "--keep", "35"]) == 0
    assert log_of(heads).start().record > 0
    assert compare(heads, open_event_log(forked)).tables() == whole.tables()
    assert compare(open_event_log(forked), heads).ticks == whole.ticks


def test_compacted_logs_of_other_settings_are_an_error(runs, tmp_path):
    heads = run_coin(tmp_path, "agents.tosser.options={side='heads'}", snapshot_every_seqs=7)
    assert run_command(["compact", heads, "--keep", "35"]) == 0
    with pytest.raises(StoreError, match="one of them was compacted up to there; compare a copy"):
        compare(heads, runs[1])


def test_a_log_that_does_not_exist_is_an_error(runs, tmp_path):
    with pytest.raises(StoreError, match=r"no\.db"):
        compare(runs[0], str(tmp_path / "no.db"))


def test_the_command_prints_tables_and_exits_1_for_a_difference(runs, capsys):
    heads, tails, again = runs
    assert run_command(["compare", heads, again]) == 0
    assert "are equal in all" in capsys.readouterr().out
    assert run_command(["compare", heads, tails]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert 'tosser_1  4          Put {"side":"heads"}  Put {"side":"tails"}  1      0' in [
        line.strip() for line in lines
    ]
    assert run_command(["compare", heads, tails, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["agents"][0]["agent"] == "tosser_1"


# ends and settings


def test_ticks_after_the_end_of_the_shorter_run_are_not_compared(runs, tmp_path, capsys):
    heads, _, _ = runs
    store = f"sqlite:///{tmp_path}/fork.db"
    fork(log_of(heads), f"{tmp_path}/fork.db", ForkOptions(seed=99), at=Position(tick=2))
    comparison = compare(heads, store)
    assert comparison.ends == (8, 2)
    assert comparison.parted_at == 2
    assert (comparison.agents, comparison.ticks, comparison.kinds) == ((), (), ())
    assert {row.key: (row.first, row.second) for row in comparison.settings}["seed"][1] == 99
    assert run_command(["compare", str(heads), store]) == 1
    text = " ".join(capsys.readouterr().out.split())
    assert "B ends at tick 2, A at tick 8: ticks after 2 are not compared" in text
    assert "B has no tick after they part: placet run --resume continues it" in text
    assert "Agents that differ" not in text


def test_settings_that_differ_are_named(tmp_path, capsys):
    free = run_coin(tmp_path)
    strict = run_coin(tmp_path, "settings.refused='walk 2'")
    assert compare(free, strict).settings == (("settings.refused", None, "walk 2"),)
    run_command(["compare", str(free), str(strict)])
    assert "Settings that differ" in (out := capsys.readouterr().out)
    assert "settings.refused" in out
    run_command(["log", str(strict)])
    assert 'settings of coin {"refused":"walk 2"' in capsys.readouterr().out


def test_compare_by_an_option_says_over_which_values_of_others_it_pools(tmp_path, capsys):
    (tmp_path / "coin.toml").write_text(TOML)
    scenarios = Scenario.load(tmp_path / "coin.toml").product(refused=["", "walk 2"], ticks=[2, 4])
    run_scenarios(scenarios, seeds=[1, 2], jobs=1, to=tmp_path / "study")
    assert run_command(["compare", str(tmp_path / "study"), "--by", "ticks"]) == 0
    assert "pooled over settings.refused = , walk 2" in capsys.readouterr().out


def test_a_study_of_two_codes_is_compared_within_each_code_by_pair_by(tmp_path, capsys):
    (tmp_path / "coin.toml").write_text(TOML)
    scenarios = list(Scenario.load(tmp_path / "coin.toml").product(ticks=[2, 4]))
    study = tmp_path / "study"
    run_scenarios(scenarios, seeds=[1, 2], jobs=1, to=study)
    manifest = (study / "manifest.json").read_text()
    codes = {code for each in json.loads(manifest)["scenarios"].values() for code in each["code"]}
    for path in (study / "manifest.json", *(study / "results").iterdir()):  # as of earlier code
        for number, code in enumerate(sorted(codes)):
            path.write_text(path.read_text().replace(code, f"{number:08x}"))
    run_scenarios(scenarios, seeds=[1, 2], jobs=1, to=study, anyway=True)
    command = ["compare", str(study), "--by", "ticks"]
    assert run_command(command) == 1
    message = " ".join(capsys.readouterr().err.split())
    assert "several runs with seed = 1. They differ in code: add" in message
    assert "--pair-by code" in message
    assert run_command([*command, "--pair-by", "code", "--json"]) == 0
    assert {row["pairs"] for row in json.loads(capsys.readouterr().out)} == {4}
    assert run_command([*command[:2], str(study), "--pair-by", "code"]) == 2
