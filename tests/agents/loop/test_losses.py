"""A plan that is refused because others changed the world: asked once more, with the changes."""

from collections.abc import Sequence
from typing import Any

import pytest

from placet import Orchestrator
from placet.agents import PlannerInput, Session, Turn
from placet.domains.session import Sessions
from tests.agents.auction import Auction, bob_offers, offer

pytestmark = pytest.mark.anyio

Step = Sequence[tuple[str, dict[str, Any]]]


class Contested:
    """A proposer during whose first `losses` thoughts bob makes an offer."""

    def __init__(self, world: Orchestrator, losses: int, step: Step) -> None:
        self.asked: list[PlannerInput] = []
        self._world, self._losses, self._step = world, losses, step

    async def __call__(self, context: PlannerInput) -> Step:
        self.asked.append(context)
        if len(self.asked) <= self._losses:
            await bob_offers(self._world, len(self.asked))
        return self._step


async def contested(losses: int, *, mode: Any = "autonomous") -> tuple[Turn, Contested]:
    async with Orchestrator([Auction(), Sessions()]) as world:
        proposer = Contested(world, losses, [offer(90)])
        async with Session.open(world=world, adapter=proposer, mode=mode) as session:
            return await session.send("offer 90"), proposer


@pytest.mark.parametrize(
    ("losses", "outcome", "stop", "asked"),
    [
        (0, "applied", "completed", 1),
        (1, "applied", "completed", 2),
        (3, "applied", "completed", 4),
        (9, "failed", "attempts_exhausted", 4),
    ],
)
async def test_the_same_plan_after_a_loss_is_progress(
    losses: int, outcome: str, stop: str, asked: int
) -> None:
    turn, proposer = await contested(losses)
    assert (turn.outcome, turn.stop, len(proposer.asked)) == (outcome, stop, asked)


@pytest.mark.parametrize(
    ("mode", "losses", "asked", "stop"),
    [
        ("interactive", 1, 2, "confirmation_required"),
        ("interactive", 9, 2, "attempts_exhausted"),
        ("assisted", 2, 3, "completed"),
        ("assisted", 9, 3, "attempts_exhausted"),
    ],
)
async def test_the_first_loss_of_a_turn_uses_no_attempt(
    mode: str, losses: int, asked: int, stop: str
) -> None:
    turn, proposer = await contested(losses, mode=mode)
    assert (turn.stop, len(proposer.asked)) == (stop, asked)


async def test_a_lost_plan_is_answered_with_old_and_new_values_and_who_changed_them() -> None:
    _, proposer = await contested(1)
    [issue] = proposer.asked[1].repairs[0].issues
    assert issue.code == "stale_context"
    assert issue.message == (
        "auction.lots/lamp was changed by others while this was decided, so nothing of it was "
        "done; the view shows the present values: propose what fits them; if it rests on a few "
        "values alone, name their paths in if_unchanged, and no other change makes it stale"
    )
    assert [{**one, "seq": None} for one in issue.changed] == [
        {"path": "auction.lots/lamp/by", "by": "bob", "old": None, "new": "bob", "seq": None},
        {"path": "auction.lots/lamp/offer", "by": "bob", "old": 0, "new": 1, "seq": None},
    ]
    text = proposer.asked[1].text
    assert '"path":"auction.lots/lamp/offer"' in text.partition("<issues>")[2]


async def test_a_plan_that_is_wrong_twice_is_no_progress_also_after_a_loss() -> None:
    async with Orchestrator([Auction(), Sessions()]) as world:
        proposer = Contested(world, 1, [offer(1)])
        async with Session.open(world=world, adapter=proposer, mode="autonomous") as session:
            turn = await session.send("offer 1")
    codes = [[issue.code for issue in one.issues] for one in turn.attempts]
    assert codes == [["stale_context"], ["auction.too_low"], ["auction.too_low"]]
    assert turn.stop == "repair_no_progress"
