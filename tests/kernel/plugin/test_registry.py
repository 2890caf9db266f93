"""The registry of a world: what is compiled once for all worlds of a process."""

from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Discriminator, Field, create_model
from typing_extensions import TypedDict

from placet.domains.world import World
from placet.kernel import Domain, Draft, Kernel, Kind
from placet.kernel.plugin.registry import Registry
from placet.schemas.intent import Intent
from tests.kernel.builders import intent


def test_worlds_of_equal_kinds_share_the_compiled_payloads():
    one, other = Registry([World()]), Registry([World(max_step=2.0)])
    assert one.payload_validator("Move") is other.payload_validator("Move")
    assert one.fingerprint == Registry([World()]).fingerprint


class Bid(TypedDict):
    amount: int


def test_payloads_that_differ_are_not_shared():
    class Other(TypedDict):
        amount: str

    assert _registry(Bid).fingerprint == _registry(Bid).fingerprint
    assert _registry(Bid).fingerprint != _registry(Other).fingerprint


class Worded(TypedDict):
    """Bid."""

    title: Annotated[int, Field(title="Amount", description="In coins.", examples=[3])]
    choice: Annotated[dict[str, str], Field(default_factory=dict)]


class Reworded(TypedDict):
    """Bid an amount of coins for the lot."""

    title: Annotated[int, Field(description="The amount, in whole coins.")]
    choice: Annotated[dict[str, str], Field(default_factory=dict)]


class Renamed(TypedDict):
    """Bid."""

    description: Annotated[int, Field(title="Amount", description="In coins.", examples=[3])]
    choice: Annotated[dict[str, str], Field(default_factory=dict)]


class Tighter(TypedDict):
    """Bid."""

    title: Annotated[int, Field(title="Amount", description="In coins.", examples=[3], ge=1)]
    choice: Annotated[dict[str, str], Field(default_factory=dict)]


def _defaulting(value: object) -> type[BaseModel]:
    return create_model("Bid", choice=(dict[str, str], Field(default=value)))


def test_a_reworded_payload_keeps_the_fingerprint():
    """Logs stay verifiable when a docstring is improved; a field may be called `title`."""
    worded = _registry(Worded).fingerprint
    assert _registry(Reworded).fingerprint == worded
    assert _registry(Renamed).fingerprint != worded != _registry(Tighter).fingerprint
    defaults = [_registry(_defaulting({"title": title})) for title in "ab"]
    assert defaults[0].fingerprint != defaults[1].fingerprint
    cats = [_registry(Annotated[Cat | kind, Discriminator("title")]) for kind in (Dog, Cow)]
    assert cats[0].fingerprint != cats[1].fingerprint


class Cat(BaseModel):
    title: Literal["title"]


class Dog(BaseModel):
    title: Literal["examples"]


class Cow(BaseModel):
    title: Literal["description"]


def _registry(payload: object) -> Registry:
    class Auction(Domain):
        name, version = "auction", "1"
        kinds = (Kind("Bid", payload, _bid),)

    return Registry([Auction()])


def _bid(draft: Draft, intent: Intent) -> None:
    pass


@pytest.mark.parametrize(
    ("hook", "message"),
    [
        (
            lambda self, draft: None,
            r"Orchard\.on_tick must take \(draft, sim_time\), got \(draft\)",
        ),
        (
            lambda self, draft, now, dt: None,
            r"must take \(draft, sim_time\), got \(draft, now, dt\)",
        ),
        (staticmethod(lambda draft: None), r"must take \(draft, sim_time\), got \(draft\)"),
        (None, r"Orchard\.on_tick must take \(draft, sim_time\), got None"),
    ],
)
def test_a_hook_that_cannot_take_its_arguments_is_refused_at_the_start(hook, message):
    with pytest.raises(ValueError, match=message):
        Registry([_orchard(hook)])


@pytest.mark.parametrize(
    "hook",
    [
        lambda self, *arguments: None,
        lambda self, at, when, more=1: None,
        staticmethod(lambda draft, sim_time: None),
        classmethod(lambda cls, draft, sim_time: None),
    ],
)
def test_a_hook_may_name_its_arguments_as_it_likes_and_have_defaults(hook):
    assert len(Registry([_orchard(hook)]).with_on_tick) == 1


def _orchard(hook: object) -> Domain:
    kinds = (Kind("Bid", Bid, _bid),)
    attributes = {"name": "orchard", "version": "1", "kinds": kinds, "on_tick": hook}
    orchard: Domain = type("Orchard", (Domain,), attributes)()
    return orchard


def test_a_hook_without_a_signature_is_accepted():
    class Compiled(Domain):
        name, version = "compiled", "1"
        kinds = (Kind("Bid", Bid, _bid),)
        on_tick = staticmethod(dict.update)  # type: ignore[assignment]

    assert Registry([Compiled()]).with_on_tick


def test_a_read_only_kernel_writes_no_record():
    log: list[bytes] = []
    Kernel(World(), sink=log.append)
    reader = Kernel(World(), history=log, read_only=True)
    with pytest.raises(AssertionError, match="a read-only kernel was asked to write"):
        reader.tick(1.0)


@pytest.mark.parametrize("options", [{"read_only": True}, {"risk": "read"}])
def test_a_read_only_kind_whose_rule_writes_is_refused(options):
    def write(draft: Draft, intent: Intent) -> None:
        draft.create("auction.bids", intent["req_id"])

    class Auction(Domain):
        name, version = "auction", "1"
        kinds = (Kind("Bid", Bid, write, **options), Kind("Look", Bid, _bid, **options))

    kernel = Kernel(Auction())
    kernel.register_agent("ann")
    digest = kernel.digest()
    assert kernel.decide(intent("Look", {"amount": 1}, "look", agent_id="ann")).admitted
    refused = kernel.decide(intent("Bid", {"amount": 1}, "bid", agent_id="ann"))
    assert refused.codes == ("rule_error",)
    assert kernel.digest() == digest
