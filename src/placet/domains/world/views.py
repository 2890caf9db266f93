"""Visibility in the world domain, composed from its `observation` setting.

    {"distance": 10, "hidden_fields": ["inventory"]}: both apply. {"any_of": [{"distance": 10},
    {"team": True}]}: in range, or of the same team.

A message to a team or to one agent is visible to them alone, whatever the setting. An agent's
inventory and messages have the agent's position and owner.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from placet.domains.world.payloads import AGENTS, OBJECTS, SPEECH, Position
from placet.domains.world.settings import read_length
from placet.kernel.state.tree import State
from placet.kernel.visibility.distance import WithinDistance, distance_between
from placet.kernel.visibility.policy import AllOf, AnyOf, Visibility
from placet.kernel.visibility.protocols import VisibilityPolicy
from placet.kernel.visibility.relations import HideFields, KnownOnly, SameTeam
from placet.schemas.codec import Json
from placet.schemas.identity import Ref
from placet.schemas.name_suggestions import did_you_mean, nearest

_FIELDS: Final = ("position", "team", "inventory", "holder", "portable", "said")
"""Fields that the domain writes."""

_ALMOST: Final = 0.65


def owner_of(state: State, ref: Ref) -> str | None:
    """Return the id of the agent that owns an entity, or None.

    It is an agent itself, the carrier of an object, or the speaker of a message.
    """
    if ref.collection in {AGENTS, SPEECH}:
        return ref.entity
    if ref.collection == OBJECTS and ref.entity is not None:
        holder: str | None = state.get(OBJECTS, ref.entity, "holder")
        return holder
    return None


def place_of(state: State, ref: Ref) -> Position | None:
    """Return the position of an entity; a carried object or a message has its agent's.

    None for a whole collection, and for an entity without a position.
    """
    if ref.collection == AGENTS and ref.entity is not None:  # nearly all that is asked
        place: Position | None = state.get(AGENTS, ref.entity, "position")
        return place
    owner = owner_of(state, ref)
    at = ref if owner is None else Ref(AGENTS, owner)
    return None if at.entity is None else state.get(at.collection, at.entity, "position")


class _Near(WithinDistance):
    """Visibility by distance; a carried object or a message has its agent's position."""

    def place(self, state: State, ref: Ref) -> Position | None:
        return place_of(state, ref)


class _Team(SameTeam):
    def owner(self, state: State, ref: Ref) -> str | None:
        return owner_of(state, ref)


class _Known(KnownOnly):
    def owner(self, state: State, ref: Ref) -> str | None:
        return owner_of(state, ref)


class _Hidden(HideFields):
    """Hides fields; hiding an inventory also hides the holder of each object in it."""

    hides: frozenset[str] | None = frozenset({AGENTS, OBJECTS, SPEECH})

    def __init__(self, fields: Sequence[str], agent_collection: str) -> None:
        super().__init__(fields, agent_collection)
        self._is_inventory_hidden = "inventory" in fields

    def owner(self, state: State, ref: Ref) -> str | None:
        return owner_of(state, ref)

    def may_see(self, state: State, agent_id: str, ref: Ref) -> bool:
        if not self._is_inventory_hidden or ref.collection != OBJECTS or ref.entity is None:
            return True
        is_there = state.exists(OBJECTS, ref.entity)  # a deleted object may have been carried
        return is_there and owner_of(state, ref) in {None, agent_id}

    def is_shown_to_all(self, state: State, ref: Ref) -> bool:
        """Return whether it is no object: the existence of anything else is public."""
        return ref.collection != OBJECTS


class _Audible(Visibility):
    """Visibility of messages.

    Public ones, and those to the agent's team, to the agent, or by it.
    """

    agent_collection = AGENTS
    hides: frozenset[str] | None = frozenset({SPEECH})
    depends_on: frozenset[str] | None = frozenset({"team"})
    position_field: str | None = "position"

    def may_see(self, state: State, agent_id: str, ref: Ref) -> bool:
        if ref.collection != SPEECH or ref.entity is None or ref.entity == agent_id:
            return True
        speech = state.get(SPEECH, ref.entity, "said")
        if speech is None:  # deleted: nothing tells to whom it was said
            return False
        team = speech.get("team")
        return is_addressed_to(state, agent_id, speech["channel"], speech.get("target_id"), team)

    def is_shown_to_all(self, state: State, ref: Ref) -> bool:
        """Return whether a message is public."""
        speech = None if ref.entity is None else state.get(SPEECH, ref.entity, "said")
        return speech is not None and speech["channel"] == "public"

    def distance(self, state: State, agent_id: str, ref: Ref) -> float | None:
        """Return the distance between the positions of agent and entity; None if one has none."""
        here, there = place_of(state, Ref(AGENTS, agent_id)), place_of(state, ref)
        return None if here is None or there is None else distance_between(here, there)

    def dependents_of(self, state: State, ref: Ref) -> Iterable[Ref]:
        """Return an agent's objects and messages.

        Their visibility follows the agent's position and team.
        """
        if ref.collection != AGENTS or ref.entity is None:
            return
        if state.exists(SPEECH, ref.entity):
            yield Ref(SPEECH, ref.entity)
        for object_id in state.get(AGENTS, ref.entity, "inventory", ()):
            yield Ref(OBJECTS, object_id)


def is_addressed_to(state: State, agent_id: str, channel: str, target_id: Json, team: Json) -> bool:
    """Return whether a message is addressed to an agent."""
    if channel == "public":
        return True
    if channel == "private":
        return bool(target_id == agent_id)
    return team is not None and bool(state.get(AGENTS, agent_id, "team") == team)


def read_visibility(name: str, observation: object) -> VisibilityPolicy:
    """Compose the visibility policy; None for everything except messages to others.

    Raises:
        ValueError: The setting is invalid; the message names it.
    """
    if observation is None:
        return _Audible()
    return AllOf(*_read_parts(name, observation), _Audible())


def hidden_fields_of(observation: Mapping[str, Json] | None) -> frozenset[str]:
    """Return the fields that a valid `observation` setting hides of other agents, in any part."""
    hidden: frozenset[str] = frozenset()
    for key, value in (observation or {}).items():
        if key == "hidden_fields":
            hidden |= frozenset(value)
        elif key in {"any_of", "all_of"}:
            hidden = hidden.union(*map(hidden_fields_of, value))
    return hidden


def misspelled_fields(
    observation: Mapping[str, Json] | None, objects: Iterable[Mapping[str, Json]]
) -> list[str]:
    """Return a sentence for each hidden field that has almost the name of a known one.

    Args:
        observation: A valid `observation` setting.
        objects: The fields of each object of the world.
    """
    known = sorted({*_FIELDS, *(name for fields in objects for name in fields)})
    unknown = sorted(hidden_fields_of(observation) - set(known))
    nears = ((name, nearest(name, known, 1, similar=_ALMOST)) for name in unknown)
    return [
        f"observation.hidden_fields hides {name!r}, which is no field; did you mean {near[0]!r}?"
        for name, near in nears
        if near
    ]


def _read_parts(name: str, setting: object) -> list[Visibility]:
    if not isinstance(setting, Mapping) or not setting:
        raise ValueError(
            f"{name} must be an object such as {{'distance': 10}}, with one or more of "
            f"{', '.join(_PARTS)}, got {setting!r}"
        )
    unknown = [key for key in setting if key not in _PARTS]
    if unknown:
        hint = did_you_mean(unknown[0], _PARTS)
        raise ValueError(f"{name} has the unknown part {unknown[0]!r}; {hint}")
    return [_PARTS[key](f"{name}.{key}", value) for key, value in setting.items()]


def _read_team(name: str, value: object) -> Visibility:
    if value is not True:
        raise ValueError(f"{name} must be True, or be left out, got {value!r}")
    return _Team(AGENTS)


def _read_known(name: str, value: object) -> Visibility:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name} must be the field that lists whom an agent knows, got {value!r}")
    return _Known(AGENTS, value)


def _read_hidden(name: str, value: object) -> Visibility:
    names = value if isinstance(value, list | tuple) else ()
    if not names or not all(isinstance(field, str) and field for field in names):
        raise ValueError(f"{name} must be a list of names of fields, got {value!r}")
    return _Hidden(names, AGENTS)


def _read_alternatives(name: str, value: object) -> list[Visibility]:
    if not isinstance(value, list | tuple) or not value:
        raise ValueError(f"{name} must be a list of objects, got {value!r}")
    parts = [_read_parts(f"{name}[{place}]", part) for place, part in enumerate(value)]
    return [some[0] if len(some) == 1 else AllOf(*some) for some in parts]


_PARTS: Final[Mapping[str, Callable[[str, object], Visibility]]] = {
    "distance": lambda name, value: _Near(read_length(name, value), AGENTS),
    "team": _read_team,
    "known": _read_known,
    "hidden_fields": _read_hidden,
    "any_of": lambda name, value: AnyOf(*_read_alternatives(name, value)),
    "all_of": lambda name, value: AllOf(*_read_alternatives(name, value)),
}
