"""Names: valid strings, and the sequence form of req_ids."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.schemas.identity import KIND_PATTERN, is_identity, is_kind_name
from placet.schemas.limits import Limits

KIND_NAMES = st.from_regex(KIND_PATTERN, fullmatch=True).filter(is_kind_name)


@given(KIND_NAMES, KIND_NAMES)
def test_kind_names_and_tool_names_are_a_bijection(one, other):
    """`.` <-> `__` loses nothing, and tool names need no other character."""
    tool = one.replace(".", "__")
    assert re.fullmatch(r"[A-Za-z0-9_]+", tool)
    assert tool.replace("__", ".") == one
    assert (tool == other.replace(".", "__")) is (one == other)


@pytest.mark.parametrize("name", ["Move", "till.sell", "a_b.c_d", "A1", "a" * 64])
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


@pytest.mark.parametrize("value", [0, -1, True, 1.0, None, "1"])
def test_a_limit_is_a_positive_int(value):
    with pytest.raises(ValueError, match="limit 'agents_max' must be a positive int"):
        Limits(agents_max=value)
