"""Settings of a scenario, and forks of a run with other settings."""

from math import inf

import pytest

from placet.history.position import Position
from placet.history.reader import check_integrity
from placet.scenarios import Scenario, ScenarioError
from placet.scenarios.engine import run_scenario
from placet.scenarios.fork import fork_run
from placet.scenarios.resume import find_run
from placet.scenarios.settings import changed, settings_of
from placet.stores.reading import log_to_read

INFECT = "populations.people.options.infect"


@pytest.fixture(scope="module")
def sir(tmp_path_factory):
    """The log of a run of 12 ticks."""
    store = tmp_path_factory.mktemp("sir") / "sir.db"
    run_scenario(Scenario.load("sir", overrides=["ticks=12"]), store=str(store))
    return store


def test_settings_have_types_of_their_values_and_a_range_to_twice_the_value():
    found = {one.key: one for one in settings_of(Scenario.load("town"))}
    step, bounds = found["settings.max_step"], found["settings.bounds"]
    assert (step.type, step.low, step.high) == ("number", 0, 8.0)
    assert bounds.type == "other"
    assert found["settings.inventory_max"].type == "integer"
    assert found["agents.folk.options.merchants"].type == "text"
    assert not found["settings.private_reach"].is_stated


@pytest.mark.parametrize(
    ("values", "key", "problem"),
    [
        ({"settings.link": 3}, "settings.link", "no such setting"),
        ({"settings.links": "many"}, "settings.links", "expected a number"),
        ({"settings.links": True}, "settings.links", "expected a number"),
        ({"settings.links": 1.5}, "settings.links", "expected an integer"),
        ({INFECT: inf}, INFECT, "expected a number"),
        ({"settings.links": -5, INFECT: 0.3}, "settings.links", "links is a number of links"),
    ],
)
def test_a_refused_value_names_its_setting(values, key, problem):
    with pytest.raises(ScenarioError) as refused:
        changed(Scenario.load("sir"), values)
    assert refused.value.key == key
    assert problem in refused.value.problem


def test_a_fork_with_the_option_of_a_policy_continues_with_it(sir, tmp_path):
    before = sir.read_bytes()
    to = tmp_path / "fork.db"
    forked = fork_run(log_to_read(str(sir)), str(to), {INFECT: 0.5}, at=Position(tick=4))
    assert forked.ticks == 4
    run = find_run(log_to_read(str(to)))
    assert run is not None
    assert run.scenario.populations["people"].options["infect"] == 0.5
    report = run_scenario(run.scenario, store=str(to), is_resumed=True, world=run.world)
    integrity = check_integrity(log_to_read(str(to)))
    assert integrity.is_ok
    assert integrity.digest == report.digest != check_integrity(log_to_read(str(sir))).digest
    assert sir.read_bytes() == before


def test_a_fork_with_a_setting_of_the_domain_records_its_rules(sir, tmp_path):
    to = tmp_path / "fork.db"
    log = log_to_read(str(sir))
    fork_run(log, str(to), {"settings.outbreak": 9}, world="other", at=Position(tick=4))
    run = find_run(log_to_read(str(to)))
    assert run is not None
    run_scenario(run.scenario, store=str(to), is_resumed=True, world="other")
    assert check_integrity(log_to_read(str(to))).is_ok
    # A fork of the fork has the settings of the fork.
    again = fork_run(
        log_to_read(str(to)), str(tmp_path / "2.db"), {INFECT: 0.2}, at=Position(tick=6)
    )
    assert again.scenario.settings["outbreak"] == 9


def test_a_fork_that_does_not_change_a_setting_ends_as_its_parent(sir, tmp_path):
    to = tmp_path / "fork.db"
    fork_run(log_to_read(str(sir)), str(to), {}, at=Position(tick=4))
    run = find_run(log_to_read(str(to)))
    assert run is not None
    report = run_scenario(run.scenario, store=str(to), is_resumed=True, world=run.world)
    assert report.digest == check_integrity(log_to_read(str(sir))).digest


def test_a_change_of_tables_is_refused_before_a_file_is_made(sir, tmp_path):
    log, to = log_to_read(str(sir)), tmp_path / "fork.db"
    with pytest.raises(ScenarioError, match="run again from the start") as tables:
        fork_run(log, str(to), {"settings.links": 9}, at=Position(tick=4))
    assert tables.value.key == "settings.links"
    with pytest.raises(ScenarioError, match="all 12 ticks are run"):
        fork_run(log, str(to), {INFECT: 0.5})
    assert not to.exists()
