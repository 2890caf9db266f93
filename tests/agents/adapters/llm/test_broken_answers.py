"""Incomplete answers of a model: no part of them is applied, and the turn reports the reason."""

from time import monotonic
from typing import Any

import anyio
import pytest
from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart, ToolCallPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.function import FunctionModel

from placet.agents import AgentLimits, Llm, PlannerOutput, ReplayAdapter, Session
from placet.agents.adapters.llm.requests import Requests
from placet.agents.proposal.adapter import PlannerTimedOut, PlannerUnavailable
from placet.domains.world import World
from tests.agents.till import put, talk, total

pytestmark = pytest.mark.anyio

SPEAK = ToolCallPart("Speak", {"text": "hi"})
NOTHING = ModelRequestParameters()
MOVE = ToolCallPart("Move", {"to": [1, 2]})


def model(*answers: ModelResponse) -> FunctionModel:
    """A model with these answers; the last one is repeated."""
    left = list(answers)
    return FunctionModel(lambda _messages, _info: left.pop(0) if len(left) > 1 else left[0])


def answer(*parts: Any, **fields: Any) -> ModelResponse:
    return ModelResponse(parts=list(parts), **fields)


async def hangs(_messages: object, _info: object) -> ModelResponse:
    await anyio.sleep_forever()
    raise AssertionError


@pytest.mark.parametrize(
    ("reason", "code"), [("length", "plan_too_large"), ("error", "envelope_invalid")]
)
async def test_a_truncated_plan_is_not_applied_in_part(reason: Any, code: str) -> None:
    broken = answer(SPEAK, finish_reason=reason)
    llm = Llm(model(broken, answer(SPEAK, MOVE)))
    async with Session.open(domain=World(), adapter=llm, mode="autonomous") as session:
        turn = await session.send("greet and go")
        assert [one.status for one in turn.attempts] == ["invalid", "applied"]
        assert [one.code for one in turn.attempts[0].issues] == [code]
        assert [one.kind for one in turn.results] == ["Speak", "Move"], "once, and all of it"
        world: Any = session.world
        digest = await world.digest()
        recorded = await ReplayAdapter.of(world.events(since=0), world.seq, "main")
    async with Session.open(domain=World(), adapter=recorded, mode="autonomous") as session:
        again = await session.send("greet and go")
        assert [one.status for one in again.attempts] == ["invalid", "applied"]
        assert await session.world.digest() == digest  # type: ignore[attr-defined]  # it is one


async def test_every_call_of_a_truncated_answer_is_reported_as_not_proposed() -> None:
    told: list[Any] = []

    def listens(messages: list[Any], _info: object) -> ModelResponse:
        told.append(messages)
        return answer(SPEAK, MOVE, finish_reason="length" if len(told) == 1 else "stop")

    async with Session.open(domain=World(), adapter=Llm(listens), mode="autonomous") as session:
        assert (await session.send("go")).outcome == "applied"
    results = [part.content for part in told[1][-1].parts]
    assert "cut off" in str(results[0])
    assert results[1] == "not proposed: the batch was invalid"


async def test_truncated_text_is_shown_unchanged() -> None:
    llm = Llm(model(answer(TextPart("I would"), finish_reason="length")))
    async with Session.open(domain=World(), adapter=llm) as session:
        assert (await session.send("go")).message == "I would"


@pytest.mark.parametrize("parts", [[], [TextPart(" \n")], [ThinkingPart("hm")]], ids=repr)
async def test_an_answer_without_actions_is_requested_again(parts: list[Any]) -> None:
    for answers, ends in (
        ([answer(*parts), answer(SPEAK)], ("applied", "completed")),
        ([answer(*parts)], ("failed", "repair_no_progress")),
    ):
        llm = Llm(model(*answers))
        async with Session.open(domain=World(), adapter=llm, mode="autonomous") as session:
            turn = await session.send("go")
            assert (turn.outcome, turn.stop) == ends
            assert turn.attempts[0].issues[0].code == "actions_missing"


async def test_an_empty_answer_is_requested_again() -> None:
    async with talk(PlannerOutput(), [put(1)]) as session:
        assert (await session.send("go")).outcome == "applied"
        assert await total(session) == 1


async def test_a_request_is_abandoned_at_the_deadline_of_its_turn() -> None:
    requests = Requests(FunctionModel(hangs), {}, attempt_seconds_max=60.0)
    with pytest.raises(PlannerTimedOut, match=r"did not answer in time: "):
        await requests.send([], NOTHING, _soon())
    limits = AgentLimits(seconds_max=0.2)
    async with Session.open(domain=World(), adapter=Llm(hangs), limits=limits) as session:
        assert (await session.send("go")).stop == "deadline_exceeded"


async def test_an_attempt_that_exceeds_its_time_is_unavailable_and_not_a_deadline() -> None:
    requests = Requests(FunctionModel(hangs), {}, attempt_seconds_max=0.05)
    with pytest.raises(PlannerUnavailable) as caught:
        await requests.send([], NOTHING, _soon(9.0))
    assert type(caught.value) is PlannerUnavailable


def _soon(seconds: float = 0.1) -> float:
    return monotonic() + seconds
