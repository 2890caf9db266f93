"""The noninterference law over all built-in domains and two of the tests' own, faults planted."""

import re
import sys
from typing import Any

import pytest

from placet.actors.observation import observer as observer_module
from placet.actors.observation.observer import Observer
from placet.kernel.gate import agent as agent_stage
from placet.kernel.gate import conditions, staleness
from placet.kernel.log import explain_stages
from placet.kernel.plugin.registry import Registry
from placet.kernel.visibility.distance import WithinDistance
from placet.schemas.condition import value_at
from placet.schemas.view import Observation
from placet.testing.noninterference_property import noninterference_breach
from placet.testing.paired_runs import PairedRun, parts_of
from placet.testing.trace import TraceRunner
from tests.levels import examples
from tests.noninterference.own_domains import BREACHES, Bids, FrankAboutRooms
from tests.noninterference.scenes import SCENES

pytestmark = pytest.mark.slow

SEEDS = range(examples(7))
"""Pairs of runs of each scene; `benchmarks/soak_noninterference.py` runs more."""

SEARCHED = range(40)
"""Pairs in which a planted fault is seen."""


def breaches(scene, factory=None, seeds=SEARCHED):
    """Yield what the law says of the pairs of a scene."""
    factory = factory or scene.factory
    for seed in seeds:
        trace = scene.trace(seed)
        found = noninterference_breach(TraceRunner(factory), trace, factory)
        if found is not None:
            yield found


@pytest.mark.parametrize("name", SCENES)
def test_hidden_steps_alter_no_answer(name):
    assert next(breaches(SCENES[name], seeds=SEEDS), None) is None


@pytest.mark.parametrize("domain", BREACHES, ids=[domain.__name__ for domain in BREACHES])
def test_a_domain_that_tells_of_hidden_state_is_found(domain):
    scene = SCENES["bids" if issubclass(domain, Bids) else "rooms"]
    found = next(breaches(scene, domain), None)
    assert found is not None
    assert re.search(BREACHES[domain], found), found


def test_a_kind_that_declares_what_its_rule_discloses_is_not_held_to_it():
    assert next(breaches(SCENES["rooms"], FrankAboutRooms, range(10)), None) is None


def as_seen_by_all(monkeypatch, module, function):
    """Plant in one function of the kernel that it takes everything for visible."""
    may_see, code = Registry.may_see, getattr(module, function).__code__

    def planted(registry, state, agent_id, ref):
        caller: Any = sys._getframe(1)
        is_there = code in {caller.f_code, caller.f_back.f_code}  # also in a comprehension
        return is_there or may_see(registry, state, agent_id, ref)

    monkeypatch.setattr(Registry, "may_see", planted)


def stale_for_hidden_changes(monkeypatch):
    as_seen_by_all(monkeypatch, staleness, "_footprints")


def conditions_on_hidden_values(monkeypatch):
    def planted(condition, agent_id, registry, state):
        collection, entity, *steps = condition["path"]
        return value_at(state.entity(collection, entity), steps)

    monkeypatch.setattr(conditions, "found_by", planted)


def explained_with_hidden_changes(monkeypatch):
    as_seen_by_all(monkeypatch, explain_stages, "_reads")


def deleted_agents_are_visible(monkeypatch):
    may_see = WithinDistance.may_see

    def planted(policy, state, agent_id, ref):
        is_gone = ref.entity is not None and not state.exists(ref.collection, ref.entity)
        return is_gone or may_see(policy, state, agent_id, ref)

    monkeypatch.setattr(WithinDistance, "may_see", planted)


def foreign_agents_are_known(monkeypatch):
    message = agent_stage._message

    def planted(code, agent, *names):
        return f"{message(code, agent, *names)} ({'known' if agent else 'unknown'})"

    monkeypatch.setattr(agent_stage, "_message", planted)


def an_observation_without_a_change(monkeypatch):
    observe = Observer._observe

    def planted(observer):
        is_marked = not observer.dirty_set.is_empty
        observation = observe(observer)
        if observation is None and is_marked:
            return Observation(observer.view_seq, 0.0, observer.agent_id, "delta", ())
        return observation

    monkeypatch.setattr(Observer, "_observe", planted)


def changes_in_the_order_of_marks(monkeypatch):
    monkeypatch.setattr(observer_module, "sorted", list, raising=False)


PLANTED = [
    (stale_for_hidden_changes, "rooms", "is stale_context: rooms.boxes/"),
    (conditions_on_hidden_values, "world, near", "condition_failed"),
    (explained_with_hidden_changes, "rooms", "the explanation of "),
    (deleted_agents_are_visible, "world, near", "is (context_too_old|stale_context): "),
    (foreign_agents_are_known, "rooms", r"is agent_not_yours: .* \(known\)"),
    (an_observation_without_a_change, "rooms", "its observation is "),
    (changes_in_the_order_of_marks, "world, near with hidden fields", "its observation is "),
]


@pytest.mark.parametrize(("plant", "name", "seen"), PLANTED, ids=[p.__name__ for p, *_ in PLANTED])
def test_a_fault_planted_in_the_core_is_found(monkeypatch, plant, name, seen):
    plant(monkeypatch)
    found = next(breaches(SCENES[name]), None)
    assert found is not None
    assert re.search(seen, found), found


@pytest.mark.parametrize("name", SCENES)
def test_the_worlds_of_a_pair_differ(name):
    """A law that compares equal worlds cannot fail: the pairs of each scene have hidden steps."""
    scene = SCENES[name]
    differences = 0
    for seed in SEEDS:
        trace = scene.trace(seed)
        pair = PairedRun(TraceRunner(scene.factory), scene.factory, trace)
        for step in parts_of(trace):
            pair.run(step)
            differences += bool(pair.differences)
    assert differences > len(SEEDS)
