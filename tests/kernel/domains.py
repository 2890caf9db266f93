"""Small domains for tests, with a way to make every hook misbehave on demand."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NotRequired

from pydantic import BaseModel, JsonValue
from typing_extensions import TypedDict

from placet.kernel.plugin.domain import Domain, Kind, RuleRefusal, conflict, refuse
from placet.kernel.state.draft import Draft
from placet.kernel.state.tree import State
from placet.schemas.effect import Effect, Settlement
from placet.schemas.identity import Ref
from placet.schemas.intent import Intent

THINGS = "lab.things"
COUNTS = "lab.counts"
SECRETS = "lab.secrets"
MAIL = "mail"


class Amount(TypedDict):
    amount: int


class Field(TypedDict):
    thing: str
    field: str
    value: NotRequired[JsonValue]


class Thing(TypedDict):
    thing: str


class Look(TypedDict):
    """`thing` None looks at the whole collection."""

    thing: str | None
    collection: NotRequired[str]


class Letter(TypedDict):
    count: int
    kind: NotRequired[str]
    started: NotRequired[bool]


class Fault(TypedDict):
    """`how` is one of `FAULTS`."""

    how: str


class Model(BaseModel):
    text: str
    count: int = 0
    tags: list[str] = []


class Open(BaseModel, extra="allow"):
    action: str


class Point(TypedDict):
    at: tuple[int, int]


def add(draft: Draft, intent: Intent) -> None:
    """Add to the agent's own counter."""
    agent_id = intent["agent_id"]
    count = draft.get(COUNTS, agent_id, "count", 0)
    draft.put(COUNTS, agent_id, "count", count + intent["payload"]["amount"])


def take(draft: Draft, intent: Intent) -> RuleRefusal | None:
    """Take from the agent's own counter, which must not become negative."""
    agent_id = intent["agent_id"]
    left = draft.get(COUNTS, agent_id, "count", 0) - intent["payload"]["amount"]
    draft.put(COUNTS, agent_id, "count", left)
    if left < 0:
        return refuse(
            "too_few", f"{left} would be left, at least 0 must be", at="/amount", left=left
        )
    return None


def put(draft: Draft, intent: Intent) -> None:
    """Set a field, and make the thing first where there is none."""
    payload = intent["payload"]
    if not draft.exists(THINGS, payload["thing"]):
        draft.create(THINGS, payload["thing"], {"made_by": intent["agent_id"]})
    draft.put(THINGS, payload["thing"], payload["field"], payload.get("value"))


def remake(draft: Draft, intent: Intent) -> None:
    """Delete and create a thing in one go."""
    thing = intent["payload"]["thing"]
    if draft.exists(THINGS, thing):
        draft.delete(THINGS, thing)
    draft.create(THINGS, thing, {"remade": draft.seq})


def drop(draft: Draft, intent: Intent) -> RuleRefusal | None:
    """Delete a thing."""
    thing = intent["payload"]["thing"]
    if not draft.exists(THINGS, thing):
        return refuse("missing", f"there is no {thing!r}", at="/thing", suggestions=("a", "b"))
    draft.delete(THINGS, thing)
    return None


def grab(draft: Draft, intent: Intent) -> RuleRefusal | None:
    """Claim a thing that only one agent may have in a group."""
    thing = intent["payload"]["thing"]
    winner = draft.claim(f"{THINGS}/{thing}")
    if winner is not None:
        return conflict(f"{THINGS}/{thing}", winner, at="/thing")
    if not draft.exists(THINGS, thing):
        draft.create(THINGS, thing)
    draft.put(THINGS, thing, "holder", intent["agent_id"])
    return None


def look(draft: Draft, intent: Intent) -> None:
    """Read a thing, and store a draw."""
    draft.put(COUNTS, intent["agent_id"], "draw", draft.draw("look"))


def look_reads(intent: Intent) -> Iterable[Ref]:
    payload = intent["payload"]
    if payload["thing"] == "raise":
        raise RuntimeError("a footprint that raises")
    yield Ref(payload.get("collection", THINGS), payload["thing"])


def mail(draft: Draft, intent: Intent) -> None:
    """Emit effects."""
    payload = intent["payload"]
    kind, started = payload.get("kind", MAIL), payload.get("started", False)
    for number in range(payload["count"]):
        draft.emit(kind, {"number": number, "to": intent["agent_id"]}, started=started)


def clamp(draft: Draft, intent: Intent) -> None:
    """Cap an amount that is too large, with a notice."""
    amount = intent["payload"]["amount"]
    if amount > 10:
        draft.normalize({"amount": 10})
        draft.warn("clamped", f"amount {amount} was clamped to 10", at="/amount")
        amount = 10
    draft.put(COUNTS, intent["agent_id"], "count", amount)


def fail(draft: Draft, intent: Intent) -> Any:
    """Misbehave, after having changed something."""
    draft.put(COUNTS, intent["agent_id"], "touched", draft.seq)
    draft.create(THINGS, f"half-made {draft.seq}")
    return FAULTS[intent["payload"]["how"]](draft, intent)


def put_own(value: Any) -> Callable[[Draft, Intent], None]:
    """Write a value to a separate entity, so that it stays."""
    return lambda draft, intent: draft.put(COUNTS, intent["agent_id"], "odd", value)


def divide_by_nothing(draft: Draft, intent: Intent) -> None:
    raise ZeroDivisionError("a bug")


class Panic(BaseException):
    """An error that is not an `Exception`, as extensions in Rust raise it."""


def panic(draft: Draft, intent: Intent) -> None:
    raise Panic


FAULTS: dict[str, Callable[[Draft, Intent], Any]] = {
    "raise": divide_by_nothing,
    "panic": panic,
    "nonsense": lambda draft, intent: "no",
    "refuse": lambda draft, intent: refuse("unwell", "the rule is unwell", retry_after=1.5),
    "huge": put_own(2**64),
    "surrogate": put_own("\ud800"),
    "object": put_own(object()),
    "details": lambda draft, intent: refuse("odd", "a detail that is no JSON", detail={1, 2}),
    "code": lambda draft, intent: RuleRefusal(7, "a code that is no string"),  # type: ignore[arg-type]
    "retry": lambda draft, intent: RuleRefusal("odd", "no wait", retry_after="soon"),  # type: ignore[arg-type]
    "warning": lambda draft, intent: draft.warn("odd", 7),  # type: ignore[arg-type]
    "name": lambda draft, intent: draft.create(THINGS, 7),  # type: ignore[arg-type]
    "recursion": fail,
    "undeclared": lambda draft, intent: draft.emit(MAIL, {}),
}


def give(draft: Draft, intent: Intent) -> None:
    """Add to the counter of another agent."""
    to = intent["payload"]["thing"]
    draft.put(COUNTS, to, "count", draft.get(COUNTS, to, "count", 0) + 1)


def say(draft: Draft, intent: Intent) -> None:
    """Store a payload unchanged."""
    draft.put(COUNTS, intent["agent_id"], "said", intent["payload"])


def place(draft: Draft, intent: Intent) -> RuleRefusal | None:
    """Behave differently for a tuple and a list, as no rule should."""
    if not isinstance(intent["payload"]["at"], tuple):
        return refuse("list", "the payload came as a list")
    draft.put(COUNTS, intent["agent_id"], "at", intent["payload"]["at"])
    return None


class Lab(Domain):
    """A domain with a kind for everything that a rule can do.

    Settings: `faults` names hooks that raise (`on_tick`, `on_settle`, `on_remove`, `invariants`,
    `may_see`) or misbehave (`emit_on_tick`, `huge_on_tick`, `nonsense_invariants`).
    """

    name = "lab"
    version = "1"
    kinds: Sequence[Kind] = (
        Kind("Add", Amount, add),
        Kind("Take", Amount, take),
        Kind("Tend", Amount, add, reads_self=COUNTS),
        Kind("Give", Thing, give),
        Kind("Clamp", Amount, clamp),
        Kind("Put", Field, put),
        Kind("Remake", Thing, remake),
        Kind("Drop", Thing, drop),
        Kind("Grab", Thing, grab),
        Kind("Look", Look, look, reads=look_reads),
        Kind("Glance", Look, look, reads=look_reads, when_stale="revalidate"),
        Kind("Mail", Letter, mail, effects=(MAIL,)),
        Kind("Fail", Fault, fail),
        Kind("Say", Model, say),
        Kind("Custom", Open, say),
        Kind("Place", Point, place),
    )

    def __init__(
        self, *faults: str, things: Sequence[str] = (), ceiling: int | None = None
    ) -> None:
        self.faults = set(faults)
        self.things = things
        self.ceiling = ceiling

    def _perhaps_raise(self, hook: str) -> None:
        if hook in self.faults:
            raise RuntimeError(f"{hook} raises")

    def on_open(self, draft: Draft) -> None:
        for thing in self.things:
            draft.create(THINGS, thing, {"value": 0})

    def on_register(
        self, draft: Draft, agent_id: str, attributes: Mapping[str, Any]
    ) -> RuleRefusal | None:
        if draft.exists(COUNTS, agent_id):  # on_remove raised
            draft.delete(COUNTS, agent_id)
        draft.create(COUNTS, agent_id, {"count": 0, **attributes})
        if attributes.get("count") == -1:
            return refuse("negative", "count must not be negative")
        if attributes.get("count") == -2:
            draft.put(COUNTS, agent_id, "count", 2**64)
        self._perhaps_raise("on_register")
        return None

    def on_remove(self, draft: Draft, agent_id: str) -> None:
        draft.delete(COUNTS, agent_id)
        self._perhaps_raise("on_remove")

    def on_tick(self, draft: Draft, sim_time: float) -> None:
        if not draft.exists(COUNTS, "clock"):
            draft.create(COUNTS, "clock")
        draft.put(COUNTS, "clock", "time", sim_time)
        draft.put(COUNTS, "clock", "draw", draft.randint_below(6, "tick"))
        self._perhaps_raise("on_tick")
        if "emit_on_tick" in self.faults:
            draft.emit(MAIL, {})
        if "huge_on_tick" in self.faults:
            draft.put(COUNTS, "clock", "time", 2**64)

    def on_settle(self, draft: Draft, effect: Effect, settlement: Settlement) -> None:
        draft.create("lab.letters", str(effect.key), {"output": settlement.output})
        self._perhaps_raise("on_settle")

    def on_patch(self, draft: Draft, changed: Sequence[Ref]) -> RuleRefusal | None:
        self._perhaps_raise("on_patch")
        for ref in changed:
            if draft.get(ref.collection, ref.entity or "", "count") == 13:
                return refuse("unlucky", f"{ref.entity} must not have 13")
            if draft.get(ref.collection, ref.entity or "", "count") == 12:
                draft.put(ref.collection, ref.entity or "", "is_dozen", True)
        return None

    def invariants(self, state: State, changed: Sequence[Ref]) -> Iterable[RuleRefusal]:
        self._perhaps_raise("invariants")
        if "nonsense_invariants" in self.faults:
            return [True]  # type: ignore[list-item]
        if self.ceiling is None:
            return []
        return [
            refuse("ceiling", f"{ref.entity} has more than {self.ceiling}", at=f"/{ref.entity}")
            for ref in changed
            if state.get(COUNTS, ref.entity or "", "count", 0) > self.ceiling
        ]

    def may_see(self, state: State, agent_id: str, ref: Ref) -> bool:
        self._perhaps_raise("may_see")
        return not (ref.entity or "").startswith("secret")


def bear(draft: Draft, intent: Intent) -> None:
    """Register an agent, with a draw in its name."""
    name = intent["payload"]["thing"]
    draft.register(name, "kids" if draft.seq % 2 else None, luck=draft.randint_below(6, "luck"))


def bury(draft: Draft, intent: Intent) -> None:
    """Remove an agent, perhaps itself."""
    draft.remove(intent["payload"]["thing"])


def renew(draft: Draft, intent: Intent) -> None:
    """Remove and register an agent in one go."""
    bury(draft, intent)
    bear(draft, intent)


class Nursery(Lab):
    """A lab in which agents are born and die, by rules and at ticks."""

    kinds = (
        *Lab.kinds,
        Kind("Bear", Thing, bear),
        Kind("Bury", Thing, bury),
        Kind("Renew", Thing, renew),
    )

    def on_tick(self, draft: Draft, sim_time: float) -> None:
        super().on_tick(draft, sim_time)
        if draft.exists(COUNTS, "dora"):
            draft.remove("dora")
        elif draft.tick % 3 == 0:
            draft.register("dora", "kids")


def count(draft: Draft, intent: Intent) -> None:
    """Add to the one counter of all."""
    if not draft.exists("annex.all", "count"):
        draft.create("annex.all", "count")
    value = draft.get("annex.all", "count", "value", 0)
    draft.put("annex.all", "count", "value", value + intent["payload"]["amount"])


class Annex(Domain):
    """A second domain with hooks of none."""

    name = "annex"
    version = "1"
    kinds: Sequence[Kind] = (Kind("annex.Count", Amount, count, version="2", summary="Count."),)
