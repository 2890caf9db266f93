"""Kinds as a provider's tools, a tool call as an intent, and the strict parser of it."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import TypedDict

from placet.agents import ChatIntent
from placet.agents.proposal.catalogue import ASK, STOP
from placet.agents.proposal.tools import definitions, parse_intent, to_intent
from placet.domains.world import World
from placet.kernel import Domain, Draft, Kind
from tests.agents.till import Till


def test_each_kind_is_a_tool_and_two_propose_nothing() -> None:
    tools = definitions(domain=World())
    assert [tool.name for tool in tools[-2:]] == ["ask_clarification", "stop"]
    assert "Move" in {tool.name for tool in tools}
    assert all(re.fullmatch("[A-Za-z0-9_-]{1,64}", tool.name) for tool in tools), "of all providers"
    assert tools == definitions(domain=World()), "the list is the same, for a prompt cache"


def test_a_tool_selection_is_wrapped_into_an_intent() -> None:
    intent = to_intent("Move", {"to": [1, 2]}, domain=World())
    assert intent == ChatIntent(type="action_call", action_id="Move", inputs={"to": [1, 2]})
    asked = to_intent("ask_clarification", '{"question": "Which counter?"}', domain=World())
    assert asked == ChatIntent(type="clarification_request", question="Which counter?")


class Careful(TypedDict):
    if_unchanged: bool


def _nothing(_draft: Draft, _intent: object) -> None:
    """Change nothing."""


class Own(Domain):
    """A kind whose payload has a field of the name of the conditions."""

    name, version = "own", "1"
    kinds = (Kind("own.act", Careful, _nothing),)


def test_a_call_of_a_kind_may_name_the_values_that_it_rests_on() -> None:
    tools = {tool.name: tool.schema for tool in definitions(domain=World())}
    paths = tools["Move"]["properties"]["if_unchanged"]
    assert (paths["type"], paths["items"]) == ("array", {"type": "string"})
    assert "if_unchanged" not in tools["Move"].get("required", ())
    assert all("if_unchanged" not in tools[name]["properties"] for name in (ASK, STOP))
    path = "world.objects/lamp/holder"
    intent = to_intent("Move", {"to": [1, 2], "if_unchanged": [path]}, domain=World())
    assert (intent.inputs, intent.if_unchanged) == ({"to": [1, 2]}, [path])
    assert parse_intent(intent.model_dump(), domain=World()) == intent
    assert (
        to_intent("Move", {"to": [1, 2], "if_unchanged": None}, domain=World()).if_unchanged == []
    )


def test_a_field_of_the_payload_with_the_name_of_the_conditions_is_the_payloads() -> None:
    [tool, *_] = definitions(domain=Own())
    assert tool.schema["properties"]["if_unchanged"]["type"] == "boolean"
    intent = to_intent("own__act", {"if_unchanged": True}, domain=Own())
    assert (intent.inputs, intent.if_unchanged) == ({"if_unchanged": True}, [])


@pytest.mark.parametrize(
    ("paths", "says"),
    [
        ("world.objects/lamp", "input should be an array, got 'world.objects/lamp'"),
        (["lamp"], "a path is collection/entity or collection/entity/field as in the view, of"),
        (["a/b"] * 17, "should have at most 16 items"),
    ],
)
def test_paths_of_another_form_are_an_error_prompt(paths: Any, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        to_intent("Move", {"to": [1, 2], "if_unchanged": paths}, domain=World())


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("Moove", "{}", "'Moove' does not exist. Choose from: Custom, Interact, Move, Speak."),
        ("Speak", "{}", "payload of Speak/text: field required"),
        ("Speak", "{", "expected one JSON object"),
    ],
)
def test_a_tool_that_was_not_offered_is_an_error_prompt(
    name: str, arguments: str, says: str
) -> None:
    with pytest.raises(ValueError, match=r".") as raised:
        to_intent(name, arguments, domain=World())
    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("not json", "The intent is no valid JSON"),
        ("[]", "The intent is not valid"),
        ({"type": "action_call", "action_id": "Fly", "inputs": {}}, "'Fly' does not exist"),
        ({"type": "action_call"}, "'action_call' needs a text as 'action_id'"),
        (
            {
                "type": "action_call",
                "action_id": "ask_clarification",
                "inputs": {"question": "Which?"},
            },
            "'ask_clarification' does not exist",
        ),
        (
            {"type": "clarification_request", "question": " "},
            "'clarification_request' needs a text as 'question'",
        ),
        ({"type": "action_call", "action_id": "Move", "role": "admin"}, "/role"),
    ],
)
def test_a_structured_intent_is_read_strictly(text: Any, says: str) -> None:
    given_text = text if isinstance(text, str) else json.dumps(text)
    answer = parse_intent(given_text, domain=World())
    assert isinstance(answer, str)
    assert says in answer


def test_the_two_documented_examples_are_parsed() -> None:
    call = parse_intent(
        '{"type": "action_call", "action_id": "Move", "inputs": {"to": [4, 2]}, "confirmed": true}',
        domain=World(),
    )
    assert isinstance(call, ChatIntent)
    assert (call.action_id, call.confirmed) == ("Move", True)
    asked = parse_intent(
        '{"type": "clarification_request", "question": "Which counter do you mean?"}',
        domain=World(),
    )
    assert isinstance(asked, ChatIntent)


def test_an_action_is_named_as_its_kind_and_not_as_its_tool() -> None:
    call = {"type": "action_call", "action_id": "till.put", "inputs": {"amount": 1}}
    assert isinstance(parse_intent(call, domain=Till()), ChatIntent)
    answer = parse_intent({**call, "action_id": "till__put"}, domain=Till())
    assert isinstance(answer, str)
    assert "'till__put' does not exist" in answer
    assert "Did you mean till.put" in answer


@given(st.text() | st.binary() | st.dictionaries(st.text(), st.text()))
def test_nothing_makes_the_strict_parser_raise(text: object) -> None:
    assert isinstance(parse_intent(text, domain=World()), str | ChatIntent)
