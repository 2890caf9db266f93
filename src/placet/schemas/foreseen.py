"""Foresee a batch: the definite parts of its preview, and the parts decided when it is applied.

A preview is the result of one dry run. A value that depends on random draws or on time differs when
the same batch is decided at another moment. So the changes of several dry runs are compared by
path: a value that is equal in all of them is definite, any other is undecided. An undecided change
is shown by its path alone and compared by its path alone.

A comparison of dry runs can miss a rare event. So a request for approval stores `digest` and
`undecided` of the preview that a person was shown, and `is_foreseen` compares them with the changes
of the batch that is applied, before they become final.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import Final, Literal, NamedTuple, TypeAlias

from placet.schemas.codec import Json, canonical
from placet.schemas.json_value import pointer

UNDECIDED: Final = "decided when applied"
"""Text for people in the place of an undecided value."""

Op: TypeAlias = Literal["add", "replace", "remove", "undecided"]


class FieldChange(NamedTuple):
    """A change of one field, made or previewed.

    Attributes:
        collection: The collection's name.
        entity: The entity's id; None in a preview if the id is decided when the batch is applied.
        field: The field; None if an entity without fields is created or deleted.
        op: `add`, `replace` or `remove`; `undecided` in a preview if the value is decided when the
            batch is applied: the field may then also stay as it is.
        old: Value before; None for `add` and `undecided`.
        new: Value after; None for `remove` and `undecided`.
    """

    collection: str
    entity: str | None
    field: str | None
    op: Op
    old: Json
    new: Json

    @property
    def entity_path(self) -> str:
        """Path of the entity in the state: `collection/entity`."""
        return f"{self.collection}/({UNDECIDED})" if self.entity is None else self._place

    @property
    def path(self) -> str:
        """Path of the field in the state: `collection/entity/field`."""
        return "/".join(filter(None, (self.entity_path, self.field)))

    @property
    def _place(self) -> str:
        return "/".join(filter(None, (self.collection, self.entity)))


class Preview(NamedTuple):
    """The changes and effects of one batch, as one decision made them.

    Attributes:
        changes: Changed fields, each path once.
        effects: Kind and payload of each effect, in order.
    """

    changes: Sequence[FieldChange]
    effects: Sequence[tuple[str, Mapping[str, Json]]] = ()


class Foreseen(NamedTuple):
    """The changes and effects of a batch as far as they are definite.

    Attributes:
        changes: Definite changes with their values, undecided ones by path.
        effects: Fields of the effects' payloads in the same form: the collection is the kind of
            the effect, the entity its place in the batch, the field a JSON pointer.
    """

    changes: tuple[FieldChange, ...]
    effects: tuple[FieldChange, ...] = ()

    @property
    def undecided(self) -> list[Json]:
        """The undecided paths of changes and of effects, as plain JSON for `is_foreseen`."""
        return [_undecided_paths(self.changes), _undecided_paths(self.effects)]

    @property
    def digest(self) -> str:
        """Hexadecimal digest of all definite changes and effects."""
        return _digest(self.changes, self.effects, self.undecided)


def foresee(now: Preview, others: Iterable[Preview] = ()) -> Foreseen:
    """Compare the preview of a batch with its previews at other moments and by other draws.

    Args:
        now: The preview at the present moment, whose values are shown where they are definite.
        others: Previews at the same state. Without any, all of `now` is definite.
    """
    runs = [now, *others]
    return Foreseen(
        _compared([run.changes for run in runs]),
        _compared([_fields_of(run.effects) for run in runs]),
    )


def is_foreseen(preview: Preview, digest: str, undecided: Sequence[Json]) -> bool:
    """Return whether a batch changes no more, no less and nothing else than was foreseen.

    Args:
        preview: The changes and effects of the batch.
        digest: `Foreseen.digest` of the preview that was shown.
        undecided: Its `Foreseen.undecided`; changes at these paths may have any value.
    """
    return _digest(preview.changes, _fields_of(preview.effects), undecided) == digest


_Values: TypeAlias = dict[str | None, FieldChange]
"""Entity -> the change of one field of it."""


def _compared(runs: Sequence[Sequence[FieldChange]]) -> tuple[FieldChange, ...]:
    """Return the changes of the first run, definite where all runs agree, and the other paths."""
    if len(runs) == 1:
        return tuple(runs[0])
    fields = [_by_field(run) for run in runs]
    compared: dict[tuple[str, str | None, str | None], FieldChange] = {}
    unnamed: dict[tuple[str, str | None], bool] = {}
    for collection, field in dict.fromkeys(key for run in fields for key in run):
        found = [run.get((collection, field), {}) for run in fields]
        if _is_nested(found):
            for entity in dict.fromkeys(entity for values in found for entity in values):
                key = (collection, entity, field)
                compared[key] = _agreed([values.get(entity) for values in found], *key)
        else:
            unnamed[collection, field] = _have_equal_values(found)
    return tuple(_in_order(runs, compared, unnamed))


def _in_order(
    runs: Sequence[Sequence[FieldChange]],
    compared: Mapping[tuple[str, str | None, str | None], FieldChange],
    unnamed: Mapping[tuple[str, str | None], bool],
) -> Iterable[FieldChange]:
    """Yield the compared changes in the order of the first run, then those of other runs alone.

    Args:
        runs: The runs.
        compared: The changes of entities that all runs name.
        unnamed: Each field of which the runs change other entities, and whether its values are
            definite.
    """
    seen: set[tuple[str, str | None, str | None]] = set()
    for number, run in enumerate(runs):
        for change in run:
            collection, entity, field = change[:3]
            has_values = unnamed.get((collection, field))
            if has_values:  # the values of the first run stand for those of all
                if number == 0:
                    yield change._replace(entity=None)
                continue
            key = (collection, entity if has_values is None else None, field)
            if key not in seen:
                seen.add(key)
                yield compared.get(key) or FieldChange(*key, "undecided", None, None)


def _by_field(run: Sequence[FieldChange]) -> dict[tuple[str, str | None], _Values]:
    grouped: dict[tuple[str, str | None], _Values] = {}
    for change in run:
        grouped.setdefault((change.collection, change.field), {})[change.entity] = change
    return grouped


def _is_nested(found: Sequence[_Values]) -> bool:
    """Return whether the runs change the same entities, but for some that a run leaves as it is."""
    by_size = sorted(found, key=len)
    return all(less.keys() <= more.keys() for less, more in pairwise(by_size))


def _agreed(
    values: Sequence[FieldChange | None], collection: str, entity: str | None, field: str | None
) -> FieldChange:
    """Return the change of one path if all runs make it, else an undecided change."""
    first = values[0]
    if first is not None and len({canonical(value) for value in values}) == 1:
        return first
    return FieldChange(collection, entity, field, "undecided", None, None)


def _have_equal_values(found: Sequence[_Values]) -> bool:
    """Return whether all runs make the same changes of a field, each of other entities."""
    return len({canonical(sorted(map(_value, run.values()))) for run in found}) == 1


def _value(change: FieldChange) -> bytes:
    return canonical(change[3:])


def _fields_of(effects: Iterable[tuple[str, Mapping[str, Json]]]) -> list[FieldChange]:
    """Return the effects as additions of the fields of their payloads."""
    return [
        FieldChange(kind, str(place), at, "add", None, value)
        for place, (kind, payload) in enumerate(effects)
        for at, value in _leaves((), payload)
    ]


def _leaves(path: tuple[str, ...], value: Json) -> Iterable[tuple[str, Json]]:
    """Yield the JSON pointer and the value of each field of an object that is no object itself."""
    if not isinstance(value, Mapping):
        yield pointer(path), value
        return
    yield pointer(path), {}
    for name, inner in value.items():
        yield from _leaves((*path, name), inner)


def _undecided_paths(changes: Iterable[FieldChange]) -> list[Json]:
    """List `[collection, entity, field, is_undecided]` of the changes that are not definite."""
    paths = [
        (change.collection, change.entity, change.field, change.op == "undecided")
        for change in changes
        if change.op == "undecided" or change.entity is None
    ]
    return [list(path) for path in dict.fromkeys(paths)]


def _digest(
    changes: Iterable[FieldChange], effects: Iterable[FieldChange], undecided: Sequence[Json]
) -> str:
    parts = [_definite(changes, undecided[0]), _definite(effects, undecided[1])]
    return blake2b(canonical(parts), digest_size=16).hexdigest()


def _definite(changes: Iterable[FieldChange], undecided: Sequence[Json]) -> list[bytes]:
    """Return the definite parts of changes, in an order that no rule determines."""
    paths = {(collection, entity, field) for collection, entity, field, _ in undecided}
    unnamed = {(path[0], path[2]): path[3] for path in undecided if path[1] is None}
    definite = []
    for change in changes:
        collection, entity, field = change[:3]
        is_undecided = unnamed.get((collection, field))
        if is_undecided or (entity is not None and (collection, entity, field) in paths):
            continue
        name = entity if is_undecided is None else None
        definite.append(canonical([collection, name, field, *change[3:]]))
    return sorted(definite)
