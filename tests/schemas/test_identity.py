"""Names: which strings may be one, and what can be told from them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.schemas.identity import (
    KIND_PATTERN,
    is_identity,
    is_kind_name,
    only_sequence,
    sequence_form,
    sequences_of,
)
from placet.schemas.limits import Limits

KIND_NAMES = st.from_regex(KIND_PATTERN, fullmatch=True).filter(is_kind_name)


@given(KIND_NAMES, KIND_NAMES)
def test_kind_names_and_tool_names_are_a_bijection(one, other):
    """`.` <-> `__` loses nothing, and tool names need no other character."""
    tool = one.replace(".", "__")
    assert re.fullmatch(r"[A-Za-z0-9_]+", tool)
    assert tool.replace("__", ".") == one
    assert (tool == other.replace(".", "__")) is (one == other)


@pytest.mark.parametrize("name", ["Move", "design.set", "a_b.c_d", "A1", "a" * 64])
def test_a_kind_name_is_segments_joined_by_dots(name):
    assert is_kind_name(name)


@pytest.mark.parametrize("name", ["", "a__b", "_a", "a_", "a.", ".a", "1a", "a b", "a\n", "a" * 65])
def test_invalid_kind_names_are_rejected(name):
    assert not is_kind_name(name)


@pytest.mark.parametrize("value", ["a", "é", "名", "a b", " ", "a" * 128, "\u00a0"])
def test_an_identity_is_any_short_text_without_control_characters(value):
    assert is_identity(value)


@pytest.mark.parametrize(
    "value", ["", "a" * 129, "\x00", "a\n", "\x7f", "\x85", "\ud800", 7, None, b"a"]
)
def test_invalid_identities_are_rejected(value):
    assert not is_identity(value)


@pytest.mark.parametrize(
    ("req_id", "form"),
    [
        ("a:0", ("a", 0)),
        ("a:b:12", ("a:b", 12)),
        (":7", ("", 7)),
        ("a:" + "9" * 18, ("a", 10**18 - 1)),
        ("a:" + "9" * 19, None),
        ("a:01", None),
        ("a:", None),
        ("a", None),
        ("7", None),
        ("a:-1", None),
        ("a:٣", None),
        ("a:1x", None),
        ("", None),
    ],
)
def test_the_sequence_form(req_id, form):
    assert sequence_form(req_id) == form
    assert sequences_of([req_id]) == ([] if form is None else [(form[0], form[1], form[1], True)])


def test_a_sequence_spans_its_lowest_to_its_highest():
    assert sequences_of(["a:3", "a:1", "a:12"]) == [("a", 1, 12, False)]
    assert sequences_of(["a:3", "b:1", "x", "a:0"]) == [("a", 0, 3, False), ("b", 1, 1, False)]
    assert sequences_of(["a:3", "a:x"]) == [("a", 3, 3, False)]


@pytest.mark.parametrize("first", [0, 1, 7])
def test_ids_of_one_sequence_are_recognized_in_any_order(first):
    ids = [f"plan:x:{number}" for number in range(first, first + 12)]
    assert only_sequence(ids) == ("plan:x", first, first + 11, True)
    assert sequences_of(ids[::-1]) == [("plan:x", first, first + 11, False)]
    assert sequences_of([*ids[:5], *ids[:5]]) == [("plan:x", first, first + 4, False)]
    swapped = [ids[0], ids[2], ids[1], *ids[3:]]
    assert sequences_of(swapped) == [("plan:x", first, first + 11, False)]
    assert only_sequence([*ids[:5], "plan:y:6"]) is None
    assert only_sequence([*ids[:5], f"plan:x:0{first + 6}"]) is None


@pytest.mark.parametrize("value", [0, -1, True, 1.0, None, "1"])
def test_a_limit_is_a_positive_int(value):
    with pytest.raises(ValueError, match="limit 'agents_max' must be a positive int"):
        Limits(agents_max=value)
