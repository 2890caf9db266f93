"""The registry of a world: what is compiled once for all worlds of a process."""

from typing_extensions import TypedDict

from placet.domains.world import World
from placet.kernel import Domain, Draft, Kind
from placet.kernel.registry import Registry
from placet.schemas.intent import Intent


def test_worlds_of_equal_kinds_share_the_compiled_payloads():
    one, other = Registry([World()]), Registry([World(max_step=2.0)])
    assert one.payload("Move") is other.payload("Move")
    assert one.fingerprint == Registry([World()]).fingerprint


class Bid(TypedDict):
    amount: int


def test_payloads_that_differ_are_not_shared():
    class Other(TypedDict):
        amount: str

    assert _registry(Bid).fingerprint == _registry(Bid).fingerprint
    assert _registry(Bid).fingerprint != _registry(Other).fingerprint


def _registry(payload: object) -> Registry:
    class Auction(Domain):
        name, version = "auction", "1"
        kinds = (Kind("Bid", payload, _bid),)

    return Registry([Auction()])


def _bid(draft: Draft, intent: Intent) -> None:
    pass
