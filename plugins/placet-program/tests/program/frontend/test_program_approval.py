"""A plan of the domain `program` is approved as it was shown."""

import pytest

from placet.agents import ScriptedAdapter, Session

pytestmark = pytest.mark.anyio

FUNCTION = {"op": "add_function", "name": "f", "params": [], "returns": "int"}
STEPS = [("program.mutate_batch", {"mutations": [FUNCTION]})]


async def test_a_plan_is_approved_as_it_was_shown():
    """A value derived from the seq differs at each attempt, and is no agent's change."""
    async with Session.open(
        domain="program", mode="interactive", adapter=ScriptedAdapter([STEPS])
    ) as session:
        turn = await session.send("do it")
        assert turn.outcome == "held"
        assert (await session.resolve(turn.approval_id, "approve", "ann")).outcome == "applied"
