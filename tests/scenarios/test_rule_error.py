"""A rule that raises ends a run by default, whose log ends at the tick before; it is no data."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from placet import Simulation
from placet.envs.parallel_env import EnvAdapter, WorldEnv
from placet.errors import DomainError
from placet.history.reader import check_integrity
from placet.kernel import Domain, KernelConfig, Kind
from placet.lab import run_scenarios
from placet.scenarios.engine import RuleError, run_scenario
from placet.scenarios.resume import find_run
from placet.scenarios.scenario import Scenario
from placet.scenarios.values import AgentCohort
from placet.stores.url import open_event_log
from tests.cli.command_line import CommandLine

BELLS = "tower.bells"
BROKEN_AT = 3
is_mended = False


def crack(draft, where):
    """Raise in the tick after the third, at the place that the world's bell names."""
    if draft.get(BELLS, "bell", "cracks") == where and draft.tick == BROKEN_AT and not is_mended:
        raise LookupError("the bell is broken")


def ring(draft, intent):
    if draft.agent_id == "folk_2":
        crack(draft, "rule of Ring")
    draft.put(BELLS, "bell", "rung", draft.get(BELLS, "bell", "rung", 0) + 1)


class Tower(Domain):
    """A domain whose code raises where `cracks` names it."""

    name, version = "tower", "1"

    def __init__(self, cracks="", effects=()):
        self.cracks, self.effects = cracks, tuple(effects)
        self.kinds = (Kind("Ring", dict[str, int], ring, effects=self.effects),)

    def settings(self):
        return {"cracks": self.cracks, "effects": list(self.effects)}

    def on_open(self, draft):
        draft.create(BELLS, "bell", {"cracks": self.cracks})

    def on_tick(self, draft, sim_time):
        draft.put(BELLS, "bell", "time", sim_time)
        crack(draft, "on_tick of tower")

    def on_batch(self, draft):
        crack(draft, "on_batch of tower")


def pull(view, intent):
    return [intent("Ring", {})]


def scenario_of(cracks: str, **options) -> Scenario:
    """Return the scenario of a tower; effects need the actors of a world, and the kernel none."""
    effects = options.pop("effects", ())
    return Scenario(
        name="tower",
        domain=f"{__name__}:Tower",
        ticks=5,
        settings={"cracks": cracks, "effects": list(effects)},
        agents={"folk": AgentCohort(count=3, policy=f"{__name__}:pull")},
        **options,
    )


ENGINES = pytest.mark.parametrize("effects", [(), ("ring",)], ids=["kernel", "actors"])
PLACES = pytest.mark.parametrize("where", ["rule of Ring", "on_tick of tower", "on_batch of tower"])


@ENGINES
@PLACES
def test_the_log_ends_at_the_tick_before_and_the_mended_run_ends_as_ever(
    where, effects, tmp_path, monkeypatch
):
    scenario, store = scenario_of(where, effects=effects), f"sqlite:///{tmp_path}/tower.db"
    with pytest.raises(RuleError) as caught:
        run_scenario(scenario, store=store)
    assert str(caught.value).startswith(
        f"tower: domain: the {where} raised LookupError: the bell is broken in tick 4 (3 s) "
        f"({__file__}:"
    )
    assert caught.value.where == where
    assert isinstance(caught.value.__cause__, LookupError)
    assert check_integrity(open_event_log(store)).is_ok
    run = find_run(open_event_log(store))
    assert run is not None
    assert run.ticks == BROKEN_AT
    monkeypatch.setitem(globals(), "is_mended", True)
    mended = run_scenario(scenario, store=store, is_resumed=True)
    assert mended.digest == run_scenario(scenario).digest


@ENGINES
@PLACES
def test_contained_exceptions_are_counted(where, effects):
    refusing = replace(scenario_of(where, effects=effects), on_rule_error="refuse")
    report = run_scenario(refusing)
    expected = {"rule of Ring": 1, "on_tick of tower": 1, "on_batch of tower": 3}[where]
    assert (report.ticks, report.rule_errors) == (5, expected)
    assert report.as_dict()["rule_errors"] == expected
    assert "rule_errors" not in run_scenario(scenario_of("", effects=effects)).as_dict()


def test_a_sweep_has_a_failed_row_or_a_count():
    rows: list[tuple[str, Any]] = [
        ("rule of Ring", "raise"),
        ("rule of Ring", "refuse"),
        ("", "refuse"),
    ]
    scenarios = [
        replace(scenario_of(cracks), on_rule_error=on_rule_error) for cracks, on_rule_error in rows
    ]
    results = run_scenarios(scenarios, seeds=[1], jobs=1)
    assert results.column("status") == ["failed", "done", "done"]
    assert results.column("rule_errors") == [None, 1, 0]
    assert [row["rule_errors"] for row in results.by_scenario()] == [None, 1, 0]
    error = results.rows[0]["error"]
    assert "the bell is broken in tick 4" in error
    assert f"{Path(__file__).name}:" in error
    assert "rule_errors" not in run_scenarios(scenario_of(""), seeds=[1], jobs=1).columns


def test_the_command_line_ends_with_one_error(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tower.toml").write_text(
        f'domain = "{__name__}:Tower"\nticks = 5\nsettings.cracks = "rule of Ring"\n'
        f'[agents.folk]\ncount = 3\npolicy = "{__name__}:pull"\n'
    )
    placet = CommandLine(capsys, tmp_path)
    code, _, err = placet("run", "./tower.toml")
    assert code == 1
    assert err.count("the bell is broken") == err.count(f"{Path(__file__).name}:") == 1
    assert "Traceback" not in err
    assert placet("run", "./tower.toml", "--set", "on_rule_error=refuse", "--json").code == 0


class Ringing(EnvAdapter):
    """An adapter whose agents ring the bell."""

    def observation_space(self, agent):
        from gymnasium.spaces import Discrete  # an extra

        return Discrete(1_000)

    action_space = observation_space

    def to_intent(self, agent, action, view):
        return {"kind": "Ring", "payload": {}}

    def observe(self, view, agent):
        return view.state[BELLS]["bell"].get("rung", 0)

    def reward(self, before, after, agent):
        return 0.0


def test_a_step_of_an_environment_is_undone_as_a_whole(monkeypatch):
    agents: dict[str, Any] = {"folk_1": {}, "folk_2": {}}
    options: list[dict[str, Any]] = [{}, {"config": KernelConfig(on_rule_error="refuse")}]
    env = WorldEnv(lambda: Tower("rule of Ring"), Ringing(), agents)
    for option in options:
        env = WorldEnv(lambda: Tower("rule of Ring"), Ringing(), agents, **option)
        env.reset(seed=1)
        for _ in range(BROKEN_AT):
            env.step(dict.fromkeys(agents, 0))
        before = env.kernel.snapshot()
        with pytest.raises(LookupError, match="the bell is broken"):
            env.step(dict.fromkeys(agents, 0))
        assert env.kernel.snapshot() == before
    with monkeypatch.context() as mended:
        mended.setitem(globals(), "is_mended", True)
        observations, *_ = env.step(dict.fromkeys(agents, 0))
    assert set(observations.values()) == {2 * (BROKEN_AT + 1)}
    env = WorldEnv(lambda: Tower("rule of Ring"), Ringing(), agents, on_rule_error="refuse")
    env.reset(seed=1)
    infos: dict[str, Any] = {}
    for _ in range(BROKEN_AT + 1):
        *_, infos = env.step(dict.fromkeys(agents, 0))
    assert [info["admitted"] for info in infos.values()] == [True, False]
    assert infos["folk_2"]["code"] == "rule_error"


def test_a_run_is_continued_with_another_answer_to_exceptions(tmp_path):
    store = f"sqlite:///{tmp_path}/tower.db"
    with (
        Simulation(scenario_of("rule of Ring"), store=store) as simulation,
        pytest.raises(LookupError, match="the bell is broken"),
    ):
        simulation.run()
    given = scenario_of("rule of Ring")
    with Simulation(given, store=store, on_rule_error="refuse") as simulation:
        assert (simulation.tick, simulation.run().rule_errors) == (BROKEN_AT, 1)


class Nameless(Domain):
    version, kinds = "1", (Kind("Ring", dict[str, int], ring),)


class Kindless(Domain):
    name, version = "kindless", "1"


@pytest.mark.parametrize("domain", [Nameless, Kindless])
def test_a_domain_that_lacks_an_attribute_is_a_domain_error(domain):
    with pytest.raises(DomainError, match=f"the domain {domain.__name__} has no (name|kinds)"):
        Simulation(domain(), {"folk": (1, pull)})
