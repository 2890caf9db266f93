"""The agent layer as it is specified: each code block and each rule, literally."""

import json
from abc import ABC
from typing import Any, List, Optional, Union  # noqa: UP035  # the spelling of the specification

import pytest

from placet.agents import AgentAdapter, ChatIntent, ExecutionPlan, PlannerInput, Session
from placet.agents.proposal.tools import definitions, parse_intent, to_intent
from tests.agents.till import Till, put, talk, total

pytestmark = pytest.mark.anyio

# "Structured Intent", and "a Clarification Request", as the specification prints them, except
# for the kind
CALL = """{
  "type": "action_call",
  "action_id": "till.put",
  "inputs": { "amount": 42 },
  "confirmed": false
}"""
QUESTION = """{
  "type": "clarification_request",
  "question": "Which counter do you mean?"
}"""


class Integration(AgentAdapter):
    """The code block of the specification, with a body."""

    def __init__(self, *answers: Union[ChatIntent, ExecutionPlan]) -> None:  # noqa: UP007
        self.answers = list(answers)
        self.asked: list[dict[str, Any]] = []

    def message_to_intent_or_plan(
        self,
        message: str,
        history: List[dict],  # type: ignore[type-arg]  # noqa: UP006
        state: dict,  # type: ignore[type-arg]
        registry: dict,  # type: ignore[type-arg]
        media: Optional[dict] = None,  # type: ignore[type-arg]  # noqa: UP045
    ) -> Union[ChatIntent, ExecutionPlan]:  # noqa: UP007
        self.asked.append(
            {"message": message, "history": history, "state": state, "registry": registry}
        )
        return self.answers.pop(0)


def call(**changed: Any) -> ChatIntent:
    return ChatIntent.model_validate({**json.loads(CALL), **changed})


def test_the_base_class_is_abstract_and_has_the_documented_signature() -> None:
    assert issubclass(AgentAdapter, ABC)
    with pytest.raises(TypeError, match="abstract"):
        AgentAdapter()  # type: ignore[abstract]


async def test_any_subclass_is_an_adapter_and_gets_all_four_parts_of_the_context() -> None:
    integration = Integration(call(), ChatIntent.model_validate_json(QUESTION))
    async with talk(adapter=integration, mode="autonomous") as session:
        assert (await session.send("set it")).outcome == "applied"
        asked = await session.send("and the other")
        assert (asked.outcome, asked.message) == ("clarify", "Which counter do you mean?")
    first, second = integration.asked
    assert first["message"] == "set it"
    assert first["state"] == {"till.box": {"box": {"sum": 0}}}
    assert set(first["registry"]) == {"actions", "components"}
    assert set(first["registry"]["actions"]["till.put"]) == {"summary", "schema", "risk"}
    assert first["registry"]["components"] == {"till.box": ["sum"]}
    assert [line["text"] for line in second["history"]] == ["set it", "Done."]


@pytest.mark.parametrize(
    ("fields", "missing"),
    [
        ({"type": "clarification_request"}, "question"),
        ({"type": "clarification_request", "question": ""}, "question"),
        ({"type": "action_call"}, "action_id"),
        ({"type": "action_call", "action_id": "", "question": "which?"}, "action_id"),
    ],
)
def test_an_intent_without_what_its_type_requires_is_a_value_error(
    fields: dict[str, Any], missing: str
) -> None:
    with pytest.raises(ValueError, match=f"needs a text as '{missing}'"):
        ChatIntent(**fields)


async def test_a_plan_of_several_is_all_or_nothing() -> None:
    wrong = ExecutionPlan(goal="two", actions=[call(), call(inputs={"amount": -1})])
    right = ExecutionPlan(goal="two", actions=[call(), call(inputs={"amount": 1})], notes="n")
    async with talk(adapter=Integration(wrong, right), mode="autonomous") as session:
        turn = await session.send("go")
        assert [one.status for one in turn.attempts] == ["rejected", "applied"]
        assert await total(session) == 43


async def test_confirmed_is_read_ignored_and_logged() -> None:
    empty = call(action_id="till.empty", inputs={}, confirmed=True)
    async with talk(adapter=Integration(empty), mode="autonomous") as session:
        turn = await session.send("empty it")
        assert (turn.outcome, turn.stop) == ("held", "confirmation_required")
        handed = await session.hand_off(empty)
        assert handed.outcome == "held"
        assert "(confirmed: ignored)" in (await session.turns())[-1]["message"]
        outputs = []
        async for event in session.world.events(since=0):  # type: ignore[attr-defined]
            if event.type == "settled":
                outputs.append(event.data["output"]["response"])
            if event.seq >= session.world.seq:
                break
        assert outputs == [{"confirmed": "ignored"}]


async def test_an_unknown_action_is_answered_with_an_error_prompt() -> None:
    """'Action XYZ does not exist. Please chose from...', before it reaches the engine."""
    integration = Integration(call(action_id="XYZ"), call())
    async with talk(adapter=integration, mode="autonomous") as session:
        turn = await session.send("go")
        assert "'XYZ' does not exist. Choose from: " in turn.attempts[0].issues[0].message
        assert turn.outcome == "applied"
    first, again = integration.asked
    assert (first["message"], first["history"]) == ("go", [])
    assert again["message"].startswith(
        "go\n\nNothing of your last answer was done:\n- kind_unknown: 'XYZ' does not exist. Choose "
    )
    assert again["message"].endswith("\nAnswer the message again.")
    asked, answered = again["history"]
    assert (asked["text"], answered["outcome"]) == ("go", "refused")
    assert '"kind":"XYZ"' in answered["text"]
    assert again["message"].removeprefix("go\n\n") in answered["text"]
    prompt = parse_intent(CALL.replace("till.put", "XYZ"), domain=Till())
    assert isinstance(prompt, str)
    assert "'XYZ' does not exist. Choose from: " in prompt


async def test_an_integration_that_is_asked_again_is_never_asked_the_same() -> None:
    answers = [call(inputs={"amount": -1}), call(inputs={"amount": -2}), call()]
    integration = Integration(*answers)
    async with talk(adapter=integration, mode="autonomous") as session:
        assert (await session.send("go")).outcome == "applied"
    messages = [asked["message"] for asked in integration.asked]
    assert "amount must be 0 or more, got -1 (at /actions/0/payload/amount)" in messages[1]
    assert "got -2" in messages[2], "of the last answer; the history has all of them"
    assert [len(asked["history"]) for asked in integration.asked] == [0, 2, 4]


def test_the_registry_is_a_list_of_tools_and_a_selection_is_an_intent() -> None:
    assert "till__put" in [tool.name for tool in definitions(domain=Till())]
    selected = to_intent("till__put", {"amount": 42}, domain=Till())
    assert selected == parse_intent(CALL, domain=Till())


async def test_a_custom_adapter_may_hand_off_its_intent() -> None:
    """Step 5 of the loop: pass the `ChatIntent` to the execution engine."""
    async with Session.open(domain=Till()) as session:
        assert (await session.hand_off(call())).outcome == "applied"
        assert (await session.hand_off(ChatIntent.model_validate_json(QUESTION))).stop == (
            "clarification_needed"
        )
        assert (await session.hand_off(call(action_id="XYZ"))).stop == "kind_unknown"
        assert await total(session) == 42


async def test_the_context_has_persona_capabilities_state_and_memory() -> None:
    seen: list[PlannerInput] = []

    def model(context: PlannerInput) -> Any:
        seen.append(context)
        return [put(len(seen))]

    async with talk(adapter=model, mode="autonomous") as session:
        await session.send("one")
        await session.send("two")
    text = seen[1].text
    parts = ["<rules>", "<kinds>", "<view>", "<changes>", "<results>", "<conversation>"]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    for rule in ("You propose", "Never invent one", "check that what a kind needs", "ask the"):
        assert rule in text
