"""Reads a part of the state by its path: `collection`, `collection/entity`, or with a `/field`."""

from collections.abc import Mapping
from typing import NoReturn

from placet.kernel.state.tree import WorldState
from placet.schemas.codec import Json, thaw
from placet.schemas.missing_key import MissingKeyError


def state_at(state: Mapping[str, Mapping[str, Mapping[str, Json]]], path: str) -> Json:
    """Return a copy of the value at a path of the state, as plain JSON. O(its size).

    An empty path is the whole state. A collection that is known and has no entities is `{}`.

    The id of an entity may contain a slash; the longest existing id is used.

    Raises:
        KeyError: There is nothing at the path.
    """
    name, _, rest = path.strip("/").partition("/")
    if not name:
        return {name: _entities(rows) for name, rows in state.items()}
    known = state.get(name)
    if not rest and known is not None:
        return _entities(known)
    rows = known or {}
    if rest in rows:
        return thaw(dict(rows[rest]))
    entity, _, field = rest.rpartition("/")
    fields = rows.get(entity, {})
    if field in fields:
        return thaw(fields[field])
    raise KeyError(f"there is nothing at {path!r}; the collections are {sorted(state)}")


class KnownState(dict[str, Json]):
    """A copy of a state: its collections, the known ones without entities too.

    It is pickled, and names the nearest collection where one is missing, as a `WorldState` does.
    """

    @classmethod
    def of(cls, state: WorldState) -> "KnownState":
        """Copy a state as plain JSON. O(state)."""
        return cls((name, _entities(state[name])) for name in state.known())

    def __missing__(self, name: str) -> NoReturn:
        raise MissingKeyError(name, "collection", self)


def _entities(rows: Mapping[str, Mapping[str, Json]]) -> Json:
    return {entity: thaw(dict(fields)) for entity, fields in rows.items()}
