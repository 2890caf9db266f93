"""The condition of a scenario that ends a run before its last tick."""

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from placet import Simulation
from placet.cli.app import run_command
from placet.domains.world import World
from placet.lab import run_scenarios
from placet.scenarios import load
from placet.scenarios.engine import run_scenario
from placet.scenarios.scenario import Scenario, as_text, from_text
from placet.scenarios.thinking import Workers
from placet.scenarios.values import AgentCohort, ScenarioError
from tests.scenarios.actors import by_actors

EXAMPLES = Path(__file__).parents[2] / "examples"
HERE = "tests.scenarios.test_ending"


def one_has_moved_far(state: Any) -> bool:
    return any(agent["position"][0] >= 4 for agent in state["world.agents"].values())


def is_true(state: Any) -> bool:
    return True


def raises(state: Any) -> bool:
    raise ZeroDivisionError("no agents")


def answers_one(state: Any) -> int:
    return 1


def walk(view, intent):
    x, y, z = view.state["world.agents"][view.agent_id]["position"]
    return [intent("Move", to=[x + 1, y, z])]


def walkers(until: str | None = f"{HERE}:one_has_moved_far") -> Scenario:
    folk = AgentCohort(count=3, policy=f"{HERE}:walk", area=((0, 0), (0, 0)))
    return Scenario(name="walkers", ticks=20, agents={"folk": folk}, until=until)


def test_a_run_ends_after_the_first_tick_at_which_the_condition_is_true():
    whole, short = run_scenario(walkers(None)), run_scenario(walkers())
    assert (whole.ticks, whole.has_ended, whole.is_stopped) == (20, False, False)
    assert (short.ticks, short.has_ended, short.is_stopped) == (4, True, False)
    assert short.digest == run_scenario(replace(walkers(None), ticks=4)).digest


def test_every_engine_ends_at_the_same_tick():
    expected = run_scenario(walkers())
    acted = asyncio.run(by_actors(walkers()).run())
    with Simulation(walkers()) as simulation:
        report = simulation.run()
        assert simulation.run(5).ticks == report.ticks  # it has ended
    on_workers = run_scenario(walkers(), workers=Workers(1))
    for found in (acted, report, on_workers):
        assert (found.ticks, found.digest) == (4, expected.digest)
        assert (found.has_ended, found.is_stopped) == (True, False)


def test_a_run_that_was_stopped_ends_when_it_is_resumed_at_the_tick_of_one_that_was_not(tmp_path):
    store = f"sqlite:///{tmp_path}/a.db"
    begun: list[int] = []
    stopped = run_scenario(
        walkers(), store=store, on_tick=begun.append, is_stopped=lambda: len(begun) == 2
    )
    assert (stopped.ticks, stopped.is_stopped, stopped.has_ended) == (2, True, False)
    resumed = run_scenario(walkers(), store=store, is_resumed=True)
    assert (resumed.ticks, resumed.has_ended) == (4, True)
    assert resumed.digest == run_scenario(walkers()).digest
    again = run_scenario(walkers(), store=store, is_resumed=True)
    assert (again.ticks, again.has_ended, again.submitted) == (4, True, 0)


def test_the_condition_is_asked_after_a_tick_and_not_before_the_first():
    assert run_scenario(walkers(f"{HERE}:is_true")).ticks == 1


@pytest.mark.parametrize(
    ("until", "problem"),
    [
        ("nowhere:f", r"until: the module of 'nowhere:f' cannot be imported: No module named"),
        (f"{HERE}:is_tru", r"until: .* has no function 'is_tru'; did you mean 'is_true'"),
        ("town", "until: 'town' names no function; expected module:function"),
        (f"{HERE}:raises", r"until: .*raises raised ZeroDivisionError: no agents \(test_ending.py"),
        (f"{HERE}:answers_one", "until: .*answers_one must return True or False, got 1"),
    ],
)
def test_a_condition_that_cannot_be_asked_is_an_error_of_its_key(until, problem):
    with pytest.raises(ScenarioError, match=problem):
        run_scenario(walkers(until))
    with pytest.raises(ScenarioError, match=problem):
        asyncio.run(by_actors(walkers(until)).run())


def test_a_clock_that_does_not_wait_takes_no_condition():
    with pytest.raises(ScenarioError, match=r'until: a run ends at a tick, .*clock = "stepped"'):
        load("town", overrides=["clock=realtime", f"until={HERE}:is_true"])


def test_a_scenario_without_a_condition_is_written_as_before():
    assert '"until"' not in as_text(walkers(None))
    assert from_text("", as_text(walkers())) == walkers()


def test_a_sweep_ends_its_runs_and_judges_their_last_state(tmp_path):
    results = run_scenarios(
        walkers(), seeds=[1, 2], to=tmp_path / "study", outcome=f"{HERE}:one_has_moved_far"
    )
    assert results.column("ended_at") == [4, 4]
    assert results.column("one_has_moved_far") == [True, True]
    assert set(results.column("status")) == {"done"}


def test_the_command_names_the_condition(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(EXAMPLES)
    store = str(tmp_path / "m.db")
    command = ["run", "./wolf_sheep.toml", "--set", "until=wolf_sheep:is_extinct"]
    assert run_command([*command, "--store", store]) == 0
    out = capsys.readouterr().out
    assert "ended by wolf_sheep:is_extinct after tick" in out
    assert "of 60" in out
    assert "Resume it" not in out


# until= of a Simulation


def walking(until: Any = None, **options: Any) -> Simulation:
    agents = {"folk": {"count": 3, "policy": walk, "area": ((0, 0), (0, 0))}}
    return Simulation(World(), agents, until=until, **options)


@pytest.mark.parametrize(
    "until",
    [
        one_has_moved_far,
        f"{HERE}:one_has_moved_far",
        lambda state: one_has_moved_far(state) is True,
        partial(one_has_moved_far),
    ],
)
def test_a_simulation_ends_by_a_function_of_the_state_or_by_its_name(until):
    whole, short = walking(), walking(until)
    assert (whole.run(20).ticks, short.run(20).ticks) == (20, 4)
    assert short.report.has_ended
    assert short.report.as_dict()["has_ended"]
    assert list(short.ticks(5)) == []
    assert short.digest() == walking().run(4).digest


def test_a_simulation_that_is_continued_or_thinks_on_workers_ends_at_the_same_tick(tmp_path):
    store = f"sqlite:///{tmp_path}/a.db"
    with walking(one_has_moved_far, store=store) as simulation:
        assert list(simulation.ticks(2)) == [1, 2]
    with walking(one_has_moved_far, store=store) as simulation:
        assert simulation.run(20).ticks == 4
    with walking(store=store) as simulation:  # the condition is no part of the log
        assert simulation.run(6).ticks == 6
    with walking(partial(one_has_moved_far), workers=1) as simulation:
        assert list(simulation.ticks(20)) == [1, 2, 3, 4]


def test_a_simulation_of_a_scenario_takes_a_condition_that_is_found_again(tmp_path):
    store = f"sqlite:///{tmp_path}/a.db"
    with Simulation(walkers(None), until=one_has_moved_far, store=store) as simulation:
        assert simulation.run().ticks == 4
    assert run_scenario(walkers(), store=store, is_resumed=True).ticks == 4
    with pytest.raises(ScenarioError, match=r"until: .*<lambda> is not found by its name"):
        Simulation(walkers(None), until=lambda state: True)


@pytest.mark.parametrize(
    ("until", "problem"),
    [
        (5, "until: expected a function of the state, or 'module:function', got 5"),
        ("one", "until: 'one' names no function"),
        ("nowhere:f", "until: the module of 'nowhere:f' cannot be imported"),
    ],
)
def test_a_condition_that_is_none_is_an_error_of_the_call(until, problem):
    with pytest.raises(ScenarioError, match=problem):
        walking(until)


def test_a_condition_that_fails_is_an_error_of_the_run():
    with pytest.raises(ScenarioError, match=r"until: .*answers_one must return True or False"):
        walking(answers_one).run(3)
