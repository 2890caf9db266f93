"""Inventory: an object's `holder` and its holder's `inventory` always agree.

An object is carried and has no position, or is free and has one. Only the functions here change
ownership.
"""

from typing import Final

from placet.domains.world.payloads import AGENTS, OBJECTS, Position
from placet.kernel.state.draft import Draft
from placet.schemas.codec import Json

_CARRIED_PER_UNIT: Final = 20
"""Objects of an inventory that are copied and recorded for one unit of work."""


def holder_of(draft: Draft, object_id: str) -> str | None:
    """Return the id of the agent that carries an object, or None."""
    holder: str | None = draft.get(OBJECTS, object_id, "holder")
    return holder


def position_of(draft: Draft, entity_id: str) -> Position | None:
    """Return the position of an agent or an object; a carried object has its holder's.

    None for an object without a position.
    """
    position: Position | None
    if not draft.exists(OBJECTS, entity_id):
        position = draft.get(AGENTS, entity_id, "position")
        return position
    holder = holder_of(draft, entity_id)
    if holder is not None:
        return position_of(draft, holder)
    position = draft.get(OBJECTS, entity_id, "position")
    return position


def take(draft: Draft, object_id: str, agent_id: str) -> None:
    """Add a free object to an agent's inventory."""
    draft.put(OBJECTS, object_id, "holder", agent_id)
    draft.put(OBJECTS, object_id, "position", None)
    carried = inventory_of(draft, agent_id)
    draft.charge(len(carried) // _CARRIED_PER_UNIT)
    draft.put(AGENTS, agent_id, "inventory", (*carried, object_id))


def let_go(draft: Draft, object_id: str, agent_id: str) -> None:
    """Remove an object from an agent's inventory and place it at the agent's position."""
    carried = inventory_of(draft, agent_id)
    draft.charge(len(carried) // _CARRIED_PER_UNIT)
    remaining = tuple([held for held in carried if held != object_id])
    draft.put(AGENTS, agent_id, "inventory", remaining)
    draft.put(OBJECTS, object_id, "holder", None)
    draft.put(OBJECTS, object_id, "position", draft.get(AGENTS, agent_id, "position"))


def inventory_of(draft: Draft, agent_id: str) -> tuple[Json, ...]:
    """List the objects that an agent carries, in the order in which it took them."""
    inventory: tuple[Json, ...] = draft.get(AGENTS, agent_id, "inventory", ())
    return inventory
