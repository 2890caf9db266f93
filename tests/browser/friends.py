"""A model of friends, who are entities with links, and of hosts, who are nodes of a network."""

from collections.abc import Iterator
from typing import Any

from typing_extensions import TypedDict

from placet.domains.space import CellTable, ring_lattice
from placet.kernel import Domain, Draft, Field, Kind

RING = ring_lattice(20, 4)
HOSTS = CellTable(RING, "friends.hosts", capacity=None, layers={"load": Field("u1", high=2)})


class Place(TypedDict):
    """Payload of a move."""

    x: float


class Friends(Domain):
    """Each friend is linked to the one before it, who is right of it."""

    name, version = "friends", "1"
    tables = (HOSTS.table,)

    def __init__(self) -> None:
        self.kinds = (Kind("Move", Place, self._move),)

    def settings(self) -> dict[str, Any]:
        return {}

    def on_open(self, draft: Draft) -> None:
        draft.columns("friends.hosts").set("load", 1)

    def on_register(self, draft: Draft, agent_id: str, attributes: Any) -> None:
        number = int(agent_id.rpartition("_")[2])
        before = [f"friend_{number - 1}"] if number > 1 else []
        draft.create("friends.people", agent_id)
        draft.put("friends.people", agent_id, "position", (-2.0 * number, 3.0))
        draft.put("friends.people", agent_id, "friends", before)

    def _move(self, draft: Draft, intent: Any) -> None:
        _, y = draft.get("friends.people", intent["agent_id"], "position")
        draft.put("friends.people", intent["agent_id"], "position", (intent["payload"]["x"], y))


def move(view: Any, intent: Any) -> Iterator[Any]:
    """Move to the right."""
    x, _ = view.state["friends.people"][view.agent_id]["position"]
    yield intent("Move", x=x + 1.0)
