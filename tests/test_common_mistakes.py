"""Typical mistakes of a first program, and the sentence that each is answered with."""

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from placet import Domain, Kind, Limits, Log, Orchestrator, OrchestratorConfig, Simulation
from placet.domains.world import World
from placet.kernel import Kernel, KernelConfig, refuse
from placet.scenarios import Scenario

CLASS: Any = World
"""A class where an object is expected; without a type, as in a program that no checker reads."""


class Buy(TypedDict):
    count: int


class Model(BaseModel):
    count: int


class Plain:
    count: int


def buy(draft, intent):
    return None


async def buy_later(draft, intent):
    return None


LATER: Any = buy_later


def shop(rule=buy, payload: Any = Buy, **attributes):
    made = {"name": "shop", "version": "1", "kinds": [Kind("Buy", payload, rule)], **attributes}
    return type("Shop", (Domain,), made)()


def decided(rule, payload: Any = Buy):
    """Return the text of the fault of a rule, for the operator."""
    kernel = Kernel(shop(rule, payload))
    kernel.register_agent("alice")
    (refusal,) = kernel.decide(kernel.intent("Buy", agent="alice", count=1)).refusals
    raise RuntimeError(refusal.details["message"])


def reasons(kind, **payload):
    kernel = Kernel(shop())
    kernel.register_agent("alice")
    verdict = kernel.decide(kernel.intent(kind, agent=payload.pop("agent", "alice"), **payload))
    raise RuntimeError(verdict.refusals[0].reason)


def in_a_world(act, domain: Any = None, config: Any = None):
    async def main():
        async with Orchestrator(World() if domain is None else domain, config) as world:
            return await act(world)

    return asyncio.run(main())


async def nothing(world):
    return None


async def of_no_mapping(world):
    alice = await world.register_agent("alice", position=[0, 0])
    alice.intent("Move", [1, 0])


async def never_opened():
    await Orchestrator(World()).register_agent("alice", position=[0, 0])


def raises_a_refusal(draft, intent):
    raise refuse("full", "it is full")  # type: ignore[misc]  # the mistake


def run(policy, ticks=1):
    Simulation(World(), agents={"folk": (1, policy)}).run(ticks=ticks)


def writes_into_the_view(view):
    view.state["world.agents"][view.agent_id]["position"] = [1, 1]
    return []


async def waits(view):
    return []


MISTAKES = {
    # worlds and configurations
    "class of a domain": (lambda: Kernel(CLASS), r"got <class .*World'>; write World\(\)"),
    "class of a configuration": (
        lambda: in_a_world(nothing, config=OrchestratorConfig),
        r"config must be of class OrchestratorConfig, got .*; write OrchestratorConfig\(\)",
    ),
    "mapping as configuration": (
        lambda: in_a_world(nothing, config={"seed": 1}),
        r"config must be of class OrchestratorConfig, got \{'seed': 1\}",
    ),
    "configuration of another": (
        lambda: Kernel(World(), OrchestratorConfig()),  # type: ignore[arg-type]  # the mistake
        r"config must be of class KernelConfig, got OrchestratorConfig\(",
    ),
    "mapping as limits": (
        lambda: KernelConfig(limits={"agents_max": 5}),  # type: ignore[arg-type]  # the mistake
        r"limits must be of class Limits, got \{'agents_max': 5\}",
    ),
    "limit of zero": (lambda: Limits(agents_max=0), "limit 'agents_max' must be a positive int"),
    "quota as a number": (
        lambda: KernelConfig(quotas={"Buy": 5}),  # type: ignore[dict-item]  # the mistake
        r"a quota is \{'rate': per second, 'burst': count\}, got 5",
    ),
    "quota without burst": (
        lambda: KernelConfig(quotas={"Buy": {"rate": 1}}),
        r"a quota is \{'rate': per second, 'burst': count\}, got \{'rate': 1\}",
    ),
    "quotas as a list": (
        lambda: KernelConfig(quotas=[("Buy", 1)]),  # type: ignore[arg-type]  # the mistake
        r"quotas must be a mapping such as \{'Speak': .*\}, got \[\('Buy', 1\)\]",
    ),
    "seed as a float": (
        lambda: KernelConfig(seed=1.0),  # type: ignore[arg-type]  # the mistake
        "seed must be an int in 0..2\\*\\*64-1, got 1.0",
    ),
    "unknown store": (
        lambda: in_a_world(nothing, config=OrchestratorConfig(store="sqllite:///town.db")),
        "expected memory://, sqlite:///relative.db, .*; there is no store 'sqllite'",
    ),
    "two slashes": (
        lambda: in_a_world(nothing, config=OrchestratorConfig(store="sqlite://town.db")),
        "did you mean sqlite:///town.db?",
    ),
    "missing folder": (
        lambda: in_a_world(nothing, config=OrchestratorConfig(store="sqlite:////nowhere/a/t.db")),
        "there is no directory /nowhere/a; make it first",
    ),
    "world that is not open": (lambda: asyncio.run(never_opened()), "use `async with Orchestrator"),
    "missing log": (lambda: Log("town.db"), "there is no file .*town.db; check the path, or make"),
    "unknown scenario": (lambda: Scenario.load("twon"), "did you mean 'town'?"),
    # domains and kinds
    "kind name": (lambda: Kind("buy lamp", Buy, buy), "'buy lamp' must be at most 64 characters"),
    "async rule": (
        lambda: Kind("Buy", Buy, LATER),
        "that is not async, because nothing awaits",
    ),
    "swapped payload and rule": (
        lambda: Kind("Buy", buy, CLASS),
        r"the rule of kind 'Buy' must be a function of \(draft, intent\), got <class .*World'>",
    ),
    "number as payload": (
        lambda: Kernel(shop(payload=int)),
        "must be a TypedDict or a pydantic model, got <class 'int'>",
    ),
    "plain class as payload": (
        lambda: Kernel(shop(payload=Plain)),
        "must be a TypedDict or a pydantic model, got <class .*Plain'>$",
    ),
    "when_stale": (
        lambda: Kind("Buy", Buy, buy, when_stale="rejct"),  # type: ignore[arg-type]  # the mistake
        "the when_stale of kind 'Buy' must be one of reject, revalidate, got 'rejct'",
    ),
    "risk": (
        lambda: Kind("Buy", Buy, buy, risk="hgih"),  # type: ignore[arg-type]  # the mistake
        "the risk of kind 'Buy' must be one of read, low, medium, high, got 'hgih'",
    ),
    "no kinds": (
        lambda: Kernel(shop(kinds=[])),
        "needs at least one domain with at least one kind",
    ),
    "kind twice": (
        lambda: Kernel(shop(kinds=[Kind("Buy", Buy, buy)] * 2)),
        "domain 'shop' has two kinds 'Buy'",
    ),
    "kind of two domains": (
        lambda: Kernel([shop(), shop(name="bank")]),
        "kind 'Buy' of 'bank' is already a kind of 'shop'",
    ),
    "domain twice": (lambda: Kernel([shop(), shop()]), "two domains are called 'shop'"),
    # rules
    "rule that returns true": (
        lambda: decided(lambda draft, intent: True),
        "return None, or refuse",
    ),
    "rule that returns a text": (
        lambda: decided(lambda draft, intent: "no"),
        "return None, or ref",
    ),
    "raised refusal": (lambda: decided(raises_a_refusal), "a refusal is a value: return it"),
    "intent by attribute": (
        lambda: decided(lambda draft, intent: intent.payload),
        r"no attribute 'payload'; it is a key: write \['payload'\]",
    ),
    "payload by attribute": (
        lambda: decided(lambda draft, intent: intent["payload"].count, Model),
        r"no attribute 'count'; it is a key: write \['count'\]",
    ),
    "draft by subscript": (
        lambda: decided(lambda draft, intent: draft["shop.shelf"]),
        r"a draft has no \['shop.shelf'\]: a rule reads by get.*and writes by put, create",
    ),
    "state by subscript": (
        lambda: decided(lambda draft, intent: draft.state["shop.shelf"]),
        r"a state has no \['shop.shelf'\]: a rule reads by get.*and writes by put, create",
    ),
    "put without an entity": (
        lambda: decided(lambda draft, intent: draft.put("shop.shelf", "lamp", "count", 1)),
        "there is no entity shop.shelf/lamp; create it before you put a field",
    ),
    "set as a value": (
        lambda: decided(lambda draft, intent: draft.create("shop.shelf", "lamp", {"n": {1}})),
        "a state value must be plain JSON, got set",
    ),
    # agents and intents
    "unregistered agent": (
        lambda: reasons("Buy", agent="bob", count=1),
        "agent 'bob' is not registered; register it before it proposes",
    ),
    "unknown kind": (lambda: reasons("Byu", count=1), "'Byu' is not registered; did you mean Buy"),
    "unknown field": (lambda: reasons("Buy", cuont=1), "payload of Buy/count: field required"),
    "text for a number": (lambda: reasons("Buy", count="one"), "valid integer, got 'one'"),
    "payload as a list": (
        lambda: in_a_world(of_no_mapping),
        r"the payload of Move must be keywords or a mapping, .*got \[1, 0\]",
    ),
    "unknown attribute": (
        lambda: in_a_world(lambda world: world.register_agent("alice", positon=[0, 0])),
        "not placed by 'positon', but by position, team, inventory",
    ),
    "permissions as a text": (
        lambda: Kernel(shop()).register_agent("alice", permissions="Buy"),
        "permissions must be a set of kinds or None, got 'Buy'",
    ),
    "step of a real-time world": (
        lambda: in_a_world(lambda world: world.step(1.0)),
        "only a stepped world is stepped; set clock='stepped'",
    ),
    # policies
    "policy that returns None": (
        lambda: run(lambda view: None),
        r"returned None \(return a list of intents, \[\] for none\) in tick 1",
    ),
    "async policy": (lambda: run(waits), "is async, and nothing awaits it here: write a plain"),
    "policy with four arguments": (
        lambda: run(lambda a, b, c, d: []),
        r"takes 4 arguments; expected a function of \(view\) or \(view, intent\)",
    ),
    "missing collection": (
        lambda: run(lambda view: view.state["agents"]),
        "there is no visible collection 'agents'; did you mean 'world.agents'",
    ),
    "write into a view": (lambda: run(writes_into_the_view), "values of a state are immutable"),
    "ticks as a float": (
        lambda: run(lambda view: [], ticks=1.5),
        "ticks must be an int of at least 0, got 1.5",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_answered_with_a_sentence(mistake, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make, text = MISTAKES[mistake]
    with pytest.raises(Exception, match=text) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_one_domain_object_may_serve_two_worlds():
    shared = World()
    first, second = Kernel(shared), Kernel(shared)
    first.register_agent("alice", position=[0, 0])
    assert second.state == {}
    assert list(first.state) == ["world.agents"]


def test_the_log_of_another_domain_says_what_to_do(tmp_path):
    config = OrchestratorConfig(store=f"sqlite:///{tmp_path / 'a.db'}")
    in_a_world(nothing, config=config)
    with pytest.raises(
        Exception, match=r"\['shop'\]; open it with those of the log, or name another"
    ):
        in_a_world(nothing, shop(), config)
