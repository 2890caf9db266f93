"""The budget of a turn: no request is sent that may cost more than is left of it."""

from decimal import Decimal
from typing import Any

import pytest

from placet import Orchestrator
from placet.agents import AgentLimits, Llm, PlannerInput, Prices, ReplayAdapter, Session
from placet.agents.proposal.adapter import Media, PlannerOverBudget
from placet.agents.proposal.catalogue import Catalogue
from placet.agents.proposal.context_text import build
from placet.domains.session import Sessions
from placet.domains.world import World
from placet.testing.faults import Anthropic, OpenAI, ScriptedModelServer

pytestmark = pytest.mark.anyio

OPENAI, ANTHROPIC = OpenAI(), Anthropic()
SPEAK = ("Speak", {"text": "hi"})
UNKNOWN = ("Speek", {"text": "hi"})
OUTPUT_ONLY = Prices(0, 100)
"""An answer of 4 096 tokens costs 0.4096 dollars, one of 10 tokens 0.001."""


def context(**fields: Any) -> PlannerInput:
    catalogue = Catalogue(World())
    return PlannerInput("say hi", build(domain=catalogue), 3, catalogue, **fields)


async def test_a_request_that_may_exceed_the_limit_in_money_is_not_sent() -> None:
    async with ScriptedModelServer([OPENAI.says(SPEAK)] * 2) as provider:
        llm = Llm(OPENAI.model(provider.url), prices=OUTPUT_ONLY)
        limits = AgentLimits(cost_usd_max=Decimal("0.4095"))
        async with Session.open(domain=World(), adapter=llm, limits=limits) as session:
            turn = await session.send("say hi")
        assert (turn.outcome, turn.stop, provider.requests) == ("failed", "cost_exhausted", [])
        assert turn.usage.cost_usd == 0
        assert "may cost 0.4096 USD" in turn.message
        assert "at most 4096 out), and 0.4095 USD are left" in turn.message
        assert all(way in turn.message for way in ("--max-usd", "cost_usd_max", "--max-tokens"))
        limits = AgentLimits(cost_usd_max=Decimal("0.4096"))
        async with Session.open(domain=World(), adapter=llm, limits=limits) as session:
            assert (await session.send("say hi")).outcome == "applied"


async def test_a_turn_that_reaches_its_limit_in_money_replays_without_a_model() -> None:
    limits = AgentLimits(cost_usd_max=Decimal("0.41"))
    async with ScriptedModelServer([OPENAI.says(UNKNOWN), OPENAI.says(SPEAK)]) as provider:
        llm = Llm(OPENAI.model(provider.url), prices=OUTPUT_ONLY)
        async with Orchestrator([World(), Sessions()]) as world:
            async with Session.open(world=world, adapter=llm, limits=limits) as session:
                turn = await session.send("say hi")
            replay = await ReplayAdapter.of(world.events(since=0), world.seq, "main")
        assert len(provider.requests) == 1
    assert (turn.stop, turn.usage.requests) == ("cost_exhausted", 1)
    assert turn.usage.cost_usd == Decimal("0.001")
    assert "0.409 USD are left" in turn.message
    async with Session.open(domain=World(), adapter=replay, limits=limits) as session:
        again = await session.send("say hi")
    assert (again.stop, again.message) == (turn.stop, turn.message)
    assert again.usage == turn.usage


async def test_without_a_limit_in_money_the_request_is_sent() -> None:
    async with ScriptedModelServer([OPENAI.says(SPEAK)]) as provider:
        llm = Llm(OPENAI.model(provider.url), prices=Prices(9_999, 9_999))
        limits = AgentLimits(cost_usd_max=None)
        async with Session.open(domain=World(), adapter=llm, limits=limits) as session:
            assert (await session.send("say hi")).outcome == "applied"


async def test_an_answer_is_limited_to_the_tokens_that_the_turn_has_left() -> None:
    from placet.agents.adapters.llm.reserve import ANSWER_TOKENS_MIN

    async with ScriptedModelServer([OPENAI.says(SPEAK)] * 2) as provider:
        llm = Llm(OPENAI.model(provider.url))
        await llm.propose(context(tokens_left=2_000))
        limit = provider.requests[0].body["max_tokens"]
        assert ANSWER_TOKENS_MIN < limit < 2_000
        asked = 2_000 - limit
        await llm.propose(context(tokens_left=asked + ANSWER_TOKENS_MIN))
        assert provider.requests[1].body["max_tokens"] == ANSWER_TOKENS_MIN
        with pytest.raises(PlannerOverBudget) as failure:
            await llm.propose(context(tokens_left=asked + ANSWER_TOKENS_MIN - 1))
        assert len(provider.requests) == 2
    assert failure.value.code == "tokens_exhausted"
    assert f"about {asked} tokens, its answer at least 256" in str(failure.value)
    assert "--max-tokens" in str(failure.value)


async def test_an_answer_that_thinks_is_not_limited_below_its_thoughts() -> None:
    thinking: Any = {"anthropic_thinking": {"type": "enabled", "budget_tokens": 2_000}}
    async with ScriptedModelServer([ANTHROPIC.says(SPEAK)] * 3) as provider:
        model = ANTHROPIC.model(provider.url)
        await Llm(model).propose(context(tokens_left=3_000))
        await Llm(model, settings=thinking).propose(context(tokens_left=3_000))
        stated: Any = {**thinking, "max_tokens": 2_900}
        await Llm(model, settings=stated).propose(context(tokens_left=3_000))
        with pytest.raises(PlannerOverBudget, match="at most 32768 out"):
            await Llm(model, settings=thinking, prices=OUTPUT_ONLY).propose(
                context(usd_left=Decimal(3))
            )
    plain, counted, chosen = (one.body["max_tokens"] for one in provider.requests)
    assert plain < 3_000
    assert counted > 3_000
    assert chosen == 2_900


async def test_a_picture_is_not_counted_by_its_bytes() -> None:
    picture = Media("ab" * 32, "image/png", b"p" * 1_000_000)
    async with ScriptedModelServer([OPENAI.says(SPEAK, usage=0)]) as provider:
        raw = await Llm(OPENAI.model(provider.url)).propose(context(media=(picture,)))
    assert 1_600 < raw.usage.input_tokens < 4_000


async def test_the_reserve_of_a_request_counts_the_tools_that_it_offers() -> None:
    from pydantic_ai.models import ModelRequestParameters

    from placet.agents.adapters.llm.messages import conversation
    from placet.agents.adapters.llm.reserve import tokens_of_request

    messages = conversation(context(), is_searching=False)
    async with ScriptedModelServer([OPENAI.says(SPEAK, usage=0)]) as provider:
        raw = await Llm(OPENAI.model(provider.url)).propose(context())
        sent = len(str(provider.requests[0].body)) / 4
    assert raw.usage.input_tokens > tokens_of_request(messages, ModelRequestParameters())
    assert 0.8 < raw.usage.input_tokens / sent < 1.25
