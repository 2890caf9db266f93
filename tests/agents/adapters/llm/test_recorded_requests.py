"""Recorded answers are reused for equal requests alone: over the wire, and in forks."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from placet import Orchestrator, OrchestratorConfig
from placet.agents import Llm, ReplayAdapter, Session, Turn
from placet.domains.session import Sessions
from placet.domains.world import World
from placet.history.fork import fork
from placet.stores.url import open_event_log
from placet.testing.faults import OpenAI, ScriptedModelServer, ServerAnswer

pytestmark = pytest.mark.anyio

OPENAI = OpenAI()
SAID = ("say one", "say two")
SPEAK = [OPENAI.says(("Speak", {"text": text})) for text in ("one", "two")]
OTHER = OPENAI.says(("Speak", {"text": "other"}))


async def converse(
    world: Orchestrator, adapter: Any, messages: Sequence[str] = SAID, **options: Any
) -> list[Turn]:
    options = {"mode": "autonomous", **options}
    async with Session.open(world=world, adapter=adapter, **options) as session:
        return [await session.send(message) for message in messages]


async def recorded(llm: Any, provider: ScriptedModelServer, **options: Any) -> ReplayAdapter:
    """Record a conversation of two messages; return the adapter that reuses its answers."""
    async with Orchestrator([World(), Sessions()]) as world:
        turns = await converse(world, llm)
        assert [turn.outcome for turn in turns] == ["applied", "applied"]
        assert len(provider.requests) == len(SAID)
        return await ReplayAdapter.of(world.events(since=0), world.seq, "main", **options)


async def said(world: Orchestrator) -> Any:
    return (await world.state("world.speech/agent/said"))["text"]


@pytest.mark.parametrize(
    ("changed", "asked"),
    [
        ({}, 0),
        ({"settings": {"seed": 7}}, 2),
        ({"settings": {"max_tokens": 512}}, 2),
        ({"model": "gpt-5"}, 2),
    ],
)
async def test_an_answer_is_reused_only_of_the_same_model_and_settings(
    changed: dict[str, Any], asked: int
) -> None:
    name = changed.pop("model", None)
    async with ScriptedModelServer([*SPEAK, OTHER, OTHER]) as provider:
        live: Any = OPENAI.model(provider.url)
        if name is not None:
            live._model_name = name
        adapter = Llm(live, **changed)
        replay = await recorded(Llm(OPENAI.model(provider.url)), provider, adapter=adapter)
        async with Orchestrator([World(), Sessions()]) as world:
            await converse(world, replay)
            assert await said(world) == ("other" if asked else "two")
        assert len(provider.requests) == len(SAID) + asked
    assert replay.counts == (2 - asked, asked, 0, asked)


async def test_an_answer_is_reused_only_with_the_same_tools() -> None:
    async with ScriptedModelServer([*SPEAK, OTHER, OTHER]) as provider:
        llm = Llm(OPENAI.model(provider.url))
        replay = await recorded(llm, provider, adapter=llm)
        async with Orchestrator([World(), Sessions()]) as world:
            await converse(world, replay, permissions=["Speak"])
    assert replay.counts == (0, 2, 0, 2)
    assert OPENAI.read(provider.requests[-1]).tools == ["Speak", "ask_clarification", "stop"]


async def test_another_prompt_gets_no_recorded_answer() -> None:
    async with ScriptedModelServer(SPEAK) as provider:
        replay = await recorded(Llm(OPENAI.model(provider.url)), provider)
        async with Orchestrator([World(), Sessions()]) as world:
            first, second = await converse(world, replay, ["say one", "say three"])
    assert (first.outcome, second.stop) == ("applied", "planner_unavailable")
    assert second.message == (
        "the recording has no answer to this request: 1 unused answer is to other requests, which "
        "differ in message, view, conversation, kinds or limits; pass adapter= to ask a model "
        "instead"
    )
    assert repr(replay) == "<ReplayAdapter: 1 reused, 0 requested, 1 refused, 1 unused>"


async def test_a_world_that_went_another_way_asks_from_there_on() -> None:
    async with ScriptedModelServer([*SPEAK, OTHER]) as provider:
        llm = Llm(OPENAI.model(provider.url))
        replay = await recorded(llm, provider, adapter=llm)
        async with Orchestrator([World(), Sessions()]) as world:
            await converse(world, replay, SAID[:1])
            bob = await world.register_agent("bob")
            assert (await bob.submit([bob.intent("Speak", text="Stop!")])).admitted
            await converse(world, replay, SAID[1:])
            assert await said(world) == "other"
    assert replay.counts == (1, 1, 0, 1)


async def test_a_fork_reuses_the_answers_of_its_parent_until_it_differs(tmp_path: Path) -> None:
    parent, child = (f"sqlite:///{tmp_path / name}.db" for name in ("parent", "child"))
    async with ScriptedModelServer([*SPEAK, OTHER]) as provider:
        llm = Llm(OPENAI.model(provider.url))
        config = OrchestratorConfig(store=parent)
        async with Orchestrator([World(), Sessions()], config) as world:
            async with Session.open(world=world, adapter=llm, mode="autonomous") as session:
                begun = world.seq
                for message in SAID:
                    await session.send(message)
            replay = await ReplayAdapter.of(world.events(since=0), world.seq, "main", adapter=llm)
        made = fork(open_event_log(parent), child, at=begun)
        config = OrchestratorConfig(store=child, world=made.world)
        async with Orchestrator([World(), Sessions()], config) as world:
            await converse(world, replay, ["say one", "say three"])
            assert await said(world) == "other"
    assert replay.counts == (1, 1, 0, 1)


async def test_a_replay_of_a_replay_has_the_requests_of_the_first() -> None:
    steps: list[ServerAnswer] = [*SPEAK]
    async with ScriptedModelServer(steps) as provider:
        llm = Llm(OPENAI.model(provider.url))
        replay = await recorded(llm, provider)
        async with Orchestrator([World(), Sessions()]) as world:
            await converse(world, replay)
            again = await ReplayAdapter.of(world.events(since=0), world.seq, "main", adapter=llm)
        async with Orchestrator([World(), Sessions()]) as world:
            await converse(world, again)
            assert await said(world) == "two"
    assert again.counts == (2, 0, 0, 0)


async def test_a_function_may_answer_what_the_recording_does_not_have() -> None:
    async with Orchestrator([World(), Sessions()]) as world:
        await converse(world, lambda _context: [("Speak", {"text": "one"})], SAID[:1])
        replay = await ReplayAdapter.of(
            world.events(since=0),
            world.seq,
            "main",
            adapter=lambda _context: [("Speak", {"text": "other"})],
        )
    async with Orchestrator([World(), Sessions()]) as world:
        await converse(world, replay)
        assert await said(world) == "other"
    assert replay.counts == (1, 1, 0, 0)
    with pytest.raises(TypeError, match="got int"):
        ReplayAdapter([], adapter=3)
