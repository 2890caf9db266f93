"""Files that people and damage make: a document is returned whole and bounded, or one error."""

import json
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.schemas.documents import DocumentError, parse_json, parse_toml, typed
from placet.schemas.limits import DOCUMENT_BYTES_MAX, DOCUMENT_DEPTH_MAX

DEEPER = DOCUMENT_DEPTH_MAX + 1

TOML_FAULTS = [
    ("x =", "Invalid value"),
    (b"\xff\xfe", "byte 0 is not UTF-8"),
    ("x = " + "[" * DEEPER + "]" * DEEPER, "nests deeper"),
    ("x = " + "[" * 50_000 + "]" * 50_000, "nests deeper"),
    ("x = " + "{a=" * 3_000 + "1" + "}" * 3_000, "nests deeper"),
    ("[" + ".".join("a" * 60_000) + "]", "a key has more than 64 parts"),
    ("x = {" + " . ".join(["'a'"] * 70) + " = 1}", "a key has more than 64 parts"),
    ("x = " + "9" * 100_000, "an integer is beyond 64 bits"),
    ("x = 18446744073709551616", "an integer is beyond 64 bits"),
    ("#" * (DOCUMENT_BYTES_MAX + 1), "larger than"),
]
JSON_FAULTS = [
    ("{", "Expecting property name"),
    (b"\xff\xfe", "byte 0 is not UTF-8"),
    ("[" * DEEPER + "]" * DEEPER, "nests deeper"),
    ("[" * 100_000 + "]" * 100_000, "nests deeper"),
    ("9" * 6_000, "an integer is beyond 64 bits"),
    ('{"x": -18446744073709551616}', "an integer is beyond 64 bits"),
    ('["\\ud800"]', "half of a surrogate pair"),
    ('{"\\udc00": 1}', "half of a surrogate pair"),
]


@pytest.mark.parametrize(
    ("parse", "text", "why"),
    [(parse_toml, *row) for row in TOML_FAULTS] + [(parse_json, *row) for row in JSON_FAULTS],
    ids=lambda value: None if callable(value) else "",
)
def test_a_fault_of_a_document_is_one_error_of_one_line(parse, text, why):
    with pytest.raises(DocumentError, match=why) as raised:
        parse(text)
    assert "\n" not in str(raised.value)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
)  # fmt: skip


@given(VALUES)
def test_json_that_python_writes_comes_back(value):
    assert parse_json(json.dumps(value)) == value
    assert parse_json(json.dumps(value, ensure_ascii=False).encode()) == value


def test_nan_and_infinity_are_numbers_of_a_json_document():
    found = parse_json("[NaN, Infinity, -Infinity]")
    assert found[0] != found[0]
    assert found[1:] == [float("inf"), float("-inf")]


@given(st.text(st.sampled_from("ab.'\"[]{}=\n 1#,-"), max_size=60))
def test_toml_is_what_the_standard_library_reads_or_an_error(text):
    try:
        expected = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        with pytest.raises(DocumentError):
            parse_toml(text)
    else:
        assert parse_toml(text) == expected


def test_a_long_word_without_dots_is_read_in_linear_time():
    word = "a" * 200_000
    assert parse_toml(f"{word} = 1") == {word: 1}


def test_the_bounds_of_a_json_document_are_those_of_its_reader():
    assert parse_json(str(2**1_023 - 1), integer_bits_max=1_023) == 2**1_023 - 1
    with pytest.raises(DocumentError, match="beyond 1023 bits"):
        parse_json(str(2**1_023), integer_bits_max=1_023)
    with pytest.raises(DocumentError, match="larger than 5 bytes"):
        parse_json("[1, 2]", bytes_max=5)


def test_a_value_of_another_type_is_an_error_that_names_its_place():
    assert typed({"x": [1, float("inf")]}, dict[str, tuple[int, float]]) == {"x": (1, float("inf"))}
    with pytest.raises(DocumentError, match=r"Expected `int`, got `str` - at `\$"):
        typed({"x": ["1", 2.0]}, dict[str, tuple[int, float]])
