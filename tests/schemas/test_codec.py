"""Freezing, thawing and encoding of values."""

import json
import pickle

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from placet.schemas.codec import (
    FrozenDict,
    array_header,
    canonical,
    freeze,
    from_canonical,
    from_json,
    thaw,
    to_json,
)

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(PLAIN)
def test_freezing_and_thawing_gives_an_equal_copy(value):
    """thaw(freeze(x)) = x, and shares nothing that can change."""
    frozen = freeze(value)
    again = thaw(frozen)
    assert again == value
    assert canonical(frozen) == canonical(value)
    if isinstance(value, list | dict) and value:
        value.clear()
        assert again == thaw(frozen) != value


@given(PLAIN)
def test_both_encodings_round_trip(value):
    assert from_canonical(canonical(value)) == value
    assert from_json(to_json(value)) == value


@given(st.dictionaries(st.text(max_size=3), st.integers(0, 9), min_size=2, max_size=6))
def test_canonical_bytes_do_not_depend_on_the_order_of_keys(value):
    backwards = dict(reversed(value.items()))
    assert canonical(backwards) == canonical(value)
    assert list(from_json(to_json(backwards))) == list(backwards)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (float("nan"), "a number must be finite, got nan"),
        ([float("inf")], "a number must be finite, got inf"),
        ((1, 0.5, float("inf")), "a number must be finite, got inf"),
        ((*range(9), float("inf")), "a number must be finite, got inf"),
        ((0.5,) * 9 + (float("nan"),), "a number must be finite, got nan"),
        ((1, {2}), "a state value must be plain JSON, got set"),
        (("a",) * 9 + ({2},), "a state value must be plain JSON, got set"),
        ({1, 2}, "a state value must be plain JSON, got set"),
        (object, "a state value must be plain JSON, got type"),
        ({"a": {1: 2}}, "an object's keys must be str, got 1"),
        (b"", "a state value must be plain JSON, got bytes"),
    ],
)
def test_a_value_that_is_not_plain_cannot_be_state(value, why):
    with pytest.raises((TypeError, ValueError), match=why):
        freeze(value)


@pytest.mark.parametrize("many", [1, 9])
@pytest.mark.parametrize("items", [(1, "a"), (0.5, -0.5), (0.5, 1, "a")])
def test_only_a_flat_array_is_frozen_without_a_copy(items, many):
    flat = items * many
    assert freeze(flat) is flat
    assert freeze((*flat, [1])) == (*flat, (1,))
    assert freeze((*flat, True, None)) == (*flat, True, None)


def test_a_frozen_mapping_cannot_be_changed_and_can_be_copied():
    frozen = FrozenDict(a=1)
    for change in (
        lambda: frozen.__setitem__("a", 2),
        lambda: frozen.__delitem__("a"),
        frozen.clear,
        lambda: frozen.pop("a"),
        frozen.popitem,
        lambda: frozen.setdefault("b", 1),
        lambda: frozen.update(b=1),
        lambda: frozen.__ior__({"b": 1}),
    ):
        with pytest.raises(TypeError, match="state values are immutable"):
            change()
    with pytest.raises(TypeError, match="a mapping has no hash"):
        hash(frozen)
    assert pickle.loads(pickle.dumps(frozen)) == frozen == {"a": 1}
    assert type(pickle.loads(pickle.dumps(frozen))) is FrozenDict


@pytest.mark.parametrize("text", ["", "{", "[1,]", "NaN", "[Infinity]", "{} {}", b"\xff", "1e999"])
def test_invalid_json_is_a_value_error(text):
    with pytest.raises(ValueError):  # noqa: PT011  # the message is msgspec's
        from_json(text)


def test_deeply_nested_json_is_a_value_error():
    with pytest.raises(ValueError, match="nested too deeply"):
        from_json("[" * 100_000)


@pytest.mark.parametrize("count", [0, 1, 15, 16, 255, 65_535])
def test_an_array_header_and_encoded_items_are_an_array(count):
    items = [n % 100 for n in range(count)]
    joined = array_header(count) + b"".join(canonical(item) for item in items)
    assert joined == canonical(items) or count > 15
    assert from_canonical(joined) == items


TEXTS = st.text(alphabet=':"\\\u003ab', max_size=4)
TREES = st.recursive(
    TEXTS | st.integers(0, 3),
    lambda inner: st.lists(inner, max_size=3) | st.lists(st.tuples(TEXTS, inner), max_size=3),
    max_leaves=8,
)


def written(value: object, *, escaped: bool) -> str:
    """Write a tree as JSON; a list of pairs is an object, whose keys may repeat."""
    if isinstance(value, list):
        if value and all(isinstance(one, tuple) for one in value):
            pairs = (
                f"{written(key, escaped=escaped)}:{written(of, escaped=escaped)}"
                for key, of in value
            )
            return "{" + ",".join(pairs) + "}"
        return "[" + ",".join(written(one, escaped=escaped) for one in value) + "]"
    text = json.dumps(value)
    return text.replace(":", "\\u003a") if escaped and isinstance(value, str) else text


def has_twins(value: object) -> bool:
    if not isinstance(value, list):
        return False
    if value and all(isinstance(one, tuple) for one in value):
        keys = [key for key, _ in value]
        return len(set(keys)) < len(keys) or any(has_twins(of) for _, of in value)
    return any(has_twins(one) for one in value)


@example([("a", 1), ("a", ":")], True, True)  # the escaped colon makes up for the lost one
@given(TREES, st.booleans(), st.booleans())
def test_a_duplicate_key_is_refused(tree, escaped, as_text):
    text = written(tree, escaped=escaped)
    given_text = text if as_text else text.encode()
    if has_twins(tree):
        with pytest.raises(ValueError, match="twice in one object"):
            from_json(given_text)
    else:
        assert from_json(given_text) == json.loads(text)
