"""Plans that name the values they rest on: paths become conditions with the values of the view."""

from typing import Any

import pytest

from placet import Orchestrator
from placet.agents import ChatIntent, PlannerInput, ScriptedAdapter, Session, Turn
from placet.agents.loop.losses import with_old_values
from placet.agents.proposal.plan import Issue
from placet.agents.proposal.repair_text import error_prompt
from placet.domains.session import Sessions
from tests.agents.auction import Auction, bob_offers
from tests.agents.till import Till

pytestmark = pytest.mark.anyio

BY, SUM = "auction.lots/lamp/by", "till.box/box/sum"


def action(amount: int, *paths: Any, **more: Any) -> dict[str, Any]:
    return {
        "kind": "auction.offer",
        "payload": {"amount": amount},
        "if_unchanged": list(paths),
        **more,
    }


class Proposer:
    """Proposes one plan again and again; bob makes an offer during its first thoughts."""

    def __init__(self, world: Orchestrator, *actions: Any, offers: int, seq: int = 0) -> None:
        self.asked: list[PlannerInput] = []
        self._world, self._actions, self._offers, self._seq = world, actions, offers, seq

    async def __call__(self, context: PlannerInput) -> dict[str, Any]:
        self.asked.append(context)
        if len(self.asked) <= self._offers:
            await bob_offers(self._world, len(self.asked))
        return {
            "version": "placet.plan/1",
            "goal": "offer",
            "base_seq": context.base_seq - self._seq,
            "actions": list(self._actions),
        }


async def send(*actions: Any, offers: int = 0, **more: Any) -> tuple[Turn, Proposer]:
    async with Orchestrator([Auction(), Sessions()]) as world:
        proposer = Proposer(world, *actions, offers=offers, **more)
        async with Session.open(world=world, adapter=proposer, mode="autonomous") as session:
            return await session.send("offer"), proposer


async def test_a_plan_whose_conditions_hold_is_not_stale() -> None:
    turn, proposer = await send(action(90, "auction.lots/lamp/reserve"), offers=1)
    assert (turn.outcome, len(proposer.asked)) == ("applied", 1)
    turn, proposer = await send(action(90), offers=1)
    assert (turn.outcome, len(proposer.asked)) == ("applied", 2), "an empty list is no condition"


async def test_the_values_are_those_of_the_view_that_the_plan_was_decided_on() -> None:
    turn, proposer = await send(action(90, "auction.lots/cup", BY), offers=1)
    assert [[issue.code for issue in one.issues] for one in turn.attempts] == [
        ["condition_failed"],
        [],
    ]
    [issue] = proposer.asked[1].repairs[0].issues
    assert issue.message == (
        f'{BY} was null in the view that this was decided on and is "bob" now, so nothing of it '
        "was done; propose what fits the present view, and name in if_unchanged only the values "
        "that the decision rests on"
    )
    assert issue.at == "/actions/0/if_unchanged/1"
    assert issue.changed == ({"path": BY, "old": None, "new": "bob"},)
    assert error_prompt([issue]).count('"bob"') == 1


def test_large_values_are_cut_from_an_issue() -> None:
    found = Issue(code="condition_failed", message="", changed=({"path": BY, "new": "x" * 5_000},))
    [issue] = with_old_values([found], {"auction.lots": {"lamp": {"by": "bob"}}})
    assert issue.changed == ({"path": BY},)
    assert 200 < len(issue.message) < 600


@pytest.mark.parametrize(
    ("path", "message", "suggestions"),
    [
        ("auction.lot/lamp", "'auction.lot/lamp' starts with no collection", "auction.lots/lamp"),
        ("lamp/by", "'lamp/by' starts with no collection", "auction.lots/lamp/by"),
        ("session.turns/main~11", "'session.turns/main~11' starts with no collection", ""),
        ("lamp", "a path is collection/entity or collection/entity/field as in the view", ""),
        ("a//b", "a path is collection/entity or collection/entity/field as in the view", ""),
        (7, "input should be a valid string, got 7", ""),
    ],
)
async def test_an_unknown_path_is_an_issue_with_the_nearest_one(
    path: Any, message: str, suggestions: str
) -> None:
    turn, _ = await send(action(90, BY, path))
    issue = turn.attempts[0].issues[0]
    assert (issue.code, issue.at) == ("envelope_invalid", "/actions/0/if_unchanged/1")
    assert issue.message.startswith(message)
    assert "".join(issue.suggestions[:1]) == suggestions
    assert turn.stop == "repair_exhausted"


async def test_paths_are_of_the_view_that_was_shown() -> None:
    turn, _ = await send(action(90, BY), seq=1)
    [issue] = turn.attempts[0].issues
    assert (issue.code, issue.at) == ("envelope_invalid", "/base_seq")
    assert "that you were shown, so base_seq must be" in issue.message


async def test_an_approved_plan_expects_what_its_proposer_saw() -> None:
    empty = {"kind": "till.empty", "if_unchanged": [SUM, "till.box/other"]}
    async with Orchestrator([Till(), Sessions()]) as world:
        session = await Session.open(world=world)

        async def held() -> str:
            plan = {"version": "placet.plan/1", "goal": "empty", "base_seq": world.seq + 1}
            script = ScriptedAdapter([{**plan, "actions": [empty]}])
            return (await session.send("empty it", adapter=script)).approval_id

        await session.send("/till.put amount=5")
        first = await held()
        [approval] = await session.approvals()
        assert approval.actions[0]["expect"] == [
            {"path": ["till.box", "box", "sum"], "op": "==", "value": 5},
            {"path": ["till.box", "other"], "op": "absent"},
        ]
        await session.send("/till.put amount=1")
        turn = await session.resolve(first, "approve", "ann")
        assert (turn.outcome, turn.stop) == ("refused", "condition_failed")
        assert (await session.resolve(await held(), "approve", "ann")).outcome == "applied"


async def test_a_handed_over_intent_expects_the_values_of_its_view() -> None:
    async with Orchestrator([Auction(), Sessions()]) as world:
        session = await Session.open(world=world, mode="autonomous")
        state = await session.state()
        intent = ChatIntent(
            type="action_call", action_id="auction.offer", inputs={"amount": 9}, if_unchanged=[BY]
        )
        turn = await session.hand_off(intent)
        assert turn.message == "if_unchanged needs a view to have the values of: look at it first"
        await bob_offers(world, 1)
        turn = await session.hand_off(intent, state=state)
        assert turn.stop == "condition_failed"
        turn = await session.hand_off(intent, state=await session.state())
        assert turn.outcome == "applied"
