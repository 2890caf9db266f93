"""Create and remove agents in the state of a world.

Agents and objects share one space of ids, so that a `target_id` means one thing.
"""

from collections.abc import Callable, Mapping, Sequence

from pydantic import ValidationError

from placet.domains.world.inventory import inventory_of, let_go, take
from placet.domains.world.payloads import AGENTS, OBJECTS, SPEECH, to_position
from placet.domains.world.settings import WorldSettings
from placet.kernel.plugin.domain import RuleRefusal, refuse
from placet.kernel.state.draft import Draft
from placet.schemas.codec import Json
from placet.schemas.identity import is_identity
from placet.schemas.name_suggestions import nearest

_Check = Callable[[Draft, str, Json, WorldSettings], RuleRefusal | None]


def place(
    draft: Draft, agent_id: str, attributes: Mapping[str, Json], settings: WorldSettings
) -> RuleRefusal | None:
    """Create a new agent's entity; return a refusal if an attribute is invalid, else None.

    Attributes are `position`, `team` and `inventory`, each optional.
    """
    if draft.exists(OBJECTS, agent_id):
        return refuse("id_taken", f"there is an object {agent_id!r}; choose another agent_id")
    for name, value in attributes.items():
        check = _CHECKS.get(name)
        refusal = (
            _unknown(name)
            if check is None
            else value is not None and check(draft, agent_id, value, settings)
        )
        if refusal:
            return refusal
    position = attributes.get("position")
    draft.create(
        AGENTS,
        agent_id,
        {
            "position": settings.origin() if position is None else to_position(position),
            "team": attributes.get("team"),
            "inventory": (),
        },
    )
    for object_id in attributes.get("inventory") or ():
        if not draft.exists(OBJECTS, object_id):
            draft.create(OBJECTS, object_id, {"position": None, "holder": None, "portable": True})
        take(draft, object_id, agent_id)
    return None


def displace(draft: Draft, agent_id: str) -> None:
    """Remove an agent from the world; the objects it carried stay at its position."""
    for object_id in inventory_of(draft, agent_id):
        let_go(draft, object_id, agent_id)
    draft.delete(AGENTS, agent_id)
    if draft.exists(SPEECH, agent_id):
        draft.delete(SPEECH, agent_id)


def _check_position(
    _draft: Draft, _agent_id: str, value: Json, settings: WorldSettings
) -> RuleRefusal | None:
    try:
        position = to_position(value)
    except ValidationError:
        return _invalid("position", "[x, y] or [x, y, z] of finite numbers", value)
    return settings.outside(position, "/position")


def _check_team(
    _draft: Draft, _agent_id: str, value: Json, settings: WorldSettings
) -> RuleRefusal | None:
    if not is_identity(value):
        return _invalid("team", "a name of 1 to 128 characters", value)
    if settings.teams is None or value in settings.teams:
        return None
    return refuse(
        "team_unknown",
        f"there is no team {value!r}; there are {', '.join(settings.teams)}",
        at="/team",
        suggestions=nearest(value, settings.teams),
    )


def _check_inventory(
    draft: Draft, agent_id: str, value: Json, settings: WorldSettings
) -> RuleRefusal | None:
    if not are_distinct_ids(value):
        return _invalid("inventory", "a list of distinct object ids", value)
    limit = settings.inventory_max
    if limit is not None and len(value) > limit:
        return _invalid("inventory", f"at most {limit} object ids", value)
    for object_id in value:
        if object_id == agent_id or draft.exists(AGENTS, object_id):
            return refuse("id_taken", f"{object_id!r} is an agent; name objects", at="/inventory")
        holder = draft.get(OBJECTS, object_id, "holder")
        if holder is not None or not draft.get(OBJECTS, object_id, "portable", True):
            why = "cannot be carried" if holder is None else f"is held by {holder!r}"
            return refuse("held", f"{object_id!r} {why}", at="/inventory", holder=holder)
    return None


def are_distinct_ids(value: Json) -> bool:
    """Return whether a value is a list of distinct names."""
    return (
        isinstance(value, Sequence)
        and not isinstance(value, str)
        and all(is_identity(item) for item in value)
        and len(set(value)) == len(value)
    )


def _unknown(name: str) -> RuleRefusal:
    names = list(_CHECKS)
    return refuse(
        "attribute_unknown",
        f"an agent of this world is not placed by {name!r}, but by {', '.join(names)}",
        at=f"/{name}",
        suggestions=nearest(name, names, 1),
    )


def _invalid(name: str, expected: str, value: Json) -> RuleRefusal:
    return refuse("attribute_invalid", f"{name} must be {expected}, got {value!r}", at=f"/{name}")


_CHECKS: Mapping[str, _Check] = {
    "position": _check_position,
    "team": _check_team,
    "inventory": _check_inventory,
}
