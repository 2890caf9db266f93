"""A plan of the domain `design` is approved as it was shown."""

import pytest

from placet.agents import ScriptedAdapter, Session

pytestmark = pytest.mark.anyio

STEPS = [("design.set", {"path": "hull.beam", "value": 9})]


async def test_a_plan_is_approved_as_it_was_shown():
    """A value derived from the seq differs at each attempt, and is no agent's change."""
    async with Session.open(
        domain="design", mode="interactive", adapter=ScriptedAdapter([STEPS])
    ) as session:
        turn = await session.send("do it")
        assert turn.outcome == "held"
        assert (await session.resolve(turn.approval_id, "approve", "ann")).outcome == "applied"
