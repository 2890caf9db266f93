"""`Simulation`: a world of agents that a program runs tick by tick, without an event loop."""

import asyncio
import pickle
from dataclasses import replace
from typing import Any

import pytest

from placet import AgentError, ClosedError, IntentError, Simulation, StoreError
from placet.domains.world import World
from placet.history.reader import check_integrity, fold
from placet.kernel import Domain, Kind
from placet.scenarios import ScenarioError, load
from placet.scenarios.scenario_agent import PolicyError
from placet.stores.url import open_event_log
from tests.golden.post import Post
from tests.scenarios import actors


def walk(view, intent):
    x, y, _ = view.state["world.agents"][view.agent_id]["position"]
    return [intent("Move", to=[x + 1, y])]


def walkers(count: int = 3, **options: Any) -> Simulation:
    return Simulation(World(bounds=[[0, 0], [9, 9]]), {"folk": (count, walk)}, **options)


def position(simulation: Simulation, agent_id: str) -> Any:
    return simulation.state["world.agents"][agent_id]["position"]


def test_agents_act_once_in_each_tick():
    simulation = walkers(seed=1)
    report = simulation.run(ticks=4)
    assert simulation.agents == ["folk_1", "folk_2", "folk_3"]
    assert position(simulation, "folk_2") == (4.0, 0.0, 0.0)
    assert (report.ticks, report.submitted, report.admitted) == (4, 12, 12)
    assert report.digest == simulation.digest() == simulation.kernel.digest()
    assert simulation.verdicts["folk_3"].admitted


def test_refusals_are_counted_by_code():
    report = walkers().run(ticks=12)
    assert report.refusals == {"domain/world.out_of_bounds": 9}
    assert "9 refused; " in repr(report)
    assert "refused 9 times: domain/world.out_of_bounds" in repr(report)
    assert report.digest in repr(report)


def test_further_runs_continue_and_earlier_reports_stay():
    simulation = walkers()
    first = simulation.run(ticks=2)
    second = simulation.run(ticks=3)
    assert (first.ticks, second.ticks, simulation.tick) == (2, 5, 5)
    assert (first.submitted, second.submitted) == (6, 15)
    assert [*simulation.ticks(2)] == [6, 7]
    verdicts = simulation.step()
    assert list(verdicts) == simulation.agents
    assert simulation.tick == 8
    assert simulation.run(ticks=1).ticks == 9


@pytest.mark.parametrize("name", ["town", "rush"])
def test_bundled_scenario_has_the_digest_of_its_run_by_actors(name):
    scenario = load(name, overrides=["ticks=20"]).with_agents(60)
    by_actors = asyncio.run(actors.by_actors(scenario).run())
    by_kernel = Simulation(scenario).run()
    assert by_kernel.refusals == by_actors.refusals != {}
    assert by_kernel.examples == by_actors.examples
    assert by_kernel.fairness.as_dict(60) == by_actors.fairness.as_dict(60)
    for field in ("digest", "seq", "ticks", "sim_time", "submitted", "admitted", "batches"):
        assert getattr(by_kernel, field) == getattr(by_actors, field), field
    assert Simulation(scenario, seed=7).run().digest != by_kernel.digest


def test_killed_simulation_continues_in_its_store(tmp_path):
    store = f"sqlite:///{tmp_path}/walk.db?synchronous=off"
    whole = walkers(5, seed=3).run(ticks=7)
    walkers(5, seed=3, store=store).close()
    for last in (1, 3):
        with walkers(5, seed=3, store=store) as simulation:
            for tick in simulation.ticks(7):
                if tick == last:
                    break
    with walkers(5, seed=3, store=store) as simulation:
        report = simulation.run(ticks=7)
    assert (report.resumed_at, report.ticks) == (3, 7)
    assert report.digest == whole.digest
    assert check_integrity(open_event_log(f"{tmp_path}/walk.db")).is_ok
    assert fold(open_event_log(f"{tmp_path}/walk.db")).state.digest().hex() == whole.digest


def test_two_simulations_cannot_write_one_store(tmp_path):
    store = f"sqlite:///{tmp_path}/walk.db"
    with walkers(store=store), pytest.raises(StoreError, match="this process"):
        walkers(store=store)
    walkers(store=store).close()


def test_closed_simulation_is_read_and_not_run(tmp_path):
    simulation = walkers(store=f"sqlite:///{tmp_path}/walk.db")
    simulation.run(ticks=1)
    simulation.close()
    assert position(simulation, "folk_1") == (1.0, 0.0, 0.0)
    with pytest.raises(ClosedError):
        simulation.run(ticks=1)


# Forms of a policy


class Walker:
    def __init__(self, member, scenario, intent):
        self.intent, self.to = intent, member.attributes["position"]

    def propose(self, view):
        return [self.intent("Move", to=[self.to[0] + 1, self.to[1]])]


def test_policy_is_a_function_a_class_or_a_name():
    simulation = Simulation(
        World(),
        {
            "bare": (1, lambda view: [{"kind": "Move", "payload": {"to": [view.sim_time, 1]}}]),
            "made": {"count": 2, "policy": Walker, "area": [[1, 1], [2, 2]]},
            "named": (1, "child"),
            "single": (1, lambda view, intent: intent("Speak", text=view.agent_id)),
            "idle": (1, lambda view: ()),
        },
    )
    report = simulation.run(ticks=2)
    assert (report.submitted, report.admitted) == (10, 10)
    assert position(simulation, "bare_1") == (1.0, 1.0, 0.0)
    assert 2 <= position(simulation, "made_2")[0] <= 3
    assert simulation.state["world.speech"]["single_1"]["said"]["text"] == "single_1"


def test_payload_is_a_mapping_or_keywords():
    def move(view, intent):
        return [intent("Move", {"to": [1, 2]}), intent("Speak", {"text": "a"}, channel="public")]

    simulation = Simulation(World(), {"folk": (1, move)})
    assert simulation.run(ticks=1).admitted == 2


def test_batch_for_another_agent_is_refused():
    def impostor(view, intent):
        return [{**intent("Move", to=[5, 5]), "agent_id": "victim_1"}]

    def broken(view, intent):
        return [{**intent("Move", to=[5, 5]), "agent_id": 3}]

    agents: dict[str, Any] = {"victim": (1, walk), "thief": (1, impostor), "fool": (1, broken)}
    simulation = Simulation(World(), agents)
    verdicts = simulation.step()
    assert verdicts["victim_1"].admitted
    assert verdicts["thief_1"].codes == ("agent_not_yours",)
    assert verdicts["fool_1"].codes == ("field_invalid",)
    assert position(simulation, "victim_1") == (1.0, 0.0, 0.0)


def test_store_of_another_scenario_is_not_continued(tmp_path):
    store = f"sqlite:///{tmp_path}/town.db?synchronous=off"
    scenario = load("town", overrides=["ticks=2"]).with_agents(6)
    digest = Simulation(scenario, store=store).run().digest
    assert Simulation(scenario, store=store).run().digest == digest
    for other in (scenario.with_agents(7), replace(scenario, ticks=3)):
        with pytest.raises(ScenarioError, match="holds a run of another scenario"):
            Simulation(other, store=store)
    with pytest.raises(StoreError, match="with seed 1, it is opened as"):
        walkers(store=store, name="town", seed=2)


def test_simulation_is_not_pickled_and_its_scenario_is():
    with pytest.raises(TypeError, match="pickle its scenario"):
        pickle.dumps(walkers())
    scenario = load("town")
    assert pickle.loads(pickle.dumps(scenario)) == scenario


# Mistakes


def test_rule_that_raises_is_reported_once_and_counted(capfd):
    def crack(draft, intent):
        raise LookupError("the bell is broken")

    def ring(view, intent):
        return [intent("Interact", target_id="bell", interaction_type="crack")]

    world = World(objects={"bell": {"position": [0, 0]}}, interactions={"crack": crack})
    report = Simulation(world, {"folk": (4, ring)}, on_rule_error="refuse").run(ticks=3)
    assert report.rule_errors == 12
    assert report.refusals == {"domain/rule_error": 12}
    assert capfd.readouterr().err.count("LookupError: the bell") == 1


def test_failing_policy_is_reported_with_agent_tick_line_and_count():
    agents: dict[str, Any] = {"calm": (2, walk), "folk": (4, lambda v, i: 1 / 0)}
    simulation = Simulation(World(), agents)
    with pytest.raises(PolicyError) as caught:
        simulation.run(ticks=3)
    message = str(caught.value)
    assert "agents.folk.policy: raised ZeroDivisionError: division by zero in tick 1" in message
    assert "folk_1 (test_simulation.py, line" in message
    assert message.endswith("in this tick the policies of 3 more agents failed too")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert (simulation.tick, simulation.kernel.sim_time) == (0, 0.0)


def test_tick_of_a_failed_policy_is_run_again():
    faults = [True]

    def once(view, intent):
        if view.agent_id == "folk_2" and faults.pop():
            raise LookupError("no plan")
        return walk(view, intent)

    simulation = Simulation(World(), {"folk": (2, once)})
    with pytest.raises(PolicyError, match="LookupError: no plan in tick 1"):
        simulation.step()
    faults.append(False)
    assert all(verdict.admitted for verdict in simulation.step().values())
    assert simulation.digest() == walkers(2).run(ticks=1).digest


async def in_vain(view):
    return []


class Vain:
    async def propose(self, view):
        return []


class Bare:
    def propose(self, view):
        return []


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (None, "returned None \\(return a list of intents, \\[\\] for none\\)"),
        (7, "returned 7"),
        ("Move", "returned 'Move'"),
    ],
)
def test_policy_that_returns_no_list_of_intents_is_named(answer, problem):
    simulation = Simulation(World(), {"folk": (1, lambda view: answer)})
    with pytest.raises(PolicyError, match=f"agents.folk.policy: {problem} .*tick 1.* folk_1"):
        simulation.step()


def test_awaitable_of_a_policy_is_named():
    agents: dict[str, Any] = {"folk": (1, lambda view: Vain().propose(view))}
    simulation = Simulation(World(), agents)
    with pytest.raises(PolicyError, match="returned an awaitable"):
        simulation.step()


@pytest.mark.parametrize(
    ("agents", "message"),
    [
        ({}, "there are no agents"),
        ({"folk": (0, walk)}, "there are no agents"),
        ({"folk": (-1, walk)}, "agents.folk.count: .*greater than or equal to 0"),
        ([("folk", 3, walk)], "agents: expected such as agents="),
        ({"folk": 3}, r"agents.folk: expected \(count, policy\)"),
        ({"folk": (3, "chid")}, "no policy 'chid'; did you mean 'child'"),
        ({"folk": (3, 5)}, "a policy is a name, a function or a class, got 5"),
        ({"folk": (3, in_vain)}, "policy in_vain is async"),
        ({"folk": (3, Vain())}, "policy Vain is async"),
        ({"folk": (3, Bare)}, "policy Bare takes 0 arguments"),
        ({"folk": (3, lambda a, b, c, d: [])}, "takes 4 arguments"),
        ({"folk": {"cuont": 3, "policy": walk}}, "agents.folk.cuont: .*did you mean 'count'"),
        ({"folk": {"count": 3}}, "agents.folk.policy: is missing"),
        ({"folk": {"count": 1, "policy": walk, "area": [[2, 2], [1, 1]]}}, "two corners"),
        ({"folk": {"count": 1, "policy": walk, "attributes": {"team": 3}}}, "folk_1 cannot be"),
    ],
)
def test_invalid_agents_are_named(agents, message):
    with pytest.raises(ScenarioError, match=message):
        Simulation(World(), agents)


@pytest.mark.parametrize("domain", [World, "world", None])
def test_invalid_domain_is_named(domain):
    with pytest.raises(ScenarioError, match=r"domain: expected a domain such as World\(\)"):
        Simulation(domain, {"folk": (1, walk)})


@pytest.mark.parametrize("ticks", [-1, 1.5, True, None])
def test_invalid_number_of_ticks_is_refused(ticks):
    simulation = walkers()
    with pytest.raises(ValueError, match="ticks"):
        simulation.run(ticks=ticks)
    assert simulation.tick == 0


def test_unknown_kind_and_unknown_agent_are_named():
    simulation = Simulation(World(), {"folk": (1, lambda view, intent: [intent("Mvoe", to=[1])])})
    (verdict,) = simulation.step().values()
    assert verdict.codes == ("kind_unknown",)
    assert "Move" in verdict.refusals[0].message
    with pytest.raises(AgentError, match="did you mean 'folk_1'"):
        simulation.view("folk_11")


def test_checked_intents_raise_at_the_line_of_the_mistake():
    def bad(view, intent):
        return [intent("Move", to=["here", 0])]

    def odd(view, intent):
        return [intent("Mvoe", to=[1, 0])]

    for policy, problem in ((bad, "payload of Move/to/0"), (odd, "did you mean Move")):
        agents: dict[str, Any] = {"folk": (1, policy)}
        with pytest.raises(PolicyError, match=r"test_simulation\.py, line") as caught:
            Simulation(World(), agents, check=True).step()
        assert isinstance(caught.value.__cause__, IntentError)
        assert problem in str(caught.value)
    assert Simulation(World(), {"folk": (1, walk)}, check=True).run(ticks=2).admitted == 2


def test_run_that_needs_actors_is_refused():
    with pytest.raises(ScenarioError, match="needs an event loop: clock 'realtime'"):
        Simulation(load("rush", overrides=["clock=realtime"]))
    with pytest.raises(ScenarioError, match=r"kind 'Send' .* emits effects"):
        Simulation(Post(), {"folk": (1, lambda view: [])})


def test_agents_of_a_scenario_are_not_given_twice():
    with pytest.raises(ScenarioError, match="agents: a scenario has its own"):
        Simulation(load("town"), {"folk": (1, walk)})


def test_rule_error_that_is_raised_undoes_its_tick(tmp_path):
    def ring(draft, intent):
        if intent["payload"].get("with") == "hammer":
            raise LookupError("the bell is broken")
        draft.put("tower.bells", "bell", "by", draft.agent_id)

    class Tower(Domain):
        name, version, kinds = "tower", "1", (Kind("Ring", dict[str, str], ring),)

        def on_open(self, draft):
            draft.create("tower.bells", "bell")

    hammering = []

    def pull(view, intent):
        return [intent("Ring", {"with": "hammer"} if view.agent_id in hammering else {})]

    def tower(**options):
        return Simulation(Tower(), {"folk": (4, pull)}, **options)

    store = f"sqlite:///{tmp_path}/bells.db"
    with tower(store=store) as simulation:
        simulation.run(ticks=2)
        before = simulation.kernel.world_digest(), simulation.kernel.record_count
        hammering.append("folk_3")
        with pytest.raises(LookupError, match="the bell is broken"):
            simulation.step()
        assert (simulation.tick, simulation.report.ticks) == (2, 2)
        assert (simulation.kernel.world_digest(), simulation.kernel.record_count) == before
        hammering.clear()
        simulation.step()
        digest = simulation.kernel.world_digest()
    with tower(store=store) as simulation:
        assert (simulation.tick, simulation.kernel.world_digest()) == (3, digest)
    simulation = tower()
    simulation.run(ticks=3)
    assert simulation.kernel.world_digest() == digest


@pytest.mark.parametrize("begun", [0, 3])
def test_ticks_beyond_the_end_of_simulated_time_are_refused_before_the_first(begun):
    year_s = 365.25 * 86_400
    simulation = Simulation(World(), agents={"folk": (1, lambda _: [])}, tick_s=year_s)
    simulation.run(ticks=begun)
    with pytest.raises(ValueError, match=rf"room for {146 - begun} ticks .* tick_s=1 for a year"):
        simulation.run(ticks=147 - begun)
    assert simulation.tick == begun
    assert simulation.run(ticks=146 - begun).ticks == 146
