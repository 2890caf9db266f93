"""Opening and closing sessions: their agent, name and mode."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from placet import Orchestrator
from placet.agents import (
    HumanAdapter,
    PlannerInput,
    PlannerOutput,
    ScriptedAdapter,
    Session,
    SessionError,
    Turn,
)
from placet.agents.proposal.plan_parser import Call
from placet.domains.session import SESSION_CHARS_MAX, Sessions
from placet.errors import AgentError, ClosedError
from placet.runtime.api.gateway import AgentGateway
from tests.agents.till import EMPTY, Till, put, talk, total

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def opened() -> AsyncIterator[Orchestrator]:
    async with Orchestrator([Till(), Sessions()]) as world:
        yield world


async def test_a_session_is_not_opened_as_another_agent() -> None:
    async with opened() as world:
        mine = await Session.open(world=world, session="a", adapter=ScriptedAdapter([[EMPTY]]))
        await mine.send("my secret is 42")
        with pytest.raises(
            SessionError, match="belongs to agent 'agent', not to 'other'"
        ) as caught:
            await Session.open(world=world, session="a", agent="other")
        assert caught.value.code == "session.agent_other"
        assert not await world.gateway.is_registered("other"), "who is refused leaves no trace"


async def test_the_default_agent_is_the_agent_of_the_session() -> None:
    async with opened() as world:
        mine = await Session.open(world=world, session="a", agent="planner")
        await mine.send("/till.put amount=1")
        again = await Session.open(world=world, session="a")
        assert again.agent_id == "planner"
        assert (await again.send("/till.put amount=1")).id == "a/2"
        assert (await Session.open(world=world, session="b")).agent_id == "agent"


async def test_the_default_mode_is_the_mode_of_the_latest_turn() -> None:
    async with opened() as world:
        fresh = await Session.open(world=world, session="a")
        assert fresh.mode == "assisted"
        fresh.mode = "interactive"
        await fresh.send("/till.put amount=1")
        assert (await Session.open(world=world, session="a")).mode == "interactive"
        told = await Session.open(world=world, session="a", mode="autonomous")
        assert told.mode == "autonomous"
        assert (await Session.open(world=world, session="a")).mode == "interactive"
        await told.send("/till.put amount=1")
        assert (await Session.open(world=world, session="a")).mode == "autonomous"
        assert (await Session.open(world=world, session="b")).mode == "assisted"


async def test_a_session_whose_latest_turn_was_deleted_opens_in_the_default_mode() -> None:
    async with opened() as world:
        before = world.seq
        session = await Session.open(world=world, session="a", mode="autonomous")
        await session.send("/till.put amount=1")
        await world.restore("session.turns", before)
        assert (await Session.open(world=world, session="a")).mode == "assisted"


async def test_a_new_session_belongs_to_the_agent_of_its_first_turn() -> None:
    told: list[PlannerInput] = []

    def listens(context: PlannerInput) -> Any:
        told.append(context)
        return [put(1)]

    async with opened() as world:
        one = await Session.open(world=world, session="a", adapter=ScriptedAdapter([[EMPTY]]))
        two = await Session.open(world=world, session="a", agent="other", adapter=listens)
        await one.send("empty it, my secret is 42")
        with pytest.raises(SessionError, match="belongs to agent 'agent'") as caught:
            await two.send("what was said?")
        assert caught.value.code == "session.agent_other"
        assert (told, await two.turns(), await two.approvals()) == ([], [], [])
        assert [len(await one.turns()), len(await one.approvals())] == [1, 1]
        await two.close_stale_turns()
        assert [row["outcome"] for row in await one.turns()] == ["held"]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("x" * (SESSION_CHARS_MAX + 1), "1 to 64 characters, got 65"),
        ("", "1 to 64 characters"),
        ("a\nb", "no control, bidirectional"),
    ],
)
def test_an_invalid_session_name_is_refused_at_opening(name: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Session.open(session=name)


async def test_a_session_in_the_log_keeps_a_name_that_a_new_one_may_not_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with opened() as world:
        with monkeypatch.context() as before:
            before.setattr("placet.agents.session.opener.name_fault", lambda _: "")
            old = await Session.open(world=world, session="caf\u00ade", adapter=None)
        with pytest.raises(SessionError, match="the name of a session must have no control, bidi"):
            await Session.open(world=world, session="caf\u00ade", adapter=None)  # it has no turn
        await old.send("hello")
        await old.close()
        async with Session.open(world=world, session="caf\u00ade", adapter=None) as again:
            assert len(await again.turns()) == 1


async def test_an_empty_agent_id_is_not_the_default_agent() -> None:
    async with opened() as world:
        with pytest.raises(AgentError, match="an agent_id must be 1 to 128 characters"):
            await Session.open(world=world, session="a", agent="")


async def test_the_longest_name_can_request_approvals_and_grants() -> None:
    name = "ü" * SESSION_CHARS_MAX
    async with talk([EMPTY], [EMPTY], session=name) as session:
        turn = await session.send("empty it")
        assert turn.outcome == "held"
        assert (await session.resolve(turn.approval_id, "approve", "ann")).outcome == "applied"
        await session.grant("till.empty", by="ann")
        assert (await session.send("empty it")).outcome == "applied"


# closing


async def test_a_closed_session_takes_no_message() -> None:
    async with opened() as world:
        session = await Session.open(world=world, adapter=ScriptedAdapter([[EMPTY]]))
        hold = (await session.send("empty it")).approval_id
        await session.close()
        await session.close()
        assert session.is_closed
        for begun in (session.send("/till.put amount=1"), session.resolve(hold, "approve", "ann")):
            with pytest.raises(ClosedError, match="was closed; open it again"):
                await begun
        again = await Session.open(world=world)
        assert (await again.resolve(hold, "approve", "ann")).outcome == "applied"


async def test_a_closed_session_makes_no_grant() -> None:
    async with opened() as world:
        session = await Session.open(world=world)
        await session.close()
        with pytest.raises(ClosedError, match="was closed; open it again"):
            await session.grant("till.empty", by="ann")


async def test_no_turn_begins_for_a_removed_agent() -> None:
    asked: list[PlannerInput] = []
    async with opened() as world:
        session = await Session.open(world=world, adapter=asked.append)
        await session.send("/till.put amount=1")
        await world.remove_agent(session.agent_id)
        for message in ("/till.put amount=1", "empty it"):
            with pytest.raises(SessionError, match="was removed; open the session again") as raised:
                await session.send(message)
            assert raised.value.code == "agent_unknown"
            assert raised.value.route == ("command" if message.startswith("/") else "agent")
        assert asked == []
        again = await Session.open(world=world)
        assert (await again.send("/till.put amount=1")).outcome == "applied"


async def test_a_later_agent_of_the_same_name_does_not_continue_the_session() -> None:
    asked: list[PlannerInput] = []
    async with opened() as world:
        session = await Session.open(world=world, adapter=asked.append)
        await world.remove_agent(session.agent_id)
        await world.register_agent(session.agent_id)
        assert not await session.has_agent()
        for message in ("/till.put amount=1", "empty it"):
            with pytest.raises(SessionError, match="was removed; open the session again"):
                await session.send(message)
        assert asked == []


async def test_an_answer_for_a_removed_agent_is_not_applied_for_its_successor() -> None:
    async with opened() as world:

        async def propose(_: PlannerInput) -> PlannerOutput:
            await world.remove_agent("agent")
            await world.register_agent("agent")
            return PlannerOutput(calls=[Call("till.put", '{"amount": 1}')])

        session = await Session.open(world=world, adapter=propose)
        turn = await session.send("put one")
        assert (turn.outcome, turn.stop) == ("refused", "agent_unknown")
        assert await total(session) == 0


@pytest.mark.parametrize("is_followed", [True, False])
async def test_the_proposer_of_a_removed_agent_is_not_called_again(
    is_followed: bool,
) -> None:
    asked: list[PlannerInput] = []
    async with opened() as world:

        async def propose(context: PlannerInput) -> str:
            asked.append(context)
            await world.remove_agent("agent")
            if is_followed:
                await world.register_agent("agent")
            return "{"

        session = await Session.open(world=world, adapter=propose)
        turn = await session.send("put one")
        assert (turn.outcome, turn.stop, len(asked)) == ("refused", "agent_unknown", 1)
        assert "removed" in turn.message
        assert [one.status for one in turn.attempts] == ["invalid"]


class Usurped(Orchestrator):
    """A world in which the agent is replaced by another of its name when a plan is submitted."""

    at = "nothing"

    async def submit(self, batch: Any, *, dry_run: bool = False, **options: Any) -> Any:
        if not dry_run and self.at in {intent["kind"] for intent in batch}:
            self.at = "nothing"
            await self.remove_agent("agent")
            await self.register_agent("agent")
        return await super().submit(batch, dry_run=dry_run, **options)


@pytest.mark.parametrize(("kind", "plan"), [("till.put", [put(1)]), ("approvals.ask", [EMPTY])])
async def test_a_plan_is_refused_if_its_agent_is_removed_before_the_decision(kind, plan) -> None:
    async with Usurped([Till(), Sessions()]) as world:
        session = await Session.open(world=world, adapter=ScriptedAdapter([plan]))
        world.at = kind
        turn = await session.send("go")
        assert (turn.outcome, turn.stop) == ("refused", "agent_unknown")
        assert await total(session) == 0
        assert await world.gateway.entities("session.approvals") == {}


async def test_no_turn_or_grant_is_recorded_for_a_later_agent_of_the_name() -> None:
    async with Usurped([Till(), Sessions()]) as world:
        session = await Session.open(world=world, adapter=ScriptedAdapter([]))
        world.at = "session.grant"
        with pytest.raises(PermissionError, match="the agent was removed"):
            await session.grant("till.empty", by="ann")
        assert await world.gateway.entities("session.grants") == {}
        again = await Session.open(world=world, adapter=ScriptedAdapter([]))
        world.at = "session.turn"
        with pytest.raises(SessionError, match="was removed; open the session again"):
            await again.send("go")
        assert await world.gateway.entities("session.turns") == {}


async def test_closing_ends_the_running_turn_and_the_queued_ones() -> None:
    human = HumanAdapter()
    async with opened() as world:
        session = await Session.open(world=world, adapter=human)
        ended: list[Turn | ClosedError] = []

        async def say() -> None:
            try:
                ended.append(await session.send("what now?"))
            except ClosedError as error:
                ended.append(error)

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(say)
                await human.wait_question()
                group.start_soon(say)
                await anyio.wait_all_tasks_blocked()
                await session.close()
        first, second = ended
        assert isinstance(first, Turn)
        assert first.stop == "operator_stopped"
        assert isinstance(second, ClosedError)


async def test_a_turn_stopped_as_it_begins_makes_no_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[PlannerInput] = []

    def listens(context: PlannerInput) -> Any:
        asked.append(context)
        return [put(1)]

    class Slow(Orchestrator):
        """A world in which the turn is stopped while its history is read."""

        session: Session | None = None

    read = AgentGateway.entities

    async def stop_and_read(gateway: AgentGateway, collection: str, names: Any = None) -> Any:
        if collection == "session.turns" and world.session is not None:
            world.session.stop()
        return await read(gateway, collection, names)

    monkeypatch.setattr(AgentGateway, "entities", stop_and_read)
    async with Slow([Till(), Sessions()]) as world:
        session = await Session.open(world=world, adapter=listens)
        await session.send("/till.look")  # so that there is something to be told
        world.session = session
        turn = await session.send("go")
        assert (turn.stop, asked) == ("operator_stopped", [])
        world.session = None
        assert (await session.send("go")).outcome == "applied"
        assert await total(session) == 1


async def test_an_opener_canceled_midway_leaves_the_executor_registered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caller = anyio.CancelScope()
    async with opened() as world:
        register = world.register_executor

        async def leave(*terms: Any, **options: Any) -> None:
            monkeypatch.setattr(world, "register_executor", register)
            caller.cancel()
            await register(*terms, **options)

        monkeypatch.setattr(world, "register_executor", leave)
        with caller:
            await Session.open(world=world, adapter=ScriptedAdapter([]))
        assert caller.cancelled_caught
        session = await Session.open(world=world, adapter=ScriptedAdapter([[put(1)]]))
        assert "session.propose" in await world.gateway.executed()
        assert (await session.send("go")).outcome == "applied"
