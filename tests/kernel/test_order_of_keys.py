"""Rules see the same keys and values before and after a restart, and in a verification."""

from collections.abc import Callable, Mapping
from typing import Any, NotRequired

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from placet.kernel import Domain, Kernel, Kind
from placet.kernel.log.snapshot import world_digest
from placet.kernel.log.verify import Verifier
from placet.kernel.plugin.domain import RuleRefusal
from placet.kernel.state.draft import Draft
from placet.schemas.codec import Json, freeze, thaw
from placet.schemas.effect import Effect, EffectKey, Settlement
from placet.schemas.intent import Intent
from tests.kernel.builders import intent, kernel_of
from tests.kernel.domains import MAIL

SEEN = "ledger.seen"


class Given(TypedDict):
    what: dict[str, int]
    post: NotRequired[bool]


class Modelled(BaseModel, extra="allow"):
    what: dict[str, int]


def order_of(value: Any) -> Json:
    """Return the order of keys, and the types of their containers."""
    if isinstance(value, Mapping):
        return ["object", [[name, order_of(inner)] for name, inner in value.items()]]
    if isinstance(value, list | tuple):
        return [type(value).__name__, [order_of(inner) for inner in value]]
    return value


def note(draft: Draft, by: str, value: Any) -> None:
    """Store the seen values: as values, as late fields, and by one entity each."""
    said = order_of(value)
    for name in value if isinstance(value, Mapping) else ():
        if not draft.exists(f"{SEEN}.{by}", name):
            draft.create(f"{SEEN}.{by}", name)
    if not draft.exists(SEEN, by):
        draft.create(SEEN, by, {"said": (), "kept": None})
    before = draft.get(SEEN, by, "said")
    draft.put(SEEN, by, f"at {9 - len(before)}", 0)
    draft.put(SEEN, by, "said", (*before, said)[-3:])
    draft.put(SEEN, by, "fields", list(draft.entity(SEEN, by) or ()))
    draft.put(SEEN, by, "before", order_of(draft.get(SEEN, by, "kept")))
    draft.put(SEEN, by, "kept", value)


def take(draft: Draft, intent: Intent) -> None:
    payload = intent["payload"]
    note(draft, "payload", payload)
    if payload.get("post"):
        draft.emit(MAIL, {"z": [1, {"y": 1, "b": [2]}], "a": 1})


class Noticing(Domain):
    """Records all values that it receives."""

    name, version = "ledger", "1"
    kinds = (
        Kind("Give", Given, take, effects=(MAIL,)),
        Kind("GiveAny", dict[str, Any], take, effects=(MAIL,)),
        Kind("GivePlain", dict[str, int], take),
        Kind("GiveModel", Modelled, take),
    )

    def on_register(
        self, draft: Draft, agent_id: str, attributes: Mapping[str, Json]
    ) -> RuleRefusal | None:
        note(draft, "attributes", attributes)
        return None

    def on_settle(self, draft: Draft, effect: Effect, settlement: Settlement) -> None:
        note(draft, "effect", effect.payload)
        note(draft, "output", settlement.output)


def settle_all(kernel: Kernel) -> None:
    for effect in kernel.open_effects():
        output = {"z": 1, "a": [{"y": 1, "b": 2}]}
        kernel.settle(Settlement(effect.key, succeeded=True, output=output))


PAYLOADS: list[tuple[str, dict[str, Json]]] = [
    ("Give", {"what": {"z": 1, "a": 2}, "post": True}),
    ("GiveAny", {"what": {"z": {"y": [1], "b": 2}, "a": 2}, "post": True, "c": 1}),
    ("GivePlain", {"z": 1, "a": 2}),
    ("GiveModel", {"what": {"z": 1, "a": 2}, "q": {"z": 1, "a": 2}, "b": [{"z": 1, "a": 2}]}),
]


def live(kernel: Kernel, part: int) -> None:
    kernel.register_agent(f"agent{part}", z={"y": 1, "b": [1]}, a=1)
    for kind, payload in PAYLOADS:
        verdict = kernel.decide(intent(kind, payload, f"{kind} {part}"))
        assert verdict.admitted, verdict.refusals


@pytest.mark.parametrize("restart", ["none", "from the log", "from a snapshot"])
def test_a_restored_world_decides_as_an_uninterrupted_one(restart):
    log: list[bytes] = []
    kernel = kernel_of(Noticing(), agents=("alice",), sink=log)
    live(kernel, 1)
    if restart == "from the log":
        kernel = Kernel(Noticing(), history=list(log), sink=log.append)
    elif restart == "from a snapshot":
        kernel.restore(kernel.snapshot())
    live(kernel, 2)
    settle_all(kernel)
    again = Verifier([Noticing()])
    for data in log:
        again.apply(data)
    assert world_digest(again.state, again.ledger).hex() == kernel.world_digest()
    assert kernel.tree.as_dict()[SEEN].keys() == {"payload", "attributes", "effect", "output"}


@pytest.mark.parametrize("kind", ["GiveAny", "GivePlain", "GiveModel"])
def test_rules_see_sorted_keys_in_any_input_order(kind):
    def seen(turn: Callable[[Mapping[str, Json]], Json]) -> str:
        kernel = kernel_of(Noticing(), agents=("alice",))
        verdict = kernel.decide(intent(kind, turn(dict(PAYLOADS)[kind])))
        assert verdict.admitted
        return kernel.digest()

    def turned(value: Json) -> Json:
        if isinstance(value, dict):
            return {name: turned(value[name]) for name in reversed(value)}
        return [turned(item) for item in value] if isinstance(value, list) else value

    assert seen(dict) == seen(turned)


@pytest.mark.parametrize(
    ("given", "seen"),
    [(5, 5.0), (0.1 + 0.2, 0.3), (1 / 3, 0.333333333), (None, None), (9.2e9, 9.2e9)],
)
@pytest.mark.parametrize("later", [None, 0.2])
def test_a_rule_may_read_valid_until(given, seen, later):
    def until(draft: Draft, intent: Intent) -> None:
        draft.create(SEEN, "until", {"seconds": intent.get("valid_until"), "of": sorted(intent)})

    class Punctual(Domain):
        name, version = "ledger", "1"
        kinds = (Kind("Look", Given, until),)

    log: list[bytes] = []
    kernel = kernel_of(Punctual(), agents=("alice",), sink=log)
    more = intent("Look", {"what": {}}, "r1", valid_until=given)
    assert kernel.decide({"intents": [more], "sim_time": later}).admitted
    kernel.step(0.2)
    assert kernel.tree.get(SEEN, "until", "seconds") == seen
    again = Verifier([Punctual()])
    for data in log:
        again.apply(data)
    assert again.state.digest().hex() == kernel.digest()


def test_effects_are_read_back_as_they_were_emitted():
    log: list[bytes] = []
    kernel = kernel_of(Noticing(), agents=("alice",), sink=log)
    kernel.decide(intent("Give", {"what": {}, "post": True}))
    (emitted,) = kernel.open_effects()
    (read,) = Kernel(Noticing(), history=log).open_effects()
    assert emitted.key == read.key == EffectKey("world", kernel.seq, 0)
    assert order_of(emitted.payload) == order_of(read.payload)
    assert type(emitted.payload) is type(read.payload)


def test_messages_keep_the_order_of_their_keys():
    value = {"z": {"y": 1, "b": 2}, "a": 1}
    assert list(freeze(value, list)) == ["z", "a"]
    assert list(freeze(value, list)["z"]) == ["y", "b"]
    assert list(freeze(value)) == ["a", "z"]
    assert list(thaw(freeze(value))["z"]) == ["b", "y"]
