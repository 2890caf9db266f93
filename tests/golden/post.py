"""A post office: the domain of a golden log. It is kept as it is, for the log was decided by it."""

from collections.abc import Mapping, Sequence
from typing import Any

from typing_extensions import TypedDict

from placet.kernel import Domain, Kind, RuleRefusal, refuse
from placet.kernel.state.draft import Draft
from placet.kernel.state.tree import State
from placet.schemas.effect import Effect, Settlement
from placet.schemas.identity import Ref
from placet.schemas.intent import Intent

LETTERS, COUNTS = "post.letters", "post.counts"


class Letter(TypedDict):
    to: str
    weight: int


class LetterInGrams(TypedDict):
    to: str
    grams: int


def send(draft: Draft, given: Intent) -> RuleRefusal | None:
    payload, sender = given["payload"], given["agent_id"]
    weight = payload["weight"] if "weight" in payload else payload["grams"] // 10
    if not draft.exists(COUNTS, payload["to"]):
        return refuse("unknown", f"nobody is called {payload['to']!r}", at="/to")
    if weight > 5:
        draft.warn("lightened", "a letter weighs 5 at most", at="/weight")
        draft.normalize({"to": payload["to"], "weight": 5})
    sent = draft.get(COUNTS, sender, "sent", 0)
    draft.put(COUNTS, sender, "sent", sent + 1)
    draft.create(LETTERS, f"{sender}-{sent}", {"to": payload["to"], "luck": draft.draw("luck")})
    draft.emit("mail", {"letter": f"{sender}-{sent}", "bag": draft.randint_below(4, "bag")})
    return None


class Post(Domain):
    """Letters and their delivery. From version 3 on, kinds have weights in grams."""

    name, version = "post", "1"

    def __init__(self, era: int = 3) -> None:
        if era < 3:
            self.kinds: Sequence[Kind] = (Kind("Send", Letter, send, effects=("mail",)),)
            return
        grams = {"1": lambda old: {"to": old["to"], "grams": old["weight"] * 10}}
        self.kinds = (
            Kind("Send", LetterInGrams, send, effects=("mail",), version="2", upcasters=grams),
        )

    def on_register(self, draft: Draft, agent_id: str, attributes: Mapping[str, Any]) -> None:
        draft.create(COUNTS, agent_id, {"sent": 0, **attributes})

    def on_tick(self, draft: Draft, sim_time: float) -> None:
        for agent_id in draft.ids(COUNTS):
            draft.put(COUNTS, agent_id, "mood", draft.draw(agent_id))

    def on_settle(self, draft: Draft, effect: Effect, settlement: Settlement) -> None:
        letter = effect.payload["letter"]
        draft.put(LETTERS, letter, "arrived", settlement.succeeded)
        draft.put(LETTERS, letter, "said", settlement.output)

    def invariants(self, state: State, changed: Sequence[Ref]) -> Sequence[RuleRefusal]:
        many = [r for r in changed if state.get(COUNTS, r.entity or "", "sent", 0) > 6]
        return [refuse("many", f"{ref.entity} has sent too much") for ref in many]


class Watchman:
    """The host's own rule: nothing that weighs 77, or 770 grams, is sent."""

    def validate_intent(self, given: Intent, world_state: object) -> bool:
        payload = given["payload"]
        return payload.get("weight") != 77 and payload.get("grams") != 770
