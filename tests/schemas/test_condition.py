"""Conditions: which values they hold for, and how paths are written."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.schemas.codec import canonical, freeze
from placet.schemas.condition import ABSENT, holds, if_unchanged, path_text, steps_of, value_at

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "é", "b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=6,
)


@pytest.mark.parametrize(
    ("found", "op", "value", "expected"),
    [
        (3, "==", 3, True),
        (3, "==", 3.0, True),  # one number, however it is written
        ([0.0, 1.0], "==", [0, 1], True),
        (True, "==", 1, False),
        (1, "==", True, False),
        (None, "==", None, True),
        ({"a": (1, 2)}, "==", {"a": [1, 2]}, True),
        ({"a": 1}, "==", {"b": 1}, False),
        ({"a": 1, "b": 2}, "==", {"a": 1}, False),
        ([1], "==", [1, 2], False),
        ([1], "==", {"0": 1}, False),
        ({}, "==", [], False),
        ("a", "!=", "b", True),
        ("a", "!=", "a", False),
        (2, "<", 3, True),
        (3, "<", 3, False),
        (3, "<=", 3.0, True),
        (4, ">", 3, True),
        (3, ">=", 4, False),
        ("a", "<", "b", True),
        ("a", "<", 3, False),
        (True, "<", 3, False),
        (0, "<", True, False),
        (None, "<=", None, False),
        ([1], "<", [2], False),
        (2, "in", [1, 2.0], True),
        (2, "in", [1, [2]], False),
        ("a", "in", "abc", False),  # an array of values, and no text
        (2, "in", [], False),
        (0, "exists", None, True),
        (None, "exists", None, True),
        (None, "absent", None, False),
        (ABSENT, "absent", None, True),
        (ABSENT, "exists", None, False),
        (ABSENT, "==", None, False),
        (ABSENT, "!=", 3, False),
        (ABSENT, "in", [None], False),
        (ABSENT, "<", 3, False),
    ],
)
def test_a_condition_holds(found, op, value, expected):
    assert holds(found, op, value) is expected


@given(JSON, JSON)
def test_equal_values_have_equal_bytes(one, other):
    """Law: without numbers of two types, `==` compares the canonical bytes."""
    assert holds(freeze(one), "==", other) is (canonical(one) == canonical(other))
    assert holds(freeze(one), "==", one)
    assert holds(freeze(one), "in", [other, one])


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([], {"position": (1.0, 2.0), "tags": {"0": "x"}}),
        (["position"], (1.0, 2.0)),
        (["position", "1"], 2.0),
        (["position", "2"], ABSENT),
        (["position", "-1"], ABSENT),
        (["position", "x"], ABSENT),
        (["tags", "0"], "x"),
        (["tags", "0", "0"], ABSENT),
        (["nothing", "0"], ABSENT),
    ],
)
def test_a_path_leads_to_a_value(steps, expected):
    fields = freeze({"position": [1.0, 2.0], "tags": {"0": "x"}})
    found = value_at(fields, steps)
    assert found is ABSENT if expected is ABSENT else found == expected


def test_there_is_nothing_at_a_path_of_an_entity_that_is_not_seen():
    assert value_at(None, []) is value_at(None, ["a"]) is ABSENT


@given(st.lists(st.text(min_size=1, max_size=4), min_size=2, max_size=8))
def test_a_path_is_read_back_from_its_text(steps):
    assert steps_of(path_text(steps)) == steps_of(steps) == steps


@pytest.mark.parametrize(
    "path", ["", "a", "a/", "/a", "a//b", ["a"], ["a", 1], ["a"] * 9, "/".join("abcdefghi")]
)
def test_a_path_of_another_form_is_refused(path):
    with pytest.raises(ValueError, match="a path must be collection/entity"):
        steps_of(path)


@pytest.mark.parametrize("step", ["00", "01", "-1", "+1", " 1", "1.0", "\u0661", "9" * 5000, "2"])
def test_a_step_that_is_no_position_finds_nothing(step):
    assert value_at({"at": [5, 6]}, ["at", step]) is ABSENT
    assert value_at({"at": [5, 6]}, ["at", "1"]) == 6


STATE: Any = freeze({"w.o": {"lamp": {"uses": 3, "at": [1, 2]}, "a/b": {"x": None}}})


def test_unchanged_values_are_expected_as_they_are_seen():
    paths = [
        "w.o/lamp/uses",
        ["w.o", "lamp", "at", "0"],
        "w.o/lamp/holder",
        "w.o/ghost",
        "w.o/a~1b/x",
        "no/one",
    ]
    assert if_unchanged(STATE, paths) == [
        {"path": ["w.o", "lamp", "uses"], "op": "==", "value": 3},
        {"path": ["w.o", "lamp", "at", "0"], "op": "==", "value": 1},
        {"path": ["w.o", "lamp", "holder"], "op": "absent"},
        {"path": ["w.o", "ghost"], "op": "absent"},
        {"path": ["w.o", "a/b", "x"], "op": "==", "value": None},
        {"path": ["no", "one"], "op": "absent"},
    ]
    [entity] = if_unchanged(STATE, ["w.o/lamp"])
    assert entity["value"] == {"uses": 3, "at": [1, 2]}


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        ("w.o/lamp", "must be a list of paths, got the text 'w.o/lamp'"),
        ([], "must have 1 to 16 paths, got 0"),
        (["w.o/lamp"] * 17, "must have 1 to 16 paths, got 17"),
        ([7], "a path must be collection/entity or collection/entity/field.*got 7"),
    ],
)
def test_a_list_of_paths_of_another_form_is_refused(paths, message):
    with pytest.raises(ValueError, match=message):
        if_unchanged(STATE, paths)


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("world.object/lamp/holder", "world.objects/lamp/holder"),
        ("wrold.objects/ghost", "world.objects/ghost"),
        ("world.objects/lamp/holdr", "world.objects/lamp/holder"),
        ("world.objects/lamp/positon/0", "world.objects/lamp/position/0"),
        ("world.objects/lamb/holder", None),  # names of entities are alike on purpose
        ("world.objects/lamp/words/appl", None),
        ("world.objects/lamp/note 12", None),
        ("world.objects/lamp/uses", None),
        ("accounts.open/lamp", None),
    ],
)
def test_a_misspelled_path_is_not_expected_to_be_absent(path, meant):
    lamp = {"holder": None, "position": [0, 1], "words": {"apple": 1}, "note 11": "x"}
    state: Any = {"world.objects": {"lamp": lamp}}
    if meant is None:
        assert if_unchanged(state, [path]) == [{"path": steps_of(path), "op": "absent"}]
    else:
        with pytest.raises(ValueError, match=f"is not in the view; did you mean {meant}\\? "):
            if_unchanged(state, [path])
