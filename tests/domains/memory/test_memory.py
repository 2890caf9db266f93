"""Facts of agents: by key, the last writer wins, and scopes limit visibility."""

import pytest

from placet.agents.proposal.view_json import facts_in, plain_view
from placet.domains.memory import FACTS, KEYS, Memory
from placet.kernel import Kernel
from placet.runtime.orchestrator import Orchestrator
from placet.schemas.codec import to_json
from placet.schemas.identity import Ref
from tests.domains.world_driver import WorldDriver

FACT = "memory.remember"


@pytest.fixture
def stage():
    return WorldDriver(Memory())


def remembered(stage, entity):
    return stage.kernel.state.get(FACTS, {}).get(entity)


def test_the_last_writer_wins_and_its_seq_is_shown(stage):
    first = stage.propose("ann", FACT, key="town.mill", value={"open": True})
    assert remembered(stage, "project/town.mill")["seq"] == first.seq
    last = stage.propose("bob", FACT, key="town.mill", value=[1, "two", None], context_seq=0)
    assert dict(remembered(stage, "project/town.mill")) == {
        "key": "town.mill",
        "value": (1, "two", None),
        "seq": last.seq,
        "scope": "project",
    }


def test_a_forgotten_fact_is_removed_and_an_unknown_key_suggests_the_nearest(stage):
    stage.propose("ann", FACT, key="mill", value=1)
    near = stage.propose("bob", "memory.forget", key="mil")
    assert near.codes == ("memory.key_unknown",)
    assert near.refusals[0].suggestions == ("mill",)
    assert stage.propose("bob", "memory.forget", key="mill").admitted
    assert remembered(stage, "project/mill") is None
    assert stage.propose("bob", "memory.forget", key="mill").codes == ("memory.key_unknown",)


def test_each_agent_has_a_private_scope(stage):
    for agent in ("ann", "bob"):
        assert stage.propose(agent, FACT, key="plan", value=agent, scope="principal").admitted
    assert stage.propose("ann", FACT, key="plan", value="ours").admitted
    assert remembered(stage, "principal/ann/plan")["value"] == "ann"
    assert remembered(stage, "principal/bob/plan")["value"] == "bob"
    assert remembered(stage, "project/plan")["value"] == "ours"
    stage.propose("ann", "memory.forget", key="plan", scope="principal")
    assert remembered(stage, "principal/ann/plan") is None
    assert remembered(stage, "principal/bob/plan") is not None


def test_private_facts_and_their_removal_are_visible_to_their_agent_only(stage):
    stage.propose("ann", FACT, key="plan", value=1, scope="principal")
    stage.propose("ann", FACT, key="plan", value=1)
    domain, tree = Memory(), stage.kernel.tree
    own, shared = Ref(FACTS, "principal/ann/plan"), Ref(FACTS, "project/plan")
    assert [domain.may_see(tree, agent, own) for agent in ("ann", "bob")] == [True, False]
    assert [domain.may_see(tree, agent, shared) for agent in ("ann", "bob")] == [True, True]
    stage.propose("ann", "memory.forget", key="plan", scope="principal")
    assert [domain.may_see(tree, agent, own) for agent in ("ann", "bob")] == [True, False]
    assert not domain.may_see(tree, "ann", Ref(KEYS, "principal/ann"))
    assert not domain.may_see(tree, "bob", Ref(FACTS))


def test_an_agent_named_like_anothers_scope_sees_nothing_of_it():
    names = ("ann", "ann/x", "project")
    stage = WorldDriver(Memory(), agents=names)
    for name in names:
        assert stage.propose(name, FACT, key="plan", value=name, scope="principal").admitted
    assert stage.propose("ann", FACT, key="plan", value="ours").admitted
    domain, tree = Memory(), stage.kernel.tree
    for name in names:
        seen = [one for one in tree.ids(FACTS) if domain.may_see(tree, name, Ref(FACTS, one))]
        assert seen == [f"principal/{name}/plan", "project/plan"]


def test_private_facts_are_removed_with_their_agent(stage):
    stage.propose("ann", FACT, key="plan", value=1, scope="principal")
    stage.propose("ann", FACT, key="mill", value=1)
    stage.kernel.change_agent("ann", "removed")
    stage.kernel.register_agent("ann")
    assert list(stage.kernel.state[FACTS]) == ["project/mill"]
    assert list(stage.kernel.state[KEYS]) == ["project"]


def test_the_facts_of_a_scope_are_bounded_independently_of_others():
    stage = WorldDriver(Memory(facts_max=2))
    for key in ("a", "b"):
        assert stage.propose("ann", FACT, key=key, value=1).admitted
    full = stage.propose("bob", FACT, key="c", value=1)
    assert full.codes == ("memory.memory_full",)
    assert full.refusals[0].details["facts_max"] == 2
    assert stage.propose("bob", FACT, key="b", value=2).admitted
    assert stage.propose("bob", FACT, key="c", value=1, scope="principal").admitted
    assert stage.propose("ann", "memory.forget", key="a").admitted
    assert stage.propose("bob", FACT, key="c", value=1).admitted


@pytest.mark.parametrize(("letters", "passes"), [(1_022, True), (1_023, False)])
def test_a_value_has_at_most_1024_bytes_as_json(stage, letters, passes):
    verdict = stage.propose("ann", FACT, key="a", value="x" * letters)
    assert len(to_json("x" * letters)) == letters + 2
    assert verdict.admitted is passes
    assert verdict.codes == (() if passes else ("memory.value_too_large",))


def test_the_size_of_a_value_is_counted_in_bytes(stage):
    assert stage.propose("ann", FACT, key="a", value="é" * 600).codes == ("memory.value_too_large",)


@pytest.mark.parametrize("key", ["", "A", "1a", "a-b", "a/b", "a b", "a" * 65, "é", "a\n"])
def test_a_key_is_a_lower_case_name(stage, key):
    assert stage.propose("ann", FACT, key=key, value=1).codes == ("payload_invalid",)


@pytest.mark.parametrize(
    "payload", [{"key": "a"}, {"key": "a", "value": 1, "confirmed": True}, {"value": 1}]
)
def test_a_payload_with_missing_or_unknown_fields_is_refused(stage, payload):
    assert not stage.propose("ann", FACT, **payload).admitted


def test_remembering_is_never_stale(stage):
    stage.propose("bob", FACT, key="mill", value=1)
    assert stage.propose("ann", FACT, key="mill", value=2, context_seq=0).admitted


@pytest.mark.parametrize("bound", [0, -1, True, 1.5, "64"])
def test_an_invalid_bound_is_refused(bound):
    with pytest.raises(ValueError, match="facts_max must be an int"):
        Memory(facts_max=bound)
    with pytest.raises(ValueError, match="value_bytes_max must be an int"):
        Memory(value_bytes_max=bound)


def test_settings_recreate_the_domain():
    domain = Memory(facts_max=3, value_bytes_max=99)
    assert Memory(**domain.settings()).settings() == domain.settings()
    assert Kernel(domain).registry.settings["memory"] == {"facts_max": 3, "value_bytes_max": 99}


async def test_the_agent_context_lists_facts_oldest_first():
    async with Orchestrator(Memory()) as world:
        ann, bob = [await world.register_agent(name) for name in ("ann", "bob")]
        await ann.submit([ann.intent(FACT, key="z", value="first", scope="principal")])
        await bob.submit([bob.intent(FACT, key="a", value="second")])
        facts = facts_in(plain_view(await ann.refresh_view()))
        assert [(fact["key"], fact["value"], fact["scope"]) for fact in facts] == [
            ("z", "first", "principal"),
            ("a", "second", "project"),
        ]
        assert [fact["key"] for fact in facts_in(plain_view(await bob.refresh_view()))] == ["a"]
