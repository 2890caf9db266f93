"""Checks an operator's patch against the assumptions of the rules.

The assumptions concern positions and the ownership of objects; rules do not interpret other fields.
"""

from collections.abc import Mapping, Sequence

from pydantic import ValidationError

from placet.domains.world.payloads import AGENTS, OBJECTS, to_position
from placet.domains.world.settings import WorldSettings
from placet.domains.world.spawn import are_distinct_ids
from placet.kernel.plugin.domain import RuleRefusal, refuse
from placet.kernel.state.draft import Draft
from placet.schemas.codec import Json
from placet.schemas.identity import Ref
from placet.schemas.json_value import format_value


def check_patched(
    draft: Draft, changed: Sequence[Ref], settings: WorldSettings
) -> RuleRefusal | None:
    """Check the patched agents and objects; return a refusal if one is invalid, else None.

    Positions are normalized to the form that rules write.
    """
    for collection, key in changed:
        if collection not in _NEEDED or key is None:
            continue
        refusal = _check(draft, (collection, key), settings)
        if refusal is not None:
            return refusal
    return None


_At = tuple[str, str]
"""Collection and id."""

_NEEDED: Mapping[str, tuple[str, ...]] = {
    AGENTS: ("position", "team", "inventory"),
    OBJECTS: ("position", "holder", "portable"),
}


def _check(draft: Draft, at: _At, settings: WorldSettings) -> RuleRefusal | None:
    fields = draft.entity(*at)
    if fields is None:
        return _check_inventory(draft, at, ())
    missing = [name for name in _NEEDED[at[0]] if name not in fields]
    if missing:
        return _refuse(at, f"needs {', '.join(missing)} too")
    other = OBJECTS if at[0] == AGENTS else AGENTS
    if draft.exists(other, at[1]):
        return _refuse(at, f"needs another id, for there is {other}/{at[1]}")
    if at[0] == AGENTS:
        inventory = fields["inventory"]
        if not are_distinct_ids(inventory):
            return _refuse(
                at, f"needs an inventory of distinct ids of objects, got {format_value(inventory)}"
            )
        return _check_inventory(draft, at, inventory) or _check_position(draft, at, settings)
    holder, position = fields["holder"], fields["position"]
    if holder is None:
        return _check_inventory(draft, at, ()) or _check_position(draft, at, settings)
    if position is not None:
        return _refuse(at, "is held, so it has no position; put null")
    return _check_inventory(draft, at, (holder,))


def _check_inventory(draft: Draft, at: _At, named: Sequence[Json]) -> RuleRefusal | None:
    """Check that the holders and inventories of an agent or object agree. O(world)."""
    collection, key = at
    if collection == AGENTS:
        naming = [one for one in draft.ids(OBJECTS) if draft.get(OBJECTS, one, "holder") == key]
    else:
        naming = [one for one in draft.ids(AGENTS) if key in _inventory_of(draft, one)]
    for one in (*named, *naming):
        if one not in named or one not in naming:
            return _refuse(at, f"and {one!r} must agree on the holder; put both")
    return None


def _check_position(draft: Draft, at: _At, settings: WorldSettings) -> RuleRefusal | None:
    value = draft.get(*at, "position")
    try:
        position = to_position(value)
    except ValidationError:
        return _refuse(
            at,
            f"needs a position, [x, y] or [x, y, z] of finite numbers; got {format_value(value)}",
        )
    if repr(position) != repr(value):  # 1 and 1.0, 0.0 and -0.0 are equal, their digests are not
        draft.put(*at, "position", position)
    return settings.outside(position, "/position")


def _inventory_of(draft: Draft, agent_id: str) -> tuple[Json, ...]:
    """Return an agent's inventory, which an operator's patch may have set to any value."""
    inventory = draft.get(AGENTS, agent_id, "inventory")
    return inventory if isinstance(inventory, tuple) else ()


def _refuse(at: _At, problem: str) -> RuleRefusal:
    return refuse("patched", f"{'/'.join(at)} {problem}")
