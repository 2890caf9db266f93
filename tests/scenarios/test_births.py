"""Births and deaths in runs: one digest by every engine, from the log, resumed and forked."""

import asyncio
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from typing_extensions import TypedDict

from placet import Log, Simulation
from placet.history.fork import fork
from placet.history.reader import fold
from placet.history.verify_log import verify_log
from placet.kernel import Domain, Kernel, KernelConfig, Kind
from placet.kernel.log.snapshot import world_digest
from placet.lab.turning.continuation import Continuation, RunSource, states_at
from placet.plugins.domains import remake
from placet.scenarios import load
from placet.scenarios.engine import run_scenario
from placet.scenarios.policies import policies_of
from placet.scenarios.population import Population
from placet.scenarios.scenario import Scenario, as_text
from placet.scenarios.values import ScenarioError
from placet.schemas.limits import SECOND_NS, Limits
from placet.stores.url import open_event_log
from tests.scenarios.actors import by_actors

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def meadow(monkeypatch) -> Scenario:
    """A meadow whose last sheep is eaten before its last wolf starves."""
    monkeypatch.chdir(EXAMPLES)
    overrides = [
        "ticks=40",
        "seed=3",
        "settings.speed=3",
        "agents.wolf.count=12",
        "agents.sheep.count=25",
    ]
    return replace(load("./wolf_sheep.toml", overrides=overrides), collect=None)


def whole(store: str) -> tuple[str, str, bytes]:
    log = open_event_log(store)
    past = fold(log)
    return past.state.digest().hex(), world_digest(past.state, past.ledger).hex(), past.journal.prev


def ran(scenario: Scenario, store: str, **options: Any) -> tuple[str, str, bytes]:
    run_scenario(scenario, store=store, **options)
    return whole(store)


def url(tmp_path: Path, name: str) -> str:
    return f"sqlite:///{tmp_path}/{name}.db"


def verified(store: str, scenario: Scenario) -> None:
    found = verify_log(open_event_log(store), lambda rules: remake(rules, (scenario.domain,)))
    assert not found.unverified


def test_a_life_has_one_end_by_every_way(meadow, tmp_path):
    by_kernel = ran(meadow, url(tmp_path, "kernel"))
    actors = url(tmp_path, "actors")
    asyncio.run(by_actors(meadow, store=actors).run())
    assert whole(actors)[:2] == by_kernel[:2]
    verified(url(tmp_path, "kernel"), meadow)
    with Log(url(tmp_path, "kernel")) as log:
        sizes = [len(log.at(tick=t).state["meadow.sheep"]) for t in (1, 10, meadow.ticks)]
        born = [name for name in log.at(tick=10).agents if int(name.rpartition("_")[2]) > 25]
        rows = log.tables()["agents"].to_pandas()
    assert sizes[-1] == 0 < sizes[0]
    assert born
    assert len(rows) > 37  # all who ever lived, with their permissions and removals
    assert set(rows["removed_seq"].notna()) == {True, False} or rows["removed_seq"].notna().all()


def test_a_run_that_is_stopped_after_each_tick_ends_as_if_it_were_not(meadow, tmp_path):
    scenario = replace(meadow, ticks=12)
    whole_run = ran(scenario, url(tmp_path, "whole"))
    store = url(tmp_path, "parts")
    for number in range(12):
        begun: list[int] = []
        run_scenario(
            scenario,
            store=store,
            is_resumed=number > 0,
            on_tick=begun.append,
            is_stopped=lambda begun=begun: bool(begun),  # type: ignore[misc]
        )
    assert whole(store) == whole_run


def test_a_fork_and_a_continuation_go_on_with_those_who_live(meadow, tmp_path):
    scenario = replace(meadow, ticks=14)
    store, forked = url(tmp_path, "parent"), url(tmp_path, "fork")
    ended = ran(scenario, store)
    log = open_event_log(store)
    (state,) = states_at(log, [6], SECOND_NS)
    fork(log, forked, at=fold_seq(log, 6))
    run_scenario(scenario, store=forked, is_resumed=True, world="wolf_sheep")
    assert whole(forked)[0] == ended[0]
    source = RunSource(log.url, as_text(scenario), (scenario.domain,))
    again = Continuation(source, state)
    again.run(14)
    assert again.kernel.digest() == ended[0]


def fold_seq(log: Any, tick: int) -> int:
    with closing(Log(log.url)) as past:
        return past.at(tick=tick).seq


def test_another_clock_asks_those_who_are_born(meadow, tmp_path):
    scenario = replace(meadow, clock="next_event", ticks=12)
    store = url(tmp_path, "next_event")
    report = run_scenario(scenario, store=store)
    assert report.ticks == 12
    verified(store, meadow)
    with Log(store) as log:
        acted = {intent["agent"] for intent in log.intents}
    assert any(int(name.rpartition("_")[2]) > 25 for name in acted)


class Call(TypedDict):
    name: str
    cohort: str | None


def call(draft: Any, intent: Any) -> None:
    draft.register(intent["payload"]["name"], intent["payload"]["cohort"])


class Hall(Domain):
    name, version, kinds = "hall", "1", (Kind("Call", Call, call),)


class Caller:
    """Calls an agent in its first tick, and counts how often it is asked."""

    made: ClassVar[dict[str, int]] = {}

    def __init__(self, member, scenario, intent):
        self.name, self.intent, self.asked = member.agent_id, intent, 0
        Caller.made[self.name] = Caller.made.get(self.name, 0) + 1

    def propose(self, view):
        self.asked += 1
        if self.name == "a_1" and self.asked == 1:
            return [self.intent("Call", name=CALLED[0], cohort=CALLED[1])]
        return [self.intent("Call", name="a_1", cohort=None)]


CALLED: list[Any] = []


@pytest.mark.parametrize(
    ("called", "acts"),
    [
        (["visitor", "b"], True),
        (["b_77", None], True),
        (["b_77", "a"], True),
        (["c_1", None], False),
        (["b_01", None], False),
        (["b_", None], False),
        (["visitor", None], False),
    ],
)
def test_an_agent_acts_by_its_cohort_or_its_name(called, acts):
    CALLED[:] = called
    agents: Any = {"a": (1, Caller), "b": {"count": 0, "policy": Caller, "permissions": ["Call"]}}
    simulation = Simulation(Hall(), agents=agents, seed=1)
    assert called[0] not in simulation.step()
    assert called[0] in simulation.kernel.ledger.agents
    assert (called[0] in simulation.step()) == acts
    assert simulation.agents == (["a_1", called[0]] if acts else ["a_1"])
    permitted = simulation.kernel.ledger.agents[called[0]].permissions
    assert permitted == ({"Call"} if acts and called[1] != "a" else None)


def test_an_unknown_cohort_ends_the_run_and_names_the_nearest():
    CALLED[:] = ["x", "aa"]
    simulation = Simulation(Hall(), agents={"a": (1, Caller)})
    with pytest.raises(ScenarioError, match=r"x was registered under the cohort 'aa'; did you mea"):
        simulation.run(ticks=2)


def test_an_agent_that_is_born_again_gets_a_new_policy():
    CALLED[:] = ["x", "a"]
    Caller.made.clear()
    simulation = Simulation(Hall(), agents={"a": (2, Caller)})
    simulation.step()
    simulation.kernel.change_agent("a_2", "removed")
    assert "a_2" not in simulation.step()
    simulation.kernel.register_agent("a_2")
    assert "a_2" in simulation.step()
    assert Caller.made["a_2"] == 2
    assert Caller.made["a_1"] == 1


class Part(TypedDict):
    part: str


def delete_part(draft: Any, intent: Any) -> None:
    draft.delete(intent["payload"]["part"], intent["agent_id"])


class Beings(Domain):
    name, version, kinds = "beings", "1", (Kind("Lose", Part, delete_part),)
    collections = ("beings.body", "beings.mind")

    def on_register(self, draft, agent_id, attributes):
        for collection in self.collections:
            draft.create(collection, agent_id)


def test_an_agent_acts_as_long_as_one_of_its_own_entities_is_left():
    agents: Any = {"a": (2, lambda _: []), "b": (1, lambda _: [])}
    simulation = Simulation(Beings(), agents=agents)
    population, kernel = simulation._runner.population, simulation.kernel

    def acting() -> list[str]:
        return [agent.agent_id for agent in population.acting(kernel)]

    def lose(agent_id: str, part: str) -> None:
        assert kernel.decide([kernel.intent("Lose", agent=agent_id, part=part)]).admitted

    lose("a_1", "beings.body")
    assert acting() == ["a_1", "a_2", "b_1"]
    lose("a_1", "beings.mind")
    lose("b_1", "beings.mind")
    assert acting() == ["a_2", "b_1"]


def test_a_removed_member_is_not_registered_again_though_its_name_is_forgotten():
    scenario = Simulation(Hall(), agents={"a": (4, Caller)})._scenario
    kernel = Kernel(Hall(), KernelConfig(limits=Limits(removed_agents_max=1)))
    population = Population(scenario, policies_of(scenario.name, {}))
    members = [member.agent_id for member in population.unregistered(kernel.ledger)]
    assert members == ["a_1", "a_2", "a_3", "a_4"]
    for name in members:
        kernel.register_agent(name)
    for name in members[:2]:
        kernel.change_agent(name, "removed")
    assert not kernel.ledger.gone
    left = [member.agent_id for member in population.unregistered(kernel.ledger)]
    assert left == ["a_3", "a_4"]
