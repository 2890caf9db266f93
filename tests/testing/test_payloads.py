"""Payloads generated from JSON Schemas are valid for their models."""

from typing import Annotated, Any, Literal, NotRequired

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, JsonValue, NonNegativeInt, TypeAdapter
from typing_extensions import TypedDict

from placet.testing.payload_generator import payloads

WORDS = ["ann", "lamp", "x"]


class Tree(BaseModel):
    name: Annotated[str, Field(min_length=2, max_length=4)]
    parts: list["Tree"] = []


class Wide(TypedDict):
    always: Literal["yes"]
    one_of: Literal["red", "blue"] | None
    count: NonNegativeInt
    below: Annotated[int, Field(lt=0)]
    share: Annotated[float, Field(gt=0, le=1)]
    narrow: Annotated[float, Field(gt=0.25, lt=0.75)]
    pair: tuple[int, bool]
    few: Annotated[set[int], Field(min_length=1, max_length=2)]
    code: Annotated[str, Field(pattern=r"^[a-f]{3}$")]
    anything: JsonValue
    more: NotRequired[dict[str, int]]
    tree: NotRequired[Tree]


class Open(BaseModel, extra="allow"):
    action: str


@pytest.mark.parametrize("model", [Tree, Wide, Open])
def test_generated_payloads_are_valid(model):
    adapter: TypeAdapter[Any] = TypeAdapter(model)

    @settings(max_examples=30)
    @given(payloads(adapter.json_schema(), WORDS))
    def check(payload):
        adapter.validate_python(payload)

    check()


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"const": 7}, 7),
        ({"allOf": [{"type": "integer", "minimum": 3}, {"maximum": 3}]}, 3),
        ({"oneOf": [{"type": "null"}]}, None),
        ({"type": "array", "maxItems": 0}, []),
        ({"type": "number", "minimum": 2, "maximum": 2}, 2),
    ],
)
def test_a_schema_with_one_value_generates_it(schema, expected):
    @settings(max_examples=5)
    @given(payloads(schema, WORDS))
    def check(payload):
        assert payload == expected

    check()


def test_an_empty_schema_generates_any_json():
    @settings(max_examples=20)
    @given(payloads({"type": "something new"}, WORDS) | payloads({"title": "Any"}, WORDS))
    def check(payload):
        TypeAdapter(JsonValue).validate_python(payload)

    check()


def test_known_names_are_preferred():
    drawn: list[str] = []

    @settings(max_examples=100, database=None)
    @given(payloads({"type": "array", "items": {"type": "string", "minLength": 3}}, WORDS))
    def gather(payload):
        drawn.extend(payload)

    gather()
    assert drawn.count("ann") + drawn.count("lamp") > len(drawn) / 5
    assert "x" not in drawn  # too short


def test_additional_fields_do_not_replace_declared_fields():
    schema = {"type": "object", "properties": {"x": {"const": 1}}, "required": ["x"]}

    @settings(max_examples=30)
    @given(payloads({**schema, "additionalProperties": True}, WORDS))
    def check(payload):
        assert payload["x"] == 1
        assert payload.keys() <= {*WORDS}

    check()


def test_integers_fit_64_bits():
    unbounded = payloads({"type": "integer"}, WORDS)
    assert isinstance(unbounded, st.SearchStrategy)

    @settings(max_examples=50)
    @given(unbounded)
    def check(payload):
        assert -(2**63) <= payload < 2**64

    check()
