"""A small domain for tests: a lot that everybody reads, so that an offer makes others' stale."""

from typing_extensions import TypedDict

from placet import Orchestrator
from placet.kernel import Domain, Draft, Kind
from placet.kernel.plugin.domain import RuleRefusal, refuse
from placet.schemas.intent import Intent


class Offer(TypedDict):
    amount: int


class Auction(Domain):
    """One lot whose highest offer everybody reads; a lower offer is refused by the rules."""

    name = "auction"
    version = "1"

    def __init__(self) -> None:
        self.kinds = (
            Kind(
                "auction.offer",
                Offer,
                _offer,
                risk="low",
                reads=lambda _intent: (("auction.lots", "lamp"),),
            ),
        )

    def on_open(self, draft: Draft) -> None:
        draft.create("auction.lots", "lamp", {"by": None, "offer": 0})


def _offer(draft: Draft, intent: Intent) -> RuleRefusal | None:
    amount = intent["payload"]["amount"]
    if amount <= draft.get("auction.lots", "lamp", "offer"):
        return refuse("too_low", "offer more", at="/amount")
    draft.put("auction.lots", "lamp", "offer", amount)
    draft.put("auction.lots", "lamp", "by", intent["agent_id"])
    return None


def offer(amount: int) -> tuple[str, dict[str, int]]:
    return ("auction.offer", {"amount": amount})


async def bob_offers(world: Orchestrator, amount: int) -> None:
    """Let another agent make an offer, which is admitted."""
    bob = await world.register_agent("bob")
    await bob.refresh_view()
    assert (await bob.submit([bob.intent("auction.offer", amount=amount)])).admitted
