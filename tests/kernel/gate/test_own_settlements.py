"""An own effect's settlement makes the next intent of its agent not stale, that of others does."""

from typing import Any

import pytest

from placet.kernel import Domain, Kernel, KernelConfig, Kind
from placet.kernel.log.replay import folded
from placet.kernel.log.snapshot import world_digest
from placet.kernel.log.verify import Verifier
from placet.schemas.effect import Effect, EffectKey, Settlement
from placet.schemas.log.record import Settled, decode_record


class Shop(Domain):
    """Agents send orders; the outcome is written into their purse."""

    name, version = "shop", "1"
    kinds = (
        Kind(
            "Order",
            dict[str, str],
            lambda draft, intent: draft.emit("pay", {"who": intent["payload"]["to"]}),
            effects=("pay",),
            reads_self="shop.purses",
        ),
    )

    def on_register(self, draft: Any, agent_id: str, attributes: Any) -> None:
        draft.create("shop.purses", agent_id, {"paid": 0, "luck": 0})

    def on_settle(self, draft: Any, effect: Effect, settlement: Settlement) -> None:
        draft.put("shop.purses", effect.payload["who"], "paid", 1)
        draft.put("shop.purses", effect.payload["who"], "luck", draft.randint_below(100, "luck"))


def opened(log: list[bytes]) -> Kernel:
    kernel = Kernel(Shop(), KernelConfig(seed=4), sink=log.append)
    kernel.change_executor("pay", 9)
    for agent_id in ("ann", "bob"):
        kernel.register_agent(agent_id)
    return kernel


@pytest.mark.parametrize("who", ["ann", "bob"])
def test_only_settlements_of_others_make_an_intent_stale(who):
    log: list[bytes] = []
    kernel = opened(log)
    sent = kernel.decide([kernel.intent("Order", agent=who, to="ann")], 1.0)
    early = kernel.intent("Order", agent="ann", to="ann")
    kernel.settle(Settlement(EffectKey("world", sent.seq or 0, 0), True, None), 2.0)
    codes = kernel.decide([early], 3.0).codes
    assert codes == (() if who == "ann" else ("stale_context",))
    stamp = kernel.tree.stamp("shop.purses", "ann")
    assert stamp is not None
    assert stamp.by == who
    past = folded(log)
    assert world_digest(past.state, past.ledger).hex() == kernel.world_digest()
    verifier = Verifier([Shop()])
    for data in log:
        verifier.apply(data)
    assert verifier.unverified == []


def test_the_draws_of_a_settlement_are_in_the_name_of_the_system():
    """As in logs of earlier code, so that they are decided alike."""
    log: list[bytes] = []
    kernel = opened(log)
    orders = [
        kernel.decide([kernel.intent("Order", agent=who, to=who)], 1.0) for who in ("ann", "bob")
    ]
    lucks = []
    for order, who in zip(orders, ("ann", "bob"), strict=True):
        kernel.settle(Settlement(EffectKey("world", order.seq or 0, 0), True, None), 2.0)
        lucks.append(kernel.state["shop.purses"][who]["luck"])
    assert lucks[0] != lucks[1]  # two at one moment do not draw alike


def test_the_settlement_of_a_removed_agent_is_of_the_system():
    log: list[bytes] = []
    kernel = opened(log)
    sent = kernel.decide([kernel.intent("Order", agent="bob", to="ann")], 1.0)
    kernel.remove_agent("bob")
    kernel.settle(Settlement(EffectKey("world", sent.seq or 0, 0), True, None), 2.0)
    settled = next(r for r in map(decode_record, log) if isinstance(r, Settled))
    assert {change.by for change in settled.changes.entities} == {"system"}
