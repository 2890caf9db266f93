"""The bundled policies pass the contract of policies; a policy with a planted fault does not."""

import random

import pytest

from placet.plugins.entry_points import POLICIES
from placet.scenarios.policies import BUNDLED, find_policy
from placet.scenarios.scenario import Scenario
from placet.scenarios.simulation import Simulation
from placet.testing.contracts import PolicyContract
from tests.frontends.test_plugin_commands import install


def walk(view, intent):
    x, y, z = view.state["world.agents"][view.agent_id]["position"]
    return [intent("Move", to=[x + 1, y, z])]


class TestFunction(PolicyContract):
    def policy(self):
        return walk


class _Bundled(PolicyContract):
    """A bundled policy, beside the others of its scenario."""

    scenario, cohort_name, name = "town", "", ""

    def policy(self):
        return self.name

    def simulation(self, policy, seed=1):
        # The scenario names its policies; a function stands for one in a `Simulation` of its own.
        scenario = Scenario.load(self.scenario).with_agents(40)
        if isinstance(policy, str):
            return Simulation(scenario, seed=seed, check=True)
        cohorts = {
            name: {"count": cohort.count, "policy": cohort.policy, "area": cohort.area}
            | {"options": dict(cohort.options)}
            for name, cohort in scenario.agents.items()
        }
        cohorts[self.cohort_name]["policy"] = policy
        return Simulation(self.domain(), cohorts, seed=seed, check=True)


class TestTownsfolk(_Bundled):
    cohort_name, name = "folk", "townsfolk"


class TestMerchant(_Bundled):
    cohort_name, name = "merchant", "merchant"


class TestChild(_Bundled):
    cohort_name, name = "child", "child"


class TestCrier(_Bundled):
    cohort_name, name = "crier", "crier"


class TestGrabber(_Bundled):
    scenario, cohort_name, name = "rush", "guest", "grabber"


class TestPlanner(_Bundled):
    scenario, cohort_name, name = "planners", "planner", "planner"


def test_each_bundled_policy_has_its_suite():
    assert {suite.name for suite in _Bundled.__subclasses__()} == set(BUNDLED)


def drawn(view, intent):
    return [intent("Move", to=[random.random(), 0])]


def foreign(view, intent):
    return [{**intent("Move", to=[0, 0]), "agent_id": "sample_1"}]


def unknown_kind(view):
    return [{"kind": "Fly", "payload": {}}]


def writing(view, intent):
    view.state["world.agents"][view.agent_id]["inventory"].append("lamp")
    return []


class Shared:
    """A policy whose agents share a count."""

    count = 0

    def __init__(self, member, scenario, intent):
        self._intent = intent

    def propose(self, view):
        Shared.count += 1
        return [self._intent("Speak", text=f"I am number {Shared.count % 7}")]


@pytest.mark.parametrize(
    ("policy", "law"),
    [
        (drawn, "test_runs_of_one_seed_have_one_digest"),
        (foreign, "test_no_batch_is_malformed_or_of_another_agent"),
        (unknown_kind, "test_no_batch_is_malformed_or_of_another_agent"),
        (writing, "test_views_are_only_read"),
        (Shared, "test_proposals_do_not_depend_on_the_order_of_agents"),
    ],
)
def test_a_planted_fault_breaks_its_law(policy, law):
    class Suite(PolicyContract):
        def policy(self):
            return policy

    with pytest.raises((AssertionError, ValueError, LookupError)):
        getattr(Suite(), law)()


def test_a_policy_of_another_distribution_is_found_by_its_name(tmp_path, monkeypatch):
    install(tmp_path, f"[{POLICIES}]\nwalker = {__name__}:walk\ngone = {__name__}:gone\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    agents = {"folk": {"count": 2, "policy": "walker", "area": [[0, 0], [1, 1]]}}
    with Simulation(TestFunction().domain(), agents) as run:
        assert run.run(ticks=1).admitted
    with pytest.raises(LookupError, match="there is no policy 'wlaker'; did you mean 'walker'"):
        find_policy("wlaker")
    with pytest.raises(LookupError, match="there is no policy 'chidl'; did you mean 'child'"):
        find_policy("chidl")
    with pytest.raises(LookupError, match=r"policy 'gone': .* has no callable 'gone'"):
        find_policy("gone")
