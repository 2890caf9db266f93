"""A small domain for the reference model and the simulation, in which every stage can refuse.

Agents hold purses and take stalls. Coins are neither made nor lost (they come from the bank), so
a half-applied batch shows in the sum.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from typing_extensions import TypedDict

from placet.kernel.plugin.domain import Domain, Kind, RuleRefusal, conflict, refuse
from placet.kernel.state.draft import Draft
from placet.kernel.state.tree import State
from placet.schemas.effect import Effect, Settlement
from placet.schemas.identity import Ref
from placet.schemas.intent import Intent

PURSES: Final = "fair.purses"
STALLS: Final = "fair.stalls"
CLOCK: Final = "fair.clock"
POST: Final = "post"
BANK: Final = "the bank"

COINS: Final = 100_000
EARNED_MAX: Final = 10
COINS_MAX: Final = 30


class Amount(TypedDict):
    amount: int


class Payment(TypedDict):
    to: str
    amount: int


class Stall(TypedDict):
    stall: str


class Sight(TypedDict):
    """`stall` None looks at all of them."""

    stall: str | None


class Letters(TypedDict):
    count: int


class Nothing(TypedDict):
    pass


def _move(draft: Draft, giver: str, taker: str, amount: int) -> None:
    draft.put(PURSES, giver, "coins", draft.get(PURSES, giver, "coins") - amount)
    draft.put(PURSES, taker, "coins", draft.get(PURSES, taker, "coins") + amount)


def earn(draft: Draft, intent: Intent) -> None:
    """Take coins out of the bank, clamped to a maximum."""
    amount = intent["payload"]["amount"]
    if amount > EARNED_MAX:
        amount = EARNED_MAX
        draft.normalize({"amount": amount})
        draft.warn("clamped", f"more than {EARNED_MAX}", at="/amount")
    _move(draft, BANK, intent["agent_id"], amount)


def pay(draft: Draft, intent: Intent) -> RuleRefusal | None:
    """Move coins to another agent; it may refuse after moving them, so that they are moved back."""
    payload, agent_id = intent["payload"], intent["agent_id"]
    if not draft.exists(PURSES, payload["to"]):
        return refuse("nobody", f"there is no {payload['to']!r}", at="/to")
    _move(draft, agent_id, payload["to"], payload["amount"])
    if draft.get(PURSES, agent_id, "coins") < 0:
        return refuse("poor", "a purse cannot be less than empty", at="/amount")
    return None


def tend(draft: Draft, intent: Intent) -> None:
    """Depend on the own purse."""
    draft.put(PURSES, intent["agent_id"], "tended", draft.seq)


def take(draft: Draft, intent: Intent) -> RuleRefusal | None:
    """Take a stall, which only one may do at a time."""
    stall, agent_id = intent["payload"]["stall"], intent["agent_id"]
    winner = draft.claim(stall)
    if winner is not None:
        return conflict(stall, winner, at="/stall")
    if not draft.exists(STALLS, stall):
        draft.create(STALLS, stall)
    draft.put(STALLS, stall, "holder", agent_id)
    return None


def drop(draft: Draft, intent: Intent) -> RuleRefusal | None:
    """Take a stall down."""
    stall = intent["payload"]["stall"]
    if not draft.exists(STALLS, stall):
        return refuse("missing", f"there is no stall {stall!r}", at="/stall")
    draft.delete(STALLS, stall)
    return None


def look(draft: Draft, intent: Intent) -> None:
    """Depend on a stall, or on which stalls there are."""
    draft.put(PURSES, intent["agent_id"], "seen", draft.seq)


def look_reads(intent: Intent) -> Iterable[Ref]:
    yield Ref(STALLS, intent["payload"]["stall"])


def send(draft: Draft, intent: Intent) -> None:
    """Ask for effects."""
    for number in range(intent["payload"]["count"]):
        draft.emit(POST, {"number": number})


def burst(draft: Draft, intent: Intent) -> None:
    """Break, after having changed something."""
    _move(draft, BANK, intent["agent_id"], 1)
    draft.create(STALLS, f"half-made {draft.seq}")
    raise ZeroDivisionError("a bug")


class Fairground(Domain):
    """Contention, reads, an invariant, a rule that raises, effects, and a tick."""

    name = "fair"
    version = "1"
    kinds: Sequence[Kind] = (
        Kind("Earn", Amount, earn),
        Kind("Pay", Payment, pay),
        Kind("Tend", Nothing, tend, reads_self=PURSES),
        Kind("Take", Stall, take),
        Kind("Drop", Stall, drop),
        Kind("Look", Sight, look, reads=look_reads),
        Kind("Glance", Sight, look, reads=look_reads, when_stale="revalidate"),
        Kind("Send", Letters, send, effects=(POST,)),
        Kind("Burst", Nothing, burst),
    )

    def on_open(self, draft: Draft) -> None:
        draft.create(PURSES, BANK, {"coins": COINS})
        draft.create(CLOCK, "clock", {"ticks": 0})

    def on_register(self, draft: Draft, agent_id: str, attributes: Mapping[str, Any]) -> None:
        draft.create(PURSES, agent_id, {"coins": 0, "mail": 0})

    def on_remove(self, draft: Draft, agent_id: str) -> None:
        _move(draft, agent_id, BANK, draft.get(PURSES, agent_id, "coins"))
        draft.delete(PURSES, agent_id)

    def on_tick(self, draft: Draft, sim_time: float) -> None:
        draft.put(CLOCK, "clock", "ticks", draft.get(CLOCK, "clock", "ticks") + 1)

    def on_settle(self, draft: Draft, effect: Effect, settlement: Settlement) -> None:
        if draft.exists(PURSES, effect.agent_id):
            count = draft.get(PURSES, effect.agent_id, "mail")
            draft.put(PURSES, effect.agent_id, "mail", count + 1)

    def invariants(self, state: State, changed: Sequence[Ref]) -> Iterable[RuleRefusal]:
        return [
            refuse("rich", f"{ref.entity} has more than {COINS_MAX}")
            for ref in changed
            if ref.collection == PURSES and ref.entity not in {None, BANK}
            if state.get(PURSES, ref.entity or "", "coins", 0) > COINS_MAX
        ]
