"""Plans whose world changed after their preview, or while they were held."""

from typing import Any

import pytest

from placet import Orchestrator
from placet.agents import ScriptedAdapter, Session
from placet.domains.session import Sessions
from placet.kernel import Draft, Kind
from placet.kernel.plugin.domain import RuleRefusal, refuse
from placet.schemas.intent import Intent
from tests.agents.till import EMPTY, Nothing, Till, put, talk, total

pytestmark = pytest.mark.anyio


class Strict(Till):
    """A till that is emptied only when there is something in it."""

    def __init__(self) -> None:
        super().__init__()
        empty = Kind("till.empty", Nothing, _empty, risk="high", reads=lambda _intent: ())
        self.kinds = (*(kind for kind in self.kinds if kind.name != "till.empty"), empty)


def _empty(draft: Draft, _intent: Intent) -> RuleRefusal | None:
    if not draft.get("till.box", "box", "sum"):
        return refuse("nothing", "there is nothing in it", at="/amount")
    draft.put("till.box", "box", "sum", 0)
    return None


class Robbed(Orchestrator):
    """A world in which another agent commits first, once, after a dry run."""

    is_robbed = False

    async def submit(self, batch: Any, *, dry_run: bool = False, **options: Any) -> Any:
        verdict = await super().submit(batch, dry_run=dry_run, **options)
        if dry_run and self.is_robbed and verdict.admitted:
            self.is_robbed = False
            bob = await self.register_agent("bob")
            await super().submit([bob.intent("till.empty")])
        return verdict


async def test_an_approval_of_a_plan_that_is_refused_ends_the_request() -> None:
    async with Orchestrator([Strict(), Sessions()]) as world:
        session = await Session.open(world=world, adapter=ScriptedAdapter([[EMPTY]]))
        await session.send("/till.put amount=5")
        turn = await session.send("empty it")
        bob = await world.register_agent("bob")
        await world.submit([bob.intent("till.empty")])
        refused = await session.resolve(turn.approval_id, "approve", "ann")
        assert (refused.outcome, refused.stop) == ("refused", "till.nothing")
        assert [approval.state for approval in await session.approvals()] == ["stale"]
        again = await session.resolve(turn.approval_id, "approve", "ann")
        assert again.message == f"request {turn.approval_id!r} is stale already; it is decided once"


async def test_a_refusal_points_at_the_action_of_the_plan_and_not_of_the_batch() -> None:
    async with Robbed([Strict(), Sessions()]) as world:
        session = await Session.open(world=world, adapter=ScriptedAdapter([[EMPTY]] * 2))
        await session.send("/till.put amount=5")
        await session.grant("till.empty", by="ann")
        world.is_robbed = True
        turn = await session.send("empty it")
        issue = turn.attempts[0].issues[0]
        assert (issue.code, issue.at) == ("till.nothing", "/actions/0/payload/amount")
        [grant] = (await world.gateway.entities("session.grants")).values()
        assert grant["uses"] == 1, "what was refused used nothing up"


async def test_a_grant_is_used_only_for_actions_that_need_it() -> None:
    plan = [put(1), EMPTY, put(2)]
    async with talk(plan, plan, mode="autonomous") as session:
        await session.grant("till.empty", by="ann")
        assert (await session.send("go")).outcome == "applied"
        assert await total(session) == 2
        assert (await session.send("go")).outcome == "held", "it is used up"


async def test_a_long_conversation_is_read_whole() -> None:
    async with talk(domain=[Till(), Sessions(turns_kept=200)], adapter=None) as session:
        for number in range(1, 131):
            await session.send(f"/till.put amount={number}")
        rows = await session.turns()
        assert [row["message"] for row in rows] == [
            f"/till.put amount={number}" for number in range(1, 131)
        ]
