"""Tools that are declared by a JSON schema, with names and arguments that Python cannot have."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tools.shop import QUIET

from placet.schemas.identity import is_kind_name
from placet_tools import Gate, ToolError, Tools

ORDER = {
    "type": "object",
    "properties": {
        "order-id": {"$ref": "#/$defs/id"},
        "agent": {"type": "integer"},
        "to": {
            "type": "object",
            "properties": {"name": {}, "address": {}},
            "required": ["name"],
            "additionalProperties": False,
        },
    },
    "required": ["order-id"],
    "$defs": {"id": {"type": "string", "minLength": 2}},
}


async def run(arguments, key):
    return {"arguments": arguments, "key": key}


def tools_of(*names, schema=None, **options):
    tools = Tools("shop")
    for name in names:
        tools.add_schema(name, schema or {"type": "object"}, run, **options)
    return tools


async def test_the_function_takes_the_arguments_and_the_key():
    arguments = {"order-id": "A7", "agent": 3, "_x": [1.5, None], "key": "k"}
    async with Gate(tools_of("re/fund-it", schema=ORDER, risk="low"), config=QUIET) as gate:
        (outcome,) = await gate.plan([("re/fund-it", arguments)], key="t1")
    assert outcome.status == "done"
    assert outcome.output == {"arguments": arguments, "key": "t1.0"}


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({}, "payload of shop.refund: the argument 'order-id' is missing"),
        ({"order-id": "A"}, "payload of shop.refund: order-id: 'A' is too short"),
        ({"order-id": "A7", "to": {}}, "to: the argument 'name' is missing"),
        (
            {"order-id": "A7", "to": {"name": "x", "adress": 1}},
            "to: there is no argument 'adress'; did you mean 'address'?",
        ),
        ({"order-id": "A7", "agent": "x"}, "agent: 'x' is not of type 'integer'"),
    ],
)
async def test_arguments_are_checked_by_the_schema(arguments, fault):
    async with Gate(tools_of("refund", schema=ORDER, risk="low"), config=QUIET) as gate:
        (outcome,) = await gate.plan([("refund", arguments)])
    assert outcome.codes == ("payload_invalid",)
    assert fault in outcome.message


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "$ref": "http://localhost:1/schema.json"},
        {"type": "object", "$ref": "#/nowhere"},
        {"type": "object", "$ref": "#"},
    ],
)
async def test_a_schema_that_cannot_be_applied_refuses(schema):
    async with Gate(tools_of("refund", schema=schema, risk="low"), config=QUIET) as gate:
        (outcome,) = await gate.plan([("refund", {"a": 1})])
    assert outcome.codes == ("payload_invalid",)
    assert "the schema of the tool" in outcome.message


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "string"},
        {"type": "object", "required": 1},
        {"type": "object", "propertyNames": {"pattern": "(unclosed"}},
    ],
)
def test_a_schema_that_is_none_of_an_object_is_an_error(schema):
    with pytest.raises(ToolError, match="schema"):
        Tools("shop").add_schema("refund", schema, run)


async def test_a_consequence_names_required_properties():
    with pytest.raises(ToolError, match="'agent', which is no parameter"):
        tools_of("refund", schema=ORDER, once="refund:{agent}")
    schema = {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]}
    tools = tools_of("refund", schema=schema, once="refund:{order}", risk="low")
    async with Gate(tools, config=QUIET) as gate:
        assert (await gate.call("refund", order="A")).status == "done"
        assert (await gate.call("refund", order="A", x=1)).codes == ("shop.same_done",)


async def test_a_tool_may_have_the_name_of_a_kind_of_the_domain():
    tools = tools_of("plan", "undo", "release", "approval_required", risk="low")
    async with Gate(tools, config=QUIET) as gate:
        outcomes = await gate.plan([("plan", {}), ("undo", {}), ("approval_required", {})])
        assert {one.status for one in outcomes} == {"done"}
    with pytest.raises(ToolError, match="is taken"):
        tools.add_schema("plan", {"type": "object"}, run)


@given(st.sets(st.text(min_size=1, max_size=130), min_size=1, max_size=8))
def test_each_name_has_one_kind_of_its_own(names):
    domain = tools_of(*names).domain()
    kinds = {name: domain.kind_of(name) for name in names}
    assert len(set(kinds.values())) == len(names)
    assert all(is_kind_name(kind) for kind in kinds.values())
    assert all(domain.tool_of(kind).name == name for name, kind in kinds.items())


def test_a_plain_name_is_its_own_kind_unless_it_looks_like_a_made_one():
    domain = tools_of("refund", "re-fund").domain()
    made = domain.kind_of("re-fund").partition(".")[2]
    assert domain.kind_of("refund") == "shop.refund"
    assert tools_of("re-fund", made).domain().kind_of(made) != f"shop.{made}"
