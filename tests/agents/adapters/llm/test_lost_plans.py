"""A model whose plan others made stale, over the wire: what it reads when it is asked again."""

import json

import pytest

from placet import Orchestrator
from placet.agents import Llm, PlannerInput, PlannerOutput, Session
from placet.domains.session import Sessions
from placet.testing.faults import Anthropic, OpenAI, ScriptedModelServer, Wire
from tests.agents.auction import Auction, bob_offers

pytestmark = pytest.mark.anyio


class Outpaced:
    """A model that thinks while bob makes an offer, the first time."""

    is_priced = True

    def __init__(self, llm: Llm, world: Orchestrator) -> None:
        self._llm, self._world = llm, world

    async def propose(self, context: PlannerInput) -> PlannerOutput:
        raw = await self._llm.propose(context)
        if not context.repairs:
            await bob_offers(self._world, 5)
        return raw


@pytest.mark.parametrize("wire", [OpenAI(), Anthropic()], ids=lambda one: one.name)
async def test_a_model_reads_the_old_and_the_new_values_and_may_propose_the_same(
    wire: Wire,
) -> None:
    step = wire.says(("auction__offer", {"amount": 9}))
    async with (
        ScriptedModelServer([step, step]) as provider,
        Orchestrator([Auction(), Sessions()]) as world,
    ):
        adapter = Outpaced(Llm(wire.model(provider.url)), world)
        async with Session.open(world=world, adapter=adapter, mode="interactive") as session:
            turn = await session.send("offer 9")
    assert (turn.outcome, turn.stop) == ("held", "confirmation_required")
    first, second = map(wire.read, provider.requests)
    assert '"offer":0' in first.user[0]
    assert '"offer":5' in second.user[0], "it has the present view"
    [text] = second.results.values()
    told = json.loads(text)
    [issue] = told.get("error", told)["issues"]
    assert issue["at"] == "/actions/0"
    assert issue["message"].startswith("auction.lots/lamp was changed by others while this was")
    assert [(one["path"], one["old"], one["new"], one["by"]) for one in issue["changed"]] == [
        ("auction.lots/lamp/by", None, "bob", "bob"),
        ("auction.lots/lamp/offer", 0, 5, "bob"),
    ]
