"""Reads a part of the state by its path: `collection`, `collection/entity`, or with a `/field`."""

from collections.abc import Mapping

from placet.schemas.codec import Json, thaw


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


def _entities(rows: Mapping[str, Mapping[str, Json]]) -> Json:
    return {entity: thaw(dict(fields)) for entity, fields in rows.items()}
