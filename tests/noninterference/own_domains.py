"""Two domains that hide things: rooms, and sealed bids. Each subclass tells of what is hidden."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from pydantic import PositiveInt
from typing_extensions import TypedDict

from placet.kernel import Domain, Draft, Kind, RuleRefusal, refuse
from placet.kernel.plugin.domain import Rule
from placet.kernel.state.tree import State
from placet.kernel.visibility.relations import HideFields
from placet.schemas.codec import Json
from placet.schemas.identity import Ref
from placet.schemas.intent import Intent

PEOPLE, BOXES = "rooms.people", "rooms.boxes"
ROOMS = ("hall", "cellar", "attic")
BOXES_PER_ROOM_MAX = 2


class Go(TypedDict):
    room: str


class Place(TypedDict):
    box: str


class Open(TypedDict):
    box: str


def room_of(state: State | Draft, agent_id: str) -> Json:
    return state.get(PEOPLE, agent_id, "room")


def go(draft: Draft, intent: Intent) -> RuleRefusal | None:
    room = intent["payload"]["room"]
    if room not in ROOMS:
        return refuse("room_unknown", f"there is no room {room!r}", at="/room")
    draft.put(PEOPLE, intent["agent_id"], "room", room)
    return None


def box_in(draft: Draft, agent_id: str, box: str) -> str:
    """Return the id of a box in the agent's room."""
    return f"{room_of(draft, agent_id)}.{box}"


def boxes_around(draft: Draft, agent_id: str) -> list[str]:
    room = room_of(draft, agent_id)
    return [box for box in draft.ids(BOXES) if draft.get(BOXES, box, "room") == room]


def set_down(draft: Draft, intent: Intent) -> RuleRefusal | None:
    agent_id, box = intent["agent_id"], intent["payload"]["box"]
    around = boxes_around(draft, agent_id)
    name = box_in(draft, agent_id, box)
    if name in around:
        return refuse("box_there", f"{box!r} is here", at="/box")
    if len(around) >= BOXES_PER_ROOM_MAX:
        return refuse("room_full", f"the room has {len(around)} boxes", at="/box")
    draft.create(BOXES, name, {"room": room_of(draft, agent_id), "opened": 0})
    return None


def open_box(draft: Draft, intent: Intent) -> RuleRefusal | None:
    """Open a box in the agent's room once in a group; open it twice, and it is gone."""
    agent_id, box = intent["agent_id"], intent["payload"]["box"]
    if box not in boxes_around(draft, agent_id):
        return refuse("box_unknown", f"there is no box {box!r} here", at="/box")
    opened = draft.get(BOXES, box, "opened")
    if opened:
        draft.delete(BOXES, box)
    else:
        draft.put(BOXES, box, "opened", opened + 1)
    return None


def reads_box(intent: Intent) -> Iterable[Ref]:
    return (Ref(BOXES, intent["payload"]["box"]), Ref(PEOPLE, intent["agent_id"]))


class Rooms(Domain):
    """Agents see the people and boxes of the room that they are in."""

    name, version = "rooms", "1"
    open_rule: Rule = staticmethod(open_box)
    set_down_rule: Rule = staticmethod(set_down)

    def __init__(self) -> None:
        self.kinds: Sequence[Kind] = [
            Kind("Go", Go, go, reads_self=PEOPLE),
            Kind("SetDown", Place, type(self).set_down_rule, reads_self=PEOPLE, broadcast=True),
            Kind("Open", Open, type(self).open_rule, reads=reads_box),
        ]

    def on_register(
        self, draft: Draft, agent_id: str, attributes: Mapping[str, Json]
    ) -> RuleRefusal | None:
        draft.create(PEOPLE, agent_id, {"room": attributes.get("room", ROOMS[0])})
        return None

    def on_remove(self, draft: Draft, agent_id: str) -> None:
        draft.delete(PEOPLE, agent_id)

    def may_see(self, state: State, agent_id: str, ref: Ref) -> bool:
        if ref.entity == agent_id:
            return True
        here = room_of(state, agent_id)
        return ref.entity is not None and here is not None and self.room(state, ref) == here

    def room(self, state: State, ref: Ref) -> Json:
        assert ref.entity is not None
        return state.get(ref.collection, ref.entity, "room")

    def should_deliver(self, state: State, agent_id: str, intent: Intent) -> bool:
        return bool(room_of(state, agent_id) == room_of(state, intent["agent_id"]))


def open_any(draft: Draft, intent: Intent) -> RuleRefusal | None:
    box = intent["payload"]["box"]
    if draft.exists(BOXES, box) and box not in boxes_around(draft, intent["agent_id"]):
        return refuse("box_elsewhere", f"{box!r} is in another room", at="/box")
    return open_box(draft, intent)


class TellsOfOtherRooms(Rooms):
    """A refusal names a box of another room."""

    open_rule = staticmethod(open_any)


class FrankAboutRooms(TellsOfOtherRooms):
    """Declares it."""

    def __init__(self) -> None:
        super().__init__()
        *others, opens = self.kinds
        self.kinds = [*others, replace(opens, discloses="Whether a box is in another room.")]


def count_all(draft: Draft, intent: Intent) -> RuleRefusal | None:
    refusal = set_down(draft, intent)
    if refusal is None:
        draft.answer({"boxes": len(list(draft.ids(BOXES)))})
    return refusal


class CountsAllBoxes(Rooms):
    """The output of an admitted intent counts hidden boxes."""

    set_down_rule = staticmethod(count_all)


class ShowsDeleted(Rooms):
    """A deleted box is visible from everywhere, and so its deletion makes stale."""

    def may_see(self, state: State, agent_id: str, ref: Ref) -> bool:
        if ref.entity is not None and not state.exists(ref.collection, ref.entity):
            return True
        return super().may_see(state, agent_id, ref)


LOTS, BIDDERS = "bids.lots", "bids.bidders"


class Bid(TypedDict):
    lot: str
    amount: PositiveInt


class Close(TypedDict):
    lot: str


def bid(draft: Draft, intent: Intent) -> RuleRefusal | None:
    agent_id, lot, amount = (
        intent["agent_id"], intent["payload"]["lot"], intent["payload"]["amount"],
    )  # fmt: skip
    if not draft.exists(LOTS, lot):
        return refuse("lot_unknown", f"there is no lot {lot!r}", at="/lot")
    if draft.get(LOTS, lot, "winner") is not None:
        return refuse("lot_closed", f"{lot!r} is closed", at="/lot")
    draft.claim(f"{LOTS}/{lot}")
    draft.put(BIDDERS, agent_id, "amount", amount)
    draft.put(BIDDERS, agent_id, "lot", lot)
    return None


def close(draft: Draft, intent: Intent) -> RuleRefusal | None:
    """Close a lot for the agent that closes it, if it has bid; not for the highest bid."""
    agent_id, lot = intent["agent_id"], intent["payload"]["lot"]
    if not draft.exists(LOTS, lot) or draft.get(LOTS, lot, "winner") is not None:
        return refuse("lot_closed", f"{lot!r} is not open", at="/lot")
    if draft.get(BIDDERS, agent_id, "lot") != lot:
        return refuse("no_bid", f"{agent_id!r} has not bid for {lot!r}", at="/lot")
    draft.put(LOTS, lot, "winner", agent_id)
    return None


def reads_lot(intent: Intent) -> Iterable[Ref]:
    return (Ref(LOTS, intent["payload"]["lot"]),)


class Bids(Domain):
    """Agents see who has bid, and neither what for nor how much."""

    name, version = "bids", "1"
    sight = HideFields(["amount", "lot"], BIDDERS)
    rule: Rule = staticmethod(bid)

    def __init__(self) -> None:
        self.kinds: Sequence[Kind] = [
            Kind("Bid", Bid, type(self).rule, reads=reads_lot),
            Kind("Close", Close, close, reads_self=BIDDERS),
        ]

    def on_open(self, draft: Draft) -> None:
        for lot in ("vase", "clock"):
            draft.create(LOTS, lot, {"winner": None})

    def on_register(
        self, draft: Draft, agent_id: str, attributes: Mapping[str, Json]
    ) -> RuleRefusal | None:
        draft.create(BIDDERS, agent_id, {"amount": None, "lot": None})
        return None

    def on_remove(self, draft: Draft, agent_id: str) -> None:
        draft.delete(BIDDERS, agent_id)


def bid_more(draft: Draft, intent: Intent) -> RuleRefusal | None:
    payload = intent["payload"]
    for other in draft.ids(BIDDERS):
        is_same = draft.get(BIDDERS, other, "lot") == payload["lot"]
        if is_same and (draft.get(BIDDERS, other, "amount") or 0) > payload["amount"]:
            return refuse("bid_too_low", "another bid is higher", at="/amount")
    return bid(draft, intent)


class TellsOfHigherBids(Bids):
    """A refusal depends on a hidden field of an agent that is seen."""

    rule = staticmethod(bid_more)


BREACHES: Mapping[type[Domain], str] = {
    TellsOfOtherRooms: r"is rooms\.(box_elsewhere|box_unknown): ",
    CountsAllBoxes: r"with output \{'boxes': ",
    ShowsDeleted: r"(is stale_context: rooms\.boxes/|the explanation of .* is )",
    TellsOfHigherBids: r"(is|it is) bids\.bid_too_low",
}
"""Domain with a fault -> a pattern of what the law says of it."""
