"""`placet runs` lists the runs of a folder as the page does."""

import json

import pytest

from placet.cli.app import run_command
from placet.history.position import Position
from placet.scenarios import Scenario
from placet.scenarios.engine import run_scenario
from placet.scenarios.fork import fork_run
from tests.scenarios.test_ending import HERE, walkers

INFECT = "populations.people.options.infect"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    sir = Scenario.load("sir", overrides=["ticks=4"])
    run_scenario(sir, store=f"sqlite:///{folder}/sir.db")
    fork_run(folder / "sir.db", folder / "hot.db", {INFECT: 0.2}, at=Position(tick=2))
    run_scenario(walkers(), store=f"sqlite:///{folder}/walkers.db")
    return folder


def test_the_table_has_status_and_settings_and_below_it_forks_and_ends(folder, capsys):
    assert run_command(["runs", str(folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:5] == ["run", "status", "scenario", "seed", "ticks"]
    rows = {line.split()[0]: line.split() for line in lines[1:4]}
    assert rows["hot.db"][1:6] == ["stopped", "sir", "1", "2", "of"]
    assert rows["walkers.db"][1:3] == ["ended", "walkers"]
    assert f"hot.db: fork of sir.db at tick 2: {INFECT} 0.2 (there 0.08)" in lines
    assert f"walkers.db: ended by {HERE}:one_has_moved_far" in lines


def test_the_filter_and_the_document_are_those_of_the_page(folder, capsys):
    assert run_command(["runs", str(folder), "parent:sir", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (row,) = found["runs"]
    assert (row["run"], row["lineage"][0]["run"], found["total"]) == ("hot.db", "sir.db", 3)
    assert run_command(["runs", str(folder), "status:failed"]) == 0
    assert "no run meets the filter" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["nowhere"], "nowhere is no folder; expected one with logs"),
        ([".", "staus:failed"], "did you mean 'status'"),
    ],
)
def test_a_path_without_a_folder_and_a_wrong_filter_are_errors(
    arguments, problem, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert run_command(["runs", *arguments]) != 0
    assert problem in capsys.readouterr().err


def test_a_folder_without_logs_says_so(tmp_path, capsys):
    assert run_command(["runs", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("no log is in ")
