"""A tool is declared by its signature; what cannot be meant is refused with its name."""

import inspect
from typing import Any

import pytest
from pydantic import BaseModel
from tests.tools.shop import Shop

from placet_tools import Gate, ToolError, Tools


def declared(function, **options):
    tools = Tools("shop")
    tools.tool(**options)(function)
    return tools.by_name[function.__name__]


def plain(order: str, euro: int = 5) -> None:
    """Do something.

    And more.
    """


def keyed(order: str, idempotency_key: str) -> None: ...


@pytest.mark.parametrize(
    ("function", "options", "delivery"),
    [
        (plain, {}, "at_most_once"),
        (plain, {"risk": "read"}, "pure"),
        (keyed, {}, "keyed"),
        (keyed, {"risk": "read"}, "keyed"),
        (plain, {"delivery": "idempotent"}, "idempotent"),
    ],
)
def test_the_delivery_is_the_safest_that_the_signature_permits(function, options, delivery):
    assert declared(function, **options).delivery == delivery


def test_the_payload_is_the_signature_with_its_defaults():
    tool = declared(plain)
    assert (tool.name, tool.summary) == ("plain", "Do something.")
    assert tool.plain({"order": "A"}) == {"order": "A", "euro": 5}
    assert "idempotency_key" not in declared(keyed).payload.model_fields
    with pytest.raises(ValueError, match="extra_forbidden"):
        tool.plain({"order": "A", "eur": 5})


class Address(BaseModel):
    city: str


def test_arguments_come_back_in_the_types_of_the_signature():
    def ship(to: Address, tags: set[str]) -> None: ...

    tool = declared(ship)
    decided = tool.plain({"to": {"city": "Bern"}, "tags": ["a"]})
    assert decided == {"to": {"city": "Bern"}, "tags": ["a"]}
    assert tool.typed(decided) == {"to": Address(city="Bern"), "tags": {"a"}}


def with_star(*orders: str) -> None: ...
def by_place(order: str, /) -> None: ...
def without_type(order) -> None: ...
def with_agent(agent: str) -> None: ...
def with_copy(copy: bool) -> None: ...
def plan(order: str) -> None: ...


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        (with_star, {}, "cannot be passed by name"),
        (by_place, {}, "cannot be passed by name"),
        (without_type, {}, "'order' has no type; annotate it"),
        (with_agent, {}, "cannot be called 'agent'"),
        (with_copy, {}, "cannot be called 'copy'"),
        (plan, {}, "the name 'plan' is taken"),
        (plain, {"risk": "huge"}, "risk must be one of read, low, medium, high"),
        (plain, {"delivery": "twice"}, "delivery must be one of"),
        (plain, {"delivery": "keyed"}, "needs a parameter idempotency_key"),
        (plain, {"quota": {"rate": 5, "per": 60}}, "tool plain: quota: .*'rate': 5 / 60"),
        (plain, {"quota": {"rate": 0, "burst": 5}}, "tool plain: quota: "),
        (plain, {"quota": 5}, "tool plain: quota: "),
        (plain, {"once": "refund:{ordr}"}, "names 'ordr'.*did you mean 'order'"),
        (plain, {"once": "refund:{order.x}"}, "names 'order.x'"),
        (plain, {"once": "refund:{order"}, "is no template"),
        (plain, {"undo": "plian"}, "there is no tool 'plian'"),
        (lambda order: None, {}, "a function with a plain name"),
    ],
)
def test_a_tool_that_cannot_be_meant_is_refused(function, options, message):
    with pytest.raises(ToolError, match=message):
        declared(function, **options)


def with_yield(order: str):
    yield order


async def with_async_yield(order: str):
    yield order


WRONG: dict[str, list[Any]] = {
    "risk": [None, 3, "High", ["low"], b"low", {"low"}],
    "once": [None, 3, ["refund"], b"refund", "{order!x}", "{}", "{order[0]}"],
    "delivery": [3, "", ["pure"], True, b"pure"],
    "quota": [0, 5, "5", [], (1, 2), {}, {"rate": "5", "burst": 1}, {"rate": 1, "burst": True}],
    "undo": [None, 3, ["plain"], b"plain", object()],
    "not_done": [
        None, 3, "OSError", [OSError], {OSError}, OSError, OSError(), (OSError(),), ("OSError",),
        (OSError, 3), (int,), ((OSError,),),
    ],
    "seconds_max": [0, -1, "5", True, [5], float("nan"), float("inf"), 1j],
}  # fmt: skip


@pytest.mark.parametrize(
    ("option", "value"), [(option, value) for option, values in WRONG.items() for value in values]
)
def test_an_option_of_another_type_is_refused_when_the_tool_is_declared(option, value):
    with pytest.raises(ToolError, match=f"{option}"):
        declared(plain, **{option: value})


@pytest.mark.parametrize("function", [3, None, "plain", with_yield, with_async_yield])
def test_an_object_that_cannot_do_the_work_is_refused(function):
    with pytest.raises(ToolError, match="a function"):
        Tools("shop").tool()(function)


def test_a_rule_is_a_function_of_a_tool():
    tools = Tools("shop")
    tools.tool()(plain)
    wrong: list[Any] = [["plain"], "rule"]
    with pytest.raises(ToolError, match="there is no tool"):
        tools.rule(wrong[0])
    with pytest.raises(ToolError, match="must be a function of"):
        tools.rule("plain")(wrong[1])


def test_a_tool_that_undoes_another_has_its_parameters():
    tools = Tools("shop")

    @tools.tool()
    def unship(order: str, carrier: str) -> None: ...

    with pytest.raises(ToolError, match="parameter 'carrier' is neither one of ship"):

        @tools.tool(undo=unship)
        def ship(order: str) -> None: ...


def test_a_misspelled_tool_of_a_rule_has_the_nearest_name():
    tools = Tools("shop")
    tools.tool()(plain)
    with pytest.raises(ToolError, match="there is no tool 'plane'; did you mean 'plain'"):
        tools.rule("plane")


@pytest.mark.parametrize("name", ["Shop", "a b", "", "x" * 33, "1a", None, 3, b"shop"])
def test_the_name_of_tools_is_an_identifier(name):
    with pytest.raises(ToolError, match="lower-case identifier"):
        Tools(name)


def test_a_name_is_declared_once():
    tools = Tools("shop")
    tools.tool()(plain)
    with pytest.raises(ToolError, match="the name 'plain' is taken"):
        tools.tool()(plain)


def test_the_least_risk_that_needs_an_approval_is_known():
    with pytest.raises(ToolError, match="approve_from must be one of"):
        Gate(Shop().tools, approve_from="hgih")


def test_another_declaration_is_another_version_of_the_rules():
    def version(**options):
        tools = Tools("shop")
        tools.tool(**options)(plain)
        return tools.domain().version

    assert version() == version()
    assert len({version(), version(risk="low"), version(once="{order}")}) == 3


def test_a_decorated_function_is_unchanged():
    tools = Tools("shop")
    assert tools.tool()(plain) is plain
    assert list(inspect.signature(plain).parameters) == ["order", "euro"]
    assert repr(tools) == "<Tools shop: plain>"


@pytest.mark.parametrize("once", ["mail:{to}:{text}", "{to}, {text}", "mail {to} {text!r}"])
def test_two_calls_have_two_consequences(once):
    def mail(to: str, text: str, copies: int = 1) -> None: ...

    tool = declared(mail, once=once)
    values = ("a", "a:b", "b:c", "c", "a, b", "b, c", "a\\", "\\:c", "a b", "b c", "")
    texts = {tool.consequence({"to": to, "text": text}) for to in values for text in values}
    assert len(texts) == len(values) ** 2


def test_a_consequence_of_one_field_is_shared_by_tools():
    assert declared(plain, once="paid:{order}").consequence({"order": "a:b"}) == "paid:a:b"
