"""Tools stay within what each provider takes, and take every payload that their kind takes."""

import enum
from datetime import datetime
from types import GenericAlias
from typing import Annotated, Any, Literal, Union
from uuid import UUID

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, create_model
from pydantic_core import to_jsonable_python

from placet.agents.adapters.llm.tool_search import TOOLS
from placet.agents.proposal.catalogue import Catalogue
from placet.agents.proposal.plan_parser import Call, parse_calls
from placet.agents.proposal.tool_schema import tool_schema
from placet.agents.proposal.tools import TALKING, ToolDefinition, definitions
from placet.domains.approvals import Approvals
from placet.domains.memory import Memory
from placet.domains.session import Sessions
from placet.domains.world import World
from placet.kernel.plugin.domain import Domain, Kind
from tests.agents.proposal.provider_subsets import (
    PROVIDERS,
    lowered,
    properties_of,
    undescribed,
)
from tests.installed import factories
from tests.levels import examples

INSTALLED = factories()
OF_AGENTS = [domain for domain in INSTALLED if domain not in {Approvals, Sessions}]
"""The kinds of the others are submitted by their recorder alone."""


def faults_of(tool: ToolDefinition) -> dict[str, list[str]]:
    found = {name: faults(lowered(tool, name)) for name, faults in PROVIDERS.items()}
    return {name: faults for name, faults in found.items() if faults}


def tool_of(payload: Any) -> ToolDefinition:
    return ToolDefinition("tool", "A tool.", tool_schema(TypeAdapter(payload).json_schema()))


@pytest.mark.parametrize("domain", INSTALLED, ids=lambda one: one.name)
def test_every_provider_takes_every_tool_of_a_domain(domain: type[Domain]) -> None:
    for tool in definitions(domain=domain()):
        assert faults_of(tool) == {}, tool
        assert undescribed(tool.schema) == []


@pytest.mark.slow  # loads Google's package
@pytest.mark.parametrize("domain", INSTALLED, ids=lambda one: one.name)
def test_googles_own_package_reads_every_tool_of_a_domain(domain: type[Domain]) -> None:
    from google.genai import types

    for tool in definitions(domain=domain()):
        types.FunctionDeclaration(
            name=tool.name, parameters_json_schema=lowered(tool, "google").schema
        )


def test_every_provider_takes_the_tools_that_propose_no_kind() -> None:
    for tool in [*TALKING, *TOOLS]:
        assert faults_of(tool) == {}, tool
        assert undescribed(tool.schema) == []


@pytest.mark.parametrize("domain", OF_AGENTS, ids=lambda one: one.name)
def test_a_property_of_a_kind_has_more_than_its_name_as_description(
    domain: type[Domain],
) -> None:
    for tool in definitions(domain=domain()):
        for name, one in properties_of(tool.schema):
            is_named = one["description"].startswith(name.replace("_", " ").capitalize() + ".")
            assert not is_named, (tool.name, name)


def test_values_that_a_domain_knows_are_enumerated() -> None:
    own = World(interactions={"polish": lambda draft, intent: None})
    world = {tool.name: tool.schema["properties"] for tool in definitions(domain=own)}
    text, null = world["Interact"]["interaction_type"]["anyOf"]
    assert {"polish", "give"} <= set(text["enum"])
    assert null == {"type": "null"}


def test_a_long_summary_is_cut_to_what_every_provider_takes() -> None:
    class Talker(Domain):
        name, version = "talker", "1"
        kinds = (
            Kind("talker.talk", World().kinds[1].payload, lambda d, i: None, summary="x" * 9_000),
        )

    (tool, *_) = definitions(domain=Talker())
    assert faults_of(tool) == {}
    assert tool.description.endswith("Risk: low.")


@pytest.mark.parametrize(
    ("schema", "provider", "fault"),
    [
        ({"type": "object", "oneOf": [{"type": "object"}]}, "anthropic", "oneOf at the top"),
        ({"type": "object", "not": {}}, "openai", "not at the top"),
        ({"type": "object", "properties": {"a": {"const": 1}}}, "google", "keyword const"),
        ({"type": "object", "required": ["a"]}, "google", "required property"),
        ({"type": "object", "properties": {"a": {"type": "array"}}}, "openai", "without items"),
        ({"type": "object", "properties": {"é": {"type": "string"}}}, "anthropic", "property"),
        ({"type": "array", "items": {}}, "openai", "no object at the top"),
    ],
)
def test_the_validators_refuse_what_the_providers_refuse(
    schema: Any, provider: str, fault: str
) -> None:
    assert fault in str(PROVIDERS[provider](ToolDefinition("t", "", schema)))


# single forms


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Leaf(BaseModel):
    kind: Literal["leaf"]
    weight: float = Field(gt=0, multiple_of=0.5)


class Tree(BaseModel):
    """A tree.

    Attributes:
        kind: Which it is,
            over two lines.
        left: The left part.
    """

    kind: Literal["tree"]
    left: Union["Tree", Leaf]
    others: list["Tree"] = []


PYTHON = ConfigDict(regex_engine="python-re")
Ahead = Annotated[str, Field(pattern="^a(?=b)")]
Mixed: Any = Literal[1, "a", None, True]
Blank: Any = Literal["", "a"]
FORMS: list[tuple[object, Any]] = [
    (Tree, {"kind": "tree", "left": {"kind": "tree", "left": {"kind": "leaf", "weight": 1.5}}}),
    (Annotated[Tree | Leaf, Field(discriminator="kind")], {"kind": "leaf", "weight": 1.5}),
    (create_model("M", x=(int | None, ...)), {"x": None}),
    (create_model("M", x=(tuple[int, str], ...)), {"x": [1, "a"]}),
    (create_model("M", x=(tuple[int, ...], ...)), {"x": [1, 2]}),
    (create_model("M", x=(Mixed, ...)), {"x": None}),
    (create_model("M", x=(Blank, ...)), {"x": ""}),
    (create_model("M", x=(Color, ...)), {"x": "red"}),
    (create_model("M", x=(dict[str, list[int]], ...)), {"x": {"a": [1]}}),
    (create_model("M", x=(JsonValue, ...)), {"x": [None, 1, "a"]}),
    (create_model("M", x=(Any, ...)), {"x": 1}),
    (create_model("M", x=(list, ...)), {"x": [1, "a"]}),
    (create_model("M", x=(set[UUID], ...)), {"x": ["12345678123456781234567812345678"]}),
    (create_model("M", x=(datetime, ...)), {"x": "2026-01-01T00:00:00Z"}),
    (create_model("M", x=(bytes, b"")), {"x": "abc"}),
    (create_model("M", x=(Annotated[int, Field(gt=3, lt=9, multiple_of=2)], ...)), {"x": 4}),
    (create_model("M", __config__=PYTHON, x=(Ahead, ...)), {"x": "ab"}),
    (create_model("M", title=(str, ...), properties=(str, "")), {"title": "a"}),
    (create_model("M", x=(int, Field(alias="größe"))), {"größe": 1}),
    (dict[str, int], {"a": 1}),
    (create_model("Empty"), {}),
]


@pytest.mark.parametrize(("payload", "value"), FORMS, ids=lambda one: str(one)[:40])
def test_every_provider_takes_a_form_and_its_values(payload: Any, value: Any) -> None:
    tool = tool_of(payload)
    assert faults_of(tool) == {}
    assert undescribed(tool.schema) == []
    TypeAdapter(payload).validate_json(str_of(value))
    jsonschema.validate(value, tool.schema)


def str_of(value: Any) -> bytes:
    return TypeAdapter(object).dump_json(value)


def test_a_property_is_described_by_its_field_or_its_name() -> None:
    def said(payload: object) -> str:
        return str(tool_of(payload).schema["properties"]["big_x"]["description"])

    assert said(create_model("M", big_x=(int, Field(description="Its size.")))) == "Its size."
    assert said(create_model("M", big_x=(int, ...))) == "Big x."


def test_the_constraints_of_a_payload_stay_in_its_schema() -> None:
    bounded = Annotated[int, Field(gt=3, multiple_of=2)]
    x = tool_of(create_model("M", x=(bounded, 4))).schema["properties"]["x"]
    assert (x["exclusiveMinimum"], x["multipleOf"], x["default"]) == (3, 2, 4)


def test_a_definition_stands_where_it_is_used_and_a_recursion_is_cut() -> None:
    tree = tool_of(Tree).schema
    assert "$" not in str(tree)
    left = tree["properties"]["left"]["anyOf"][0]["properties"]["left"]["anyOf"]
    assert left[0] == {"type": "object", "description": "Tree, of the same form as above."}
    assert left[1]["properties"]["weight"]["multipleOf"] == 0.5


def test_an_unnameable_property_is_in_the_description_alone() -> None:
    schema = tool_of(create_model("M", x=(int, Field(alias="größe")))).schema
    assert schema["properties"] == {}
    assert schema["required"] == []
    assert "größe" in schema["description"]


def test_the_attributes_of_a_docstring_describe_the_properties() -> None:
    tree = tool_of(Tree).schema
    assert tree["description"] == "A tree."
    assert tree["properties"]["kind"]["description"] == "Which it is, over two lines."
    assert tree["properties"]["others"]["description"] == "Others."


def test_a_union_of_payloads_is_one_object_that_requires_what_all_require() -> None:
    schema = tool_of(Tree | Leaf).schema
    assert schema["required"] == ["kind"]
    assert schema["properties"].keys() == {"kind", "left", "others", "weight"}
    assert schema["description"] == "One of {kind, left, others} or {kind, weight}."


def test_the_parser_refuses_a_payload_that_only_the_tool_schema_takes() -> None:
    catalogue = Catalogue(Memory())
    calls = [Call("memory__remember", '{"key": "a", "value": 1, "more": 2}')]
    assert "more" not in catalogue.tool_schemas()["memory.remember"]["properties"]
    plan, issues = parse_calls(calls, goal="g", base_seq=0, domain=catalogue)
    assert plan is None
    assert "more" in str(issues[0].at)


# any payload


Typed = tuple[Any, st.SearchStrategy[Any]]
"""A type, and values of it as JSON."""

_names = st.sampled_from(["a", "size", "title", "type", "items", "properties", "enum", "b_c"])
_scalars: st.SearchStrategy[Typed] = st.sampled_from(
    [
        (str, st.text(max_size=5)),
        (int, st.integers(-9, 9)),
        (float, st.floats(-9, 9)),
        (bool, st.booleans()),
        (JsonValue, st.sampled_from([None, 1, "a", [1, None], {"a": 1}])),
        (Literal["a", "b"], st.sampled_from(["a", "b"])),
        (Literal[1, "b", None], st.sampled_from([1, "b", None])),
        (Annotated[int, Field(gt=0, lt=5)], st.integers(1, 4)),
        (Annotated[float, Field(ge=0, multiple_of=0.5)], st.sampled_from([0.0, 0.5, 2.0])),
        (Annotated[str, Field(pattern="^a+$", max_length=3)], st.sampled_from(["a", "aa"])),
        (Color, st.sampled_from(["red", "blue"])),
    ]
)


def _optional(inner: Typed) -> Typed:
    return inner[0] | None if inner[0] is not JsonValue else JsonValue, st.none() | inner[1]


def _listed(inner: Typed) -> Typed:
    items = GenericAlias(list, (inner[0],))
    return Annotated[items, Field(max_length=2)], st.lists(inner[1], max_size=2)


def _mapped(inner: Typed) -> Typed:
    return GenericAlias(dict, (str, inner[0])), st.dictionaries(
        st.text(max_size=3), inner[1], max_size=2
    )


def _either(pair: tuple[Typed, Typed]) -> Typed:
    return Union[pair[0][0], pair[1][0]], pair[0][1] | pair[1][1]  # noqa: UP007  # of values


def _both(pair: tuple[Typed, Typed]) -> Typed:
    (first, firsts), (second, seconds) = pair
    return GenericAlias(tuple, (first, second)), st.tuples(firsts, seconds).map(list)


def _model(fields: dict[str, tuple[Typed, bool]]) -> Typed:
    defined: dict[str, Any] = {
        name: (of, ...) if is_required else (of | None if of is not JsonValue else of, None)
        for name, ((of, _), is_required) in fields.items()
    }
    needed = {name: values for name, ((_, values), is_required) in fields.items() if is_required}
    further = {
        name: values for name, ((_, values), is_required) in fields.items() if not is_required
    }
    return create_model("Model", **defined), st.fixed_dictionaries(needed, optional=further)


def _models(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    return st.dictionaries(_names, st.tuples(inner, st.booleans()), max_size=4).map(_model)


def _grown(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    pairs = st.tuples(inner, inner)
    wrapped = [inner.map(wrap) for wrap in (_optional, _listed, _mapped)]
    return st.one_of(*wrapped, pairs.map(_either), pairs.map(_both), _models(inner))


@given(st.data(), _models(st.recursive(_scalars, _grown, max_leaves=6)))
@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
def test_every_provider_takes_the_tool_of_any_payload(data: st.DataObject, payload: Typed) -> None:
    """Law: each provider takes the schema of a tool, and it takes every value of its payload."""
    model, values = payload
    tool = tool_of(model)
    assert faults_of(tool) == {}, tool.schema
    assert undescribed(tool.schema) == []
    value = data.draw(values)
    TypeAdapter(model).validate_python(value)
    jsonschema.validate(to_jsonable_python(value), tool.schema)
