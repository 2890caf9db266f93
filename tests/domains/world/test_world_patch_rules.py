"""Operator patches of a world are refused if its rules could not handle the result."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placet.domains.world import AGENTS, OBJECTS, World
from placet.schemas.errors import ValidationError
from tests.domains.world_driver import WorldDriver
from tests.levels import examples

BOX = {"position": [1, 1]}


def stage():
    world = World(bounds=[[-10, -10], [10, 10]], objects={"box": BOX, "cup": BOX})
    staged = WorldDriver(world, agents=("ann", "bob"))
    assert staged.interact("ann", "pickup", "cup").admitted
    return staged


@pytest.mark.parametrize(
    ("amendment", "said"),
    [
        ([(AGENTS, "ann", {"position": [1]}, False)], r"ann needs a position, \[x, y\] or"),
        ([(AGENTS, "ann", {"position": None}, False)], "ann needs a position"),
        ([(AGENTS, "ann", {"position": [99, 0]}, False)], "outside the world"),
        ([(AGENTS, "ann", {"position": [1, 2]}, True)], "ann needs team, inventory too"),
        ([(AGENTS, "ann", {"inventory": 5}, False)], "inventory of distinct ids"),
        ([(AGENTS, "ann", {"inventory": ["cup", "cup"]}, False)], "inventory of distinct ids"),
        (
            [(AGENTS, "ann", {"inventory": ["cup", "box"]}, False)],
            "ann and 'box' must agree on the holder",
        ),
        ([(AGENTS, "ann", {"inventory": []}, False)], "ann and 'cup' must agree on the holder"),
        (
            [(OBJECTS, "cup", {"holder": None, "position": [0, 0]}, False)],
            "cup and 'ann' must agree",
        ),
        ([(AGENTS, "ann", None, True)], "ann and 'cup' must agree on the holder"),
        (
            [(AGENTS, "box", {"position": [0, 0], "team": None, "inventory": []}, True)],
            "another id",
        ),
        ([(OBJECTS, "box", {"position": "here"}, False)], "box needs a position"),
        ([(OBJECTS, "box", {"position": [0, 0]}, True)], "box needs holder, portable too"),
        (
            [(OBJECTS, "box", {"holder": "bob", "position": None}, False)],
            "must agree on the holder",
        ),
        (
            [(OBJECTS, "box", {"holder": 5, "position": None}, False)],
            "must agree on the holder",
        ),
        ([(OBJECTS, "cup", {"position": [0, 0]}, False)], "is held, so it has no position"),
        ([(OBJECTS, "cup", None, True)], "cup and 'ann' must agree on the holder"),
    ],
)
def test_a_patch_to_an_impossible_state_is_refused(amendment, said):
    staged = stage()
    before = staged.kernel.digest()
    with pytest.raises(ValidationError, match=said):
        staged.kernel.patch(amendment, "in vain")
    assert staged.kernel.digest() == before


def test_a_patch_may_move_an_object_between_inventories():
    staged = stage()
    amendment = [
        (AGENTS, "ann", {"inventory": []}, False),
        (AGENTS, "bob", {"inventory": ["cup"]}, False),
        (OBJECTS, "cup", {"holder": "bob"}, False),
        ("notes", "n", {"any": "thing"}, True),
    ]
    staged.kernel.patch(amendment, "a gift")
    staged.assert_holders_agree()
    assert staged.interact("bob", "drop", "cup").admitted


def test_a_position_without_a_z_gets_one():
    staged = stage()
    staged.kernel.patch([(AGENTS, "ann", {"position": [1, 2]}, False)], "moved by hand")
    assert staged.agent("ann")["position"] == (1.0, 2.0, 0.0)


@pytest.mark.parametrize("position", [[1, 0], [1, 0, 0], [1.0, -0.0, 0.0], [1.0, 0.0, 0.0]])
def test_a_patched_position_is_represented_like_one_moved_to(position):
    staged, walked = stage(), stage()
    staged.kernel.patch([(AGENTS, "ann", {"position": position}, False)], "moved by hand")
    assert walked.propose("ann", "Move", to=[1, 0]).admitted
    assert repr(staged.agent("ann")["position"]) == repr(walked.agent("ann")["position"])


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.floats(-9, 9)
    | st.sampled_from(["cup", ""]),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)
FIELDS = {
    AGENTS: ("position", "team", "inventory"),
    OBJECTS: ("position", "holder", "portable"),
}


@settings(max_examples=examples(500))
@given(st.data())
def test_no_accepted_patch_makes_a_rule_raise(data):
    staged = stage()
    collection = data.draw(st.sampled_from(sorted(FIELDS)))
    key = data.draw(st.sampled_from(["ann", "box", "cup", "new"]))
    fields = data.draw(st.dictionaries(st.sampled_from(FIELDS[collection]), JSON))
    with contextlib.suppress(ValidationError):
        staged.kernel.patch([(collection, key, fields, data.draw(st.booleans()))], "anything")
    staged.assert_holders_agree()
    for kind, payload in (
        ("Move", {"to": [2, 2]}),
        ("Interact", {"target_id": key, "interaction_type": "pickup"}),
        ("Interact", {"target_id": key, "interaction_type": "drop"}),
        ("Speak", {"text": "well?", "target_id": key}),
    ):
        verdict = staged.propose("ann", kind, **payload)
        assert "rule_error" not in verdict.codes
