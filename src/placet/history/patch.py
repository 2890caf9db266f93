"""Parses a path and a value into an operator's patch: set a field, set or delete an entity."""

from collections.abc import Iterable, Iterator, Mapping

from placet.kernel.state.tree import State
from placet.schemas.codec import Json, canonical, thaw
from placet.schemas.errors import ValidationError
from placet.schemas.log.operator_records import Given


def parse_patch(
    state: State, path: str, value: Json
) -> tuple[str, str, dict[str, Json] | None, bool]:
    """Parse a path and a value into `(collection, entity, fields, is_whole)`, an operator's change.

    `fields` is None to delete the entity. The id of an existing entity may contain a slash.

    Args:
        state: The state to change, which knows the existing entities.
        path: `collection/entity/field`, or `collection/entity`.
        value: Value of the field; or an object of all fields of the entity, None to delete it.

    Raises:
        ValidationError: The path or the value does not have these forms.
    """
    collection, _, rest = path.strip("/").partition("/")
    entity, _, name = rest.rpartition("/")
    if not collection or not rest:
        raise ValidationError(
            f"expected collection/entity/field or collection/entity, got {path!r}"
        )
    if not entity or state.exists(collection, rest):
        if value is not None and not isinstance(value, Mapping):
            raise ValidationError(
                f"{path} is an entity: expected an object of all its fields, or null to delete it, "
                f"got {value!r}"
            )
        return collection, rest, None if value is None else dict(value), True
    return collection, entity, {name: value}, False


def inverse_patch(then: State, now: State, path: str) -> Given:
    """Return the changes that give a part of the state its earlier values. O(that part).

    Args:
        then: The earlier state.
        now: The present state.
        path: `collection`, or `collection/entity`.

    Raises:
        ValidationError: Neither state has anything at the path.
    """
    collection, _, entity = path.strip("/").partition("/")
    names = {entity} if entity else {*then.ids(collection), *now.ids(collection)}
    if not any(state.exists(collection, name) for state in (then, now) for name in names):
        raise ValidationError(f"there is nothing at {path!r}, and there was nothing then")
    return list(_differing(then, now, collection, sorted(names)))


def _differing(
    then: State, now: State, collection: str, names: Iterable[str]
) -> Iterator[tuple[str, str, dict[str, Json] | None, bool]]:
    for name in names:
        was, is_now = then.entity(collection, name), now.entity(collection, name)
        if _bytes(was) != _bytes(is_now):
            yield collection, name, None if was is None else thaw(dict(was)), True


def _bytes(fields: Mapping[str, Json] | None) -> bytes | None:
    """Write an entity as its digest sees it: to Python, 1 and 1.0 and True are equal."""
    return None if fields is None else canonical(dict(fields))
