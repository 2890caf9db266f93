"""`[portrayal]` of a scenario: parsed, checked where fields are declared, and in no log."""

from dataclasses import replace
from typing import Any

import pytest

from placet.cli.app import run_command
from placet.domains.space import Network
from placet.scenarios import Portrayal, Scenario, ScenarioError
from placet.scenarios.engine import run_scenario
from placet.scenarios.loader import read_table
from placet.scenarios.portrayals import portrayals_of
from placet.scenarios.scenario import as_text, from_values
from placet.scenarios.setup import prepare
from placet.stores.reading import log_to_read

PEOPLE = "sir.people"


def sir(**portrayal):
    short = Scenario.load("sir", overrides=["ticks=3"])
    return replace(short, portrayal={PEOPLE: Portrayal(**portrayal)})


def test_a_file_names_the_field_that_colors_and_its_values():
    (portrayal,) = Scenario.load("sir").portrayal.values()
    assert portrayal == Portrayal(color="state", names=("susceptible", "infectious", "recovered"))


def test_an_unknown_key_is_refused_with_the_nearest():
    raw = {"name": "x", "ticks": 1, "agents": {}, "portrayal": {"a.b": {"colour": "state"}}}
    with pytest.raises(ScenarioError, match="did you mean 'color'"):
        from_values("x", raw)


def test_a_field_that_a_table_lacks_is_refused_with_the_nearest_name():
    with pytest.raises(ScenarioError, match=r"no field 'stat'; did you mean 'state'") as refused:
        prepare(sir(color="stat"), store="memory://")
    assert "portrayal.sir.people.color" in str(refused.value)


@pytest.mark.parametrize("key", ["size", "marker", "label"])
def test_a_mark_by_a_field_of_several_numbers_is_refused(key):
    flock = Scenario.load("flock", overrides=["ticks=1"])
    chosen: Any = {key: "heading"}
    portrayal = {"flock.birds": Portrayal(**chosen)}
    with pytest.raises(ScenarioError, match="expected a field of one") as refused:
        prepare(replace(flock, portrayal=portrayal), store="memory://")
    assert f"portrayal.flock.birds.{key}" in str(refused.value)


def test_the_log_of_a_run_does_not_depend_on_the_portrayal(tmp_path):
    def log_of(name, scenario):
        store = f"sqlite:///{tmp_path / name}"
        run_scenario(scenario, store=store)
        return [data for _, data in log_to_read(store).read()]

    plain = replace(sir(), portrayal={})
    assert as_text(sir(color="state")) == as_text(plain)
    assert log_of("one.db", sir(color="state")) == log_of("other.db", plain)


@pytest.mark.parametrize(
    ("width", "problem"),
    [
        (7, "segregation.cells has 400 cells, which are no rows of 7"),
        (0, "an int of cells above 0, got 0"),
        ("wide", "valid integer"),
    ],
)
def test_a_width_that_is_none_of_the_grid_is_refused(width, problem):
    cells = {"segregation.cells": {"width": width}}
    raw = {**read_table("segregation")[1], "name": "segregation", "portrayal": cells}
    with pytest.raises(ScenarioError, match=problem) as refused:
        prepare(from_values("segregation", raw), store="memory://")
    assert "portrayal.segregation.cells" in str(refused.value)


def test_a_file_may_have_nothing_but_portrayals(tmp_path):
    file = tmp_path / "look.toml"
    file.write_text('[portrayal."race.runners"]\nlabel = "name"\nwidth = 8\n')
    found, _ = portrayals_of(file)
    assert found == {"race.runners": Portrayal(label="name", width=8)}


def test_a_player_refuses_a_file_without_portrayals(tmp_path, capsys):
    (tmp_path / "none.toml").write_text("ticks = 1\n")
    run_scenario(sir(color="state"), store=f"sqlite:///{tmp_path}/sir.db")
    assert run_command(["play", f"{tmp_path}/sir.db", "--portrayal", f"{tmp_path}/none.toml"]) != 0
    assert 'none.toml: portrayal: is missing; add [portrayal."' in capsys.readouterr().err


HERE = "tests.scenarios.test_portrayals"
PAIR = Network(2, [(0, 1)])


@pytest.mark.parametrize(
    ("network", "problem"),
    [
        (f"{HERE}:PAIR", "segregation.cells has 400 rows, and the network 2 nodes"),
        (f"{HERE}:PEOPLE", "expected a Network, got 'sir.people'"),
        (f"{HERE}:PAIRS", "no module:NAME of a network: module .* has no attribute 'PAIRS'"),
        ("no_such_module:PAIR", "no module:NAME of a network: No module named 'no_such_module'"),
        ("PAIR", "no module:NAME of a network"),
        (3, "expected a Network, got 3"),
    ],
)
def test_a_network_that_is_none_of_the_table_is_refused(network, problem):
    segregation = Scenario.load("segregation")
    portrayal = {"segregation.cells": Portrayal(network=network)}
    with pytest.raises(ScenarioError, match=problem) as refused:
        prepare(replace(segregation, portrayal=portrayal), store="memory://")
    assert "portrayal.segregation.cells.network" in str(refused.value)


def test_links_by_a_field_that_has_no_numbers_of_rows_are_refused():
    flock = Scenario.load("flock", overrides=["ticks=1"])
    portrayal = {"flock.birds": Portrayal(links="heading")}
    with pytest.raises(ScenarioError, match="expected the numbers of rows") as refused:
        prepare(replace(flock, portrayal=portrayal), store="memory://")
    assert "portrayal.flock.birds.links" in str(refused.value)


def test_a_file_names_a_network(tmp_path):
    file = tmp_path / "look.toml"
    file.write_text(f'[portrayal."pair.nodes"]\nnetwork = "{HERE}:PAIR"\n')
    found, _ = portrayals_of(file)
    assert found["pair.nodes"].network == PAIR
