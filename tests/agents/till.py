"""A small domain for tests: money in a till, large sums, and ways to fail."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from typing_extensions import TypedDict

from placet.agents import ScriptedAdapter, Session, Turn
from placet.kernel import Domain, Draft, Kind
from placet.kernel.plugin.domain import Risk, RuleRefusal, refuse
from placet.schemas.codec import Json
from placet.schemas.intent import Intent


class Amount(TypedDict):
    amount: int


class Nothing(TypedDict):
    pass


class Till(Domain):
    """Money in a till: small and large sums, a look inside, and a way to fail."""

    name = "till"
    version = "1"

    def __init__(self) -> None:
        self.kinds: tuple[Kind, ...] = (
            Kind("till.put", Amount, _put, risk_of=_risk),
            Kind("till.empty", Nothing, _empty, risk="high"),
            Kind("till.look", Nothing, _look, risk="read"),
            Kind("till.tell", Amount, _tell, risk="read"),
            Kind("till.pay", Amount, _pay, effects=("till.bank",)),
        )

    def on_open(self, draft: Draft) -> None:
        draft.create("till.box", "box", {"sum": 0})


def _put(draft: Draft, intent: Intent) -> RuleRefusal | None:
    amount = intent["payload"]["amount"]
    if amount < 0:
        return refuse("negative", f"amount must be 0 or more, got {amount}", at="/amount")
    draft.put("till.box", "box", "sum", draft.get("till.box", "box", "sum") + amount)
    return None


def _empty(draft: Draft, _intent: Intent) -> None:
    draft.put("till.box", "box", "sum", 0)


def _look(draft: Draft, _intent: Intent) -> None:
    draft.answer(draft.get("till.box", "box", "sum"))


def _tell(draft: Draft, intent: Intent) -> None:
    draft.answer("x" * intent["payload"]["amount"])


def _pay(draft: Draft, intent: Intent) -> None:
    draft.emit("till.bank", {"amount": intent["payload"]["amount"]})


def _risk(payload: Mapping[str, Json], _state: object) -> Risk:
    return "medium" if payload["amount"] >= 100 else "low"


def put(amount: int) -> tuple[str, dict[str, int]]:
    return ("till.put", {"amount": amount})


LOOK: tuple[str, dict[str, int]] = ("till.look", {})
EMPTY: tuple[str, dict[str, int]] = ("till.empty", {})


@asynccontextmanager
async def talk(*steps: Any, **options: Any) -> AsyncIterator[Session]:
    """Open a session about a till with a scripted adapter."""
    adapter = options.pop("adapter", ScriptedAdapter(steps))
    domain = options.pop("domain", Till())
    async with Session.open(domain=domain, adapter=adapter, **options) as session:
        yield session


async def total(session: Session) -> int:
    found: int = await session.world.state("till.box/box/sum")
    return found


def outcomes_of(turn: Turn) -> list[tuple[str, Any]]:
    return [(one.outcome, one.output) for one in turn.results]
