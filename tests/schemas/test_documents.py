"""Files that people and damage make: a document is returned whole and bounded, or one error."""

import json
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.schemas.documents import DocumentError, parse_json, parse_toml
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
