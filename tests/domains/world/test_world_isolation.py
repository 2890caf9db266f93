"""What an agent may not see changes none of its answers: codes, texts, `changed`."""

from typing import Any

import pytest

from placet.domains.world import AGENTS, OBJECTS, World
from placet.kernel.plugin.registry import Registry
from placet.kernel.visibility.distance import WithinDistance
from placet.kernel.visibility.policy import Visibility
from placet.schemas.codec import canonical
from placet.schemas.identity import Ref
from tests.domains.world_driver import WorldDriver

NAMES = ("bob", "vault", "zed", "coin")
OTHERS = ("kim", "chest", "yan", "pill")
FAR = [100, 0]
SIGHT = {"distance": 10}


def polish(draft, intent):
    """A rule that takes the target as it was seen: a later change of the target makes it stale."""
    target_id = intent["payload"]["target_id"]
    collection = OBJECTS if draft.exists(OBJECTS, target_id) else AGENTS
    draft.put(collection, target_id, "polished_by", intent["agent_id"])


def life(names, **settings):
    """Let hidden things happen to agents and objects of these names, out of sight of ann."""
    agent, thing, gone, held = names
    objects = {thing: {"position": FAR}, held: {"position": FAR}, "lamp": {"position": [1, 0]}}
    world = World(objects=objects, observation=SIGHT, interactions={"polish": polish}, **settings)
    stage = WorldDriver(world, agents=("ann", "eve"))
    for name in (agent, gone):
        stage.kernel.register_agent(name, position=FAR)
    for number in range(3):
        assert stage.propose(agent, "Move", to=[100, number]).admitted
        assert stage.interact(agent, "use", thing).admitted
    assert stage.interact(gone, "pickup", held).admitted
    stage.kernel.change_agent(gone, "removed")
    assert stage.interact("eve", "use", "lamp").admitted
    return stage


def answers(stage):
    """Try every intent of ann that names something, at every context, without a trace."""
    stage._numbers = iter(range(10_000))
    payloads: list[dict[str, Any]] = []
    targets = (*NAMES, *OTHERS, "ghost", "lamp", "eve")
    payloads += [
        {"target_id": target, "interaction_type": what}
        for target in targets
        for what in ("examine", "use", "pickup", "drop", "polish")
    ]
    payloads += [
        {"target_id": t, "interaction_type": "give", "data": {"object_id": o}}
        for t in targets
        for o in ("vault", "chest", "lamp")
    ]
    intents = [("Interact", payload) for payload in payloads]
    intents += [
        ("Speak", {"text": "psst", "channel": "private", "target_id": name}) for name in targets
    ]
    told = {}
    for kind, payload in intents:
        for context_seq in range(stage.kernel.seq + 1):
            intent = stage.intent("ann", kind, context_seq=context_seq, **payload)
            intent["req_id"] = "try"
            verdict = stage.kernel.decide({"intents": [intent], "dry_run": True})
            refusals = [refusal.as_dict() for refusal in verdict.refusals]
            told[canonical([kind, payload, context_seq])] = (verdict.admitted, refusals)
    return told


@pytest.mark.parametrize("settings", [{}, {"interaction_range": 5}, {"private_reach": "anywhere"}])
def test_names_that_an_agent_may_not_see_are_answered_as_names_that_nothing_has(settings):
    first, second = (answers(life(names, **settings)) for names in (NAMES, OTHERS))
    assert first == second
    codes = {refusals[0]["code"] for _, refusals in first.values() if refusals}
    assert codes >= {"world.target_unknown", "stale_context"}  # of the lamp, that eve used


@pytest.mark.parametrize("fault", ["hidden changes make stale", "a deleted agent is visible"])
def test_the_comparison_finds_a_planted_fault(monkeypatch, fault):
    if fault == "hidden changes make stale":
        monkeypatch.setattr(Registry, "may_see", lambda *arguments: True)
    else:
        may_see = WithinDistance.may_see

        def planted(policy, state, agent_id, ref):
            is_there = ref.entity is None or state.exists(ref.collection, ref.entity)
            return may_see(policy, state, agent_id, ref) if is_there else True

        monkeypatch.setattr(WithinDistance, "may_see", planted)
    assert answers(life(NAMES)) != answers(life(OTHERS))


def test_visibility_is_asked_of_changed_entities_only(monkeypatch):
    stage = life(NAMES)
    asked = []
    may_see = Registry.may_see

    def counted(registry, state, agent_id, ref):
        asked.append(ref)
        return may_see(registry, state, agent_id, ref)

    monkeypatch.setattr(Registry, "may_see", counted)
    use = {"target_id": "lamp", "interaction_type": "polish"}
    assert stage.propose("ann", "Interact", **use).admitted
    assert asked == []
    assert stage.propose("eve", "Interact", context_seq=1, **use).codes == ("stale_context",)
    assert {ref.entity for ref in asked} <= {"lamp", "eve", "ann"}


@pytest.mark.parametrize(
    ("reach", "codes"), [("sight", ("world.target_unknown",)), ("anywhere", ())]
)
def test_private_messages_to_hidden_and_to_unknown_agents_are_answered_alike(reach, codes):
    stage = life(NAMES, private_reach=reach)
    for name in ("bob", "ghost"):
        message = {"text": "psst", "channel": "private", "target_id": name}
        assert stage.propose("ann", "Speak", **message).codes == codes
    assert stage.propose("ann", "Speak", text="hi", channel="private", target_id="eve").admitted


def test_a_reach_that_is_none_is_refused():
    with pytest.raises(ValueError, match="private_reach must be 'sight' or 'anywhere', got 'far'"):
        World(private_reach="far")
    world = World(private_reach="anywhere")
    assert world.settings() == {"private_reach": "anywhere"}
    assert world.version != World().version


def test_the_author_of_a_change_is_named_to_those_who_may_know_it():
    """The lamp is seen by both; what ann may not see is who used it."""
    lamp = {"lamp": {"position": [0, 0]}}
    world = World(objects=lamp, observation=SIGHT, interactions={"polish": polish})
    stage = WorldDriver(world, agents=("ann", "eve"))
    stage.kernel.register_agent("bob", position=[9, 0])
    seen = stage.kernel.seq
    assert stage.interact("bob", "polish", "lamp").admitted
    use = {"target_id": "lamp", "interaction_type": "polish", "context_seq": seen}
    assert stage.propose("ann", "Interact", **use).refusals[0].changed[0]["by"] == "bob"
    assert stage.propose("bob", "Move", to=[50, 0]).admitted
    change = stage.propose("ann", "Interact", **use).refusals[0].changed[0]
    assert (change["entity"], change["by"]) == ("world.objects/lamp", None)


def test_a_policy_that_shows_everything_knows_every_agent():
    assert Visibility().agent_collection == ""
    registry = WorldDriver().kernel.registry
    assert registry.may_know_agent(WorldDriver().kernel.tree, "ann", "system")


def test_a_refusal_for_range_omits_the_distance_of_a_hidden_position():
    sight = {"hidden_fields": ["position"]}
    world = World(objects={"lamp": {"position": FAR}}, observation=sight, interaction_range=3)
    stage = WorldDriver(world, agents=("ann",))
    for name, place in (("bob", FAR), ("eve", [0, 0])):
        stage.kernel.register_agent(name, position=place, inventory=[f"ring of {name}"])
    assert stage.interact("ann", "examine", "eve").admitted
    for target in ("bob", "ring of bob"):
        refusal = stage.interact("ann", "examine", target).refusals[0]
        assert refusal.message == (
            f"{target!r} is more than 3 away, which is the reach; move nearer first"
        )
        assert refusal.details == {"agent_id": "ann", "kind": "Interact", "range": 3.0}
    assert stage.interact("ann", "examine", "lamp").refusals[0].details["distance"] == 100.0


def test_a_collection_of_which_parts_are_out_of_sight_is_hidden_as_a_whole():
    kernel = life(NAMES).kernel
    assert not kernel.registry.may_see(kernel.tree, "ann", Ref(AGENTS))
