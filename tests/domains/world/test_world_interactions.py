"""Agents and things: reach, custody, contention, and the interactions a world adds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.domains.world import Interaction, World
from placet.kernel import conflict, refuse
from placet.schemas.identity import Ref
from tests.domains.world_driver import WorldDriver

OBJECTS: dict[str, dict[str, object]] = {
    "lamp": {"position": [1, 0], "price": 12},
    "well": {"position": [0, 1], "portable": False},
    "far": {"position": [100, 0]},
}


def stage_of(**settings):
    return WorldDriver(World(objects=OBJECTS, **settings))


def test_a_held_object_moves_with_its_holder():
    stage = stage_of(interaction_range=2)
    assert stage.interact("ann", "pickup", "lamp").admitted
    assert stage.agent("ann")["inventory"] == ("lamp",)
    assert stage.thing("lamp") == {
        "position": None,
        "holder": "ann",
        "portable": True,
        "price": 12,
    }
    assert stage.propose("ann", "Move", to=[50, 0]).admitted
    assert stage.interact("bob", "examine", "lamp").codes == ("world.out_of_range",)
    assert stage.interact("ann", "drop", "lamp").admitted
    assert stage.thing("lamp")["position"] == (50.0, 0.0, 0.0)
    assert stage.agent("ann")["inventory"] == ()


@pytest.mark.parametrize(
    ("interaction_type", "target_id", "data", "code"),
    [
        ("examine", "lamp", {}, None),
        ("examine", "bob", {}, None),
        ("examine", "ann", {}, None),
        ("examine", "ghost", {}, "world.target_unknown"),
        ("examine", "far", {}, "world.out_of_range"),
        ("pickup", "far", {}, "world.out_of_range"),
        ("pickup", "bob", {}, "world.target_unsuitable"),
        ("pickup", "well", {}, "world.not_portable"),
        ("pickup", "ring", {}, "world.held"),
        ("pickup", "coin", {}, "world.held"),
        ("drop", "lamp", {}, "world.not_held"),
        ("drop", "ring", {}, "world.not_held"),
        ("drop", "bob", {}, "world.not_held"),
        ("drop", "coin", {}, None),
        ("use", "well", {}, None),
        ("use", "coin", {}, None),
        ("use", "ring", {}, "world.held"),
        ("use", "bob", {}, "world.target_unsuitable"),
        ("give", "bob", {"object_id": "coin"}, None),
        ("give", "bob", {"object_id": "ring"}, "world.not_held"),
        ("give", "bob", {"object_id": "ghost"}, "world.not_held"),
        ("give", "bob", {}, "world.data_invalid"),
        ("give", "bob", {"object_id": 5}, "world.data_invalid"),
        ("give", "ann", {"object_id": "coin"}, "world.target_unsuitable"),
        ("give", "lamp", {"object_id": "coin"}, "world.target_unsuitable"),
        ("dance", "bob", {}, "world.interaction_unknown"),
    ],
)
def test_each_interaction_has_its_result(interaction_type, target_id, data, code):
    world = World(objects=OBJECTS, interaction_range=5)
    stage = WorldDriver(world, ann={"inventory": ["coin"]}, bob={"inventory": ["ring"]})
    before = stage.kernel.digest()
    verdict = stage.interact("ann", interaction_type, target_id, **data)
    assert verdict.codes == (() if code is None else (code,))
    if code is not None:
        assert stage.kernel.digest() == before
    stage.assert_holders_agree()


def test_an_unknown_interaction_names_the_nearest():
    refusal = stage_of().interact("ann", "pikup", "lamp").refusals[0]
    assert refusal.suggestions == ("pickup",)
    assert refusal.at == "/intents/0/payload/interaction_type"


def test_taking_a_held_object_names_its_holder():
    stage = stage_of()
    assert stage.interact("bob", "pickup", "lamp").admitted
    refusal = stage.interact("ann", "pickup", "lamp").refusals[0]
    assert (refusal.code, refusal.details["holder"]) == ("world.held", "bob")


def test_use_counts_uses_and_records_the_last_user():
    stage = stage_of()
    for agent_id in ("ann", "bob"):
        assert stage.interact(agent_id, "use", "well").admitted
    assert (stage.thing("well")["uses"], stage.thing("well")["used_by"]) == (2, "bob")


@pytest.mark.parametrize("uses", ["cutting", None, [1], 2**64 - 1])
def test_an_object_whose_uses_field_cannot_be_counted_is_not_usable(uses):
    stage = WorldDriver(World(objects={"axe": {"position": [0, 0], "uses": uses}}))
    assert stage.interact("ann", "use", "axe").codes == ("world.target_unsuitable",)


def test_a_full_inventory_accepts_no_object():
    objects = {name: {"position": [0, 0]} for name in ("a", "b")}
    stage = WorldDriver(World(objects=objects, inventory_max=1))
    assert stage.interact("ann", "pickup", "a").admitted
    assert stage.interact("ann", "pickup", "b").codes == ("world.inventory_full",)
    assert stage.interact("bob", "pickup", "b").admitted
    verdict = stage.interact("bob", "give", "ann", object_id="b")
    assert verdict.codes == ("world.inventory_full",)
    assert stage.thing("b")["holder"] == "bob"


# contention


def grab(stage, agent_id, object_id="lamp", **options):
    return [
        stage.intent(
            agent_id, "Interact", target_id=object_id, interaction_type="pickup", **options
        )
    ]


def test_one_of_many_competing_agents_wins_and_the_others_learn_its_name():
    agents = [f"a{number}" for number in range(20)]
    stage = WorldDriver(World(objects=OBJECTS), agents=agents)
    verdicts = stage.kernel.decide_group([grab(stage, agent) for agent in agents])
    winners = [agent for agent, verdict in zip(agents, verdicts, strict=True) if verdict.admitted]
    assert [stage.thing("lamp")["holder"]] == winners
    losers = [verdict.refusals[0] for verdict in verdicts if not verdict.admitted]
    assert {refusal.code for refusal in losers} == {"conflict"}
    assert {refusal.details["winner"] for refusal in losers} == set(winners)
    assert {refusal.details["resource"] for refusal in losers} == {"world.objects/lamp"}


def test_a_rolled_back_claim_does_not_block_others():
    stage = stage_of()
    lost = [*grab(stage, "ann", priority=90), *grab(stage, "ann", "ghost", priority=90)]
    won = grab(stage, "bob")
    refused, admitted = stage.kernel.decide_group([lost, won])
    assert refused.codes == ("world.target_unknown",)
    assert admitted.admitted
    stage.assert_holders_agree()


def test_an_object_taken_and_dropped_by_one_batch_is_free_for_the_next_batch():
    stage = stage_of()
    both = [
        *grab(stage, "ann", priority=90),
        stage.intent("ann", "Interact", target_id="lamp", interaction_type="drop", priority=80),
    ]
    verdicts = stage.kernel.decide_group([both, grab(stage, "bob")])
    assert [verdict.admitted for verdict in verdicts] == [True, True]
    late = stage.kernel.decide_group([grab(stage, "eve")])[0]
    assert late.refusals[0].details["holder"] == "bob"


def test_the_winner_of_a_contention_varies():
    winners = set()
    stage = stage_of()
    for _ in range(40):
        stage.kernel.decide_group([grab(stage, "ann"), grab(stage, "bob")])
        winners.add(stage.thing("lamp")["holder"])
        stage.interact(stage.thing("lamp")["holder"], "drop", "lamp")
    assert winners == {"ann", "bob"}


moves = st.tuples(
    st.sampled_from(["ann", "bob", "eve"]),
    st.sampled_from(["pickup", "drop", "use", "give"]),
    st.sampled_from(["x", "y", "z"]),
    st.sampled_from(["ann", "bob"]),
)


@given(st.lists(st.lists(moves, min_size=1, max_size=3), max_size=8))
def test_holder_and_inventory_agree_after_any_proposals(batches):
    objects = {name: {"position": [0, 0]} for name in "xyz"}
    stage = WorldDriver(World(objects=objects, inventory_max=2))
    for batch in batches:
        intents = []
        for agent_id, interaction, object_id, receiver in batch:
            target = receiver if interaction == "give" else object_id
            data = {"data": {"object_id": object_id}}
            intents.append(
                stage.intent(
                    agent_id, "Interact", target_id=target, interaction_type=interaction, **data
                )
            )
        stage.kernel.decide_group([intents])
        stage.assert_holders_agree()
    stage.kernel.change_agent("ann", "removed")
    stage.assert_holders_agree()


# a world's own


def test_a_world_can_add_interactions():
    def ring(draft, intent):
        bell = intent["payload"]["target_id"]
        if draft.get("world.objects", bell, "is_broken", False):
            return refuse("bell_broken", f"{bell} is broken", at="/target_id")
        draft.put("world.objects", bell, "rung_by", intent["agent_id"])
        return None

    objects: dict[str, dict[str, object]] = {
        "bell": {"position": [0, 0]},
        "old bell": {"position": [0, 0], "is_broken": True},
        "far bell": {"position": [9, 0]},
    }
    world = World(objects=objects, interactions={"ring": ring}, interaction_range=1)
    stage = WorldDriver(world)
    assert stage.interact("ann", "ring", "bell").admitted
    assert stage.thing("bell")["rung_by"] == "ann"
    assert stage.interact("ann", "ring", "old bell").codes == ("world.bell_broken",)
    assert stage.interact("ann", "ring", "far bell").codes == ("world.out_of_range",)
    assert stage.interact("ann", "examine", "bell").admitted


def test_a_world_can_replace_an_interaction():
    world = World(objects=OBJECTS, interactions={"use": lambda draft, intent: refuse("no", "no")})
    assert WorldDriver(world).interact("ann", "use", "well").codes == ("world.no",)


def ring(draft, intent):
    """Write into the target."""
    draft.put("world.objects", intent["payload"]["target_id"], "rung_by", intent["agent_id"])


@pytest.mark.parametrize(
    ("interaction", "codes"),
    [(ring, ("stale_context",)), (Interaction(ring, when_stale="revalidate"), ())],
)
@pytest.mark.parametrize("name", ["ring", "use"])  # also where it replaces a built-in one
def test_an_own_interaction_with_a_changed_target_is_stale_unless_it_revalidates(
    name, interaction, codes
):
    stage = stage_of(interactions={name: interaction})
    seen = stage.kernel.seq
    assert stage.interact("bob", name, "well").admitted
    request = {"target_id": "well", "interaction_type": name}
    verdict = stage.propose("ann", "Interact", context_seq=seen, **request)
    assert verdict.codes == codes
    if codes:
        assert verdict.refusals[0].changed[0]["entity"] == "world.objects/well"
    assert stage.interact("ann", "examine", "well").admitted


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"rule": "ring"}, "it must be a rule .*got 'ring'"),
        ({"rule": ring, "when_stale": "never"}, "when_stale must be 'reject' or 'revalidate', got"),
    ],
)
def test_an_interaction_with_a_fault_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Interaction(**fields)


@pytest.mark.parametrize(
    ("what", "codes"),
    [("examine", ()), ("use", ()), ("pickup", ()), ("drop", ("world.not_held",))],
)
def test_a_built_in_interaction_judges_a_changed_target_at_its_turn(what, codes):
    stage = stage_of()
    seen = stage.kernel.seq
    assert stage.interact("bob", "use", "lamp").admitted
    request = {"target_id": "lamp", "interaction_type": what}
    assert stage.propose("ann", "Interact", context_seq=seen, **request).codes == codes


def test_a_slow_agent_examines_a_target_that_changes_all_the_time():
    stage = stage_of()
    for number in range(50):
        seen = stage.kernel.seq
        assert stage.interact("bob", "use", "well").admitted
        assert stage.propose("bob", "Move", to=[number % 2, 0]).admitted
        for target_id in ("well", "bob"):
            examine = {"target_id": target_id, "context_seq": seen}
            assert stage.propose("ann", "Interact", **examine).admitted
    seen = stage.kernel.seq
    stage.kernel.patch([("world.agents", "ann", {"position": [1, 0, 0]}, False)], "pushed")
    verdict = stage.propose("ann", "Interact", context_seq=seen, target_id="well")
    assert verdict.codes == ("stale_context",)  # ann was moved


def test_an_object_that_changed_since_is_given_by_its_holder_alone():
    stage = stage_of()
    stage.interact("ann", "pickup", "lamp")
    seen = stage.kernel.seq
    assert stage.interact("ann", "use", "lamp").admitted
    assert stage.propose("eve", "Move", to=[1, 1]).admitted
    give = {"target_id": "eve", "interaction_type": "give", "data": {"object_id": "lamp"}}
    assert stage.propose("ann", "Interact", context_seq=seen, **give).admitted
    assert stage.thing("lamp")["holder"] == "eve"
    verdict = stage.propose("ann", "Interact", **give)
    assert verdict.codes == ("world.not_held",)


def test_a_refusal_of_what_another_took_names_the_change():
    stage = stage_of()
    grabs = [
        [stage.intent(name, "Interact", target_id="lamp", interaction_type="pickup")]
        for name in ("ann", "bob")
    ]
    verdicts = stage.kernel.decide_group(grabs)
    winner, loser = sorted(verdicts, key=lambda verdict: not verdict.admitted)
    (refusal,) = loser.refusals
    holder = stage.thing("lamp")["holder"]
    change = {
        "entity": "world.objects/lamp",
        "seq": winner.seq,
        "by": holder,
        "now": {"holder": holder, "portable": True, "position": None, "price": 12},
    }
    assert (refusal.code, refusal.changed) == ("conflict", (change,))
    assert refusal.as_dict()["changed"] == [change]
    (held,) = stage.interact("eve", "pickup", "lamp").refusals
    assert (held.code, held.changed) == ("world.held", (change,))
    assert stage.interact(holder, "pickup", "lamp").refusals[0].changed == ()


def test_the_winner_of_a_conflict_is_not_named_to_those_who_may_not_see_it():
    def grab(draft, intent):
        winner = draft.claim("world.objects/lamp")
        if winner is not None:
            return conflict("world.objects/lamp", winner)
        draft.put("world.objects", "lamp", "is_taken", True)
        return None

    sight = {"any_of": [{"distance": 10}, {"known": "inventory"}]}
    things = {"lamp": {"position": [5, 0]}}
    world = World(
        objects=things, observation=sight, interactions={"pickup": Interaction(grab, "revalidate")}
    )
    places = {"ann": {"position": [0, 0]}, "bob": {"position": [12, 0]}}
    stage = WorldDriver(world, agents=("ann", "bob"), **places)
    grabs = [
        [stage.intent(name, "Interact", target_id="lamp", interaction_type="pickup")]
        for name in ("ann", "bob")
    ]
    verdicts = stage.kernel.decide_group(grabs)
    (refusal,) = next(verdict.refusals for verdict in verdicts if not verdict.admitted)
    assert refusal.code == "conflict"
    assert "by another agent at the same moment" in refusal.message
    assert refusal.details["winner"] is None
    (change,) = refusal.changed
    assert (change["entity"], change["by"]) == ("world.objects/lamp", None)
    assert change["now"]["is_taken"]
    hidden = {"ann": "bob", "bob": "ann"}[refusal.details["agent_id"]]
    assert hidden not in repr(refusal.as_dict())


def test_changes_rewritten_by_the_own_batch_are_not_listed():
    def polish(draft, intent):
        if draft.get("world.objects", "lamp", "shine"):
            changed = [Ref("world.objects", "lamp"), Ref("world.objects", "well"), Ref("no", "no")]
            return refuse("enough", "it shines", changed=changed)
        draft.put("world.objects", "lamp", "shine", True)
        return None

    stage = stage_of(interactions={"polish": polish})
    assert stage.interact("bob", "use", "lamp").admitted
    assert stage.interact("bob", "use", "well").admitted
    intents = [
        stage.intent("ann", "Interact", target_id="lamp", interaction_type="polish")
        for _ in range(2)
    ]
    refusal = stage.kernel.decide(intents).refusals[0]
    assert (refusal.code, refusal.index) == ("world.enough", 1)
    assert [change["entity"] for change in refusal.changed] == ["world.objects/well"]


def test_a_rule_that_names_no_refs_as_changed_is_at_fault():
    def odd(draft, intent):
        return refuse("odd", "odd", changed=[Ref(1, 2)])  # type: ignore[arg-type]

    stage = stage_of(interactions={"odd": odd})
    assert stage.interact("ann", "odd", "lamp").codes == ("rule_error",)
