"""The state tree: collection -> entity -> field -> value, one shape for every domain.

Only a draft (`kernel/state/draft.py`) and a replay (`kernel/log/replay.py`) change it. Each
entity carries a stamp, so staleness needs no history; the digest is a sum over entities, so it
costs what changed.
"""

from collections.abc import Collection as Names
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NoReturn, TypeVar, cast, overload

from placet.kernel.arrays.authors import Authors
from placet.kernel.arrays.extra import require_numpy
from placet.kernel.ledger.undo import restore_item
from placet.kernel.state.collection import Collection, Entity, Stamp, ordered_ids
from placet.kernel.state.entity_cut import EntityCut
from placet.schemas.batch import sequence_form
from placet.schemas.codec import Json, canonical, freeze, thaw
from placet.schemas.missing_key import MissingKeyError
from placet.schemas.printable import printable

if TYPE_CHECKING:
    from placet.kernel.arrays.words import Array
    from placet.kernel.state.table import TableData, TableVersion

_MODULUS_MASK: Final = (1 << 128) - 1
DIRTY_MAX: Final = 65_536
DIGEST_BYTES: Final = 16
_COLLECTION_PARTS: Final = 4
"""Parts of a collection in a dump; a table has more."""

_SHOWN_MAX: Final = 10
"""Number of entities that a `repr` names."""


Default = TypeVar("Default")

READ_AND_WRITE: Final = (
    "a rule reads by get(collection, entity, field), entity, exists and ids of its draft, and "
    "writes by put, create and delete"
)


class Replaced:
    """The parts of a state that were replaced since a mark, as they were before.

    Each item holds the whole of one earlier value. So a batch that is undone leaves its items here,
    and putting them back newest first ends with the values at the mark.

    Attributes:
        entities: `(collection, entity, row)`; row None if there was no such entity.
        stamps: `(collection, entity, tombstone, stamp of the collection, tracked_from)`; tombstone
            None if there was none.
    """

    __slots__ = ("entities", "stamps")

    def __init__(self) -> None:
        self.entities: list[tuple[str, str, Entity | None]] = []
        self.stamps: list[tuple[str, str, Stamp | None, tuple[int, str, int], int]] = []


class State:
    """The domain state of one world; it has one writer.

    A read costs O(1); values are immutable. `digest()` costs O(entities changed since the last
    call).

    Attributes:
        collections: Collections by name.
        tables: Those of them that are tables, by name.
        authors: Numbers of the members of populations, by which tables name authors.
        dirty: `(collection, entity)` whose share of the digest is out of date.
        tombstones_max: Bound of the tombstones of a collection.
        tracked_from: Below this seq a deletion may have been forgotten: an older context cannot
            be checked.
        epoch: Number of cuts and marks that were made; in a cut, the number of the cut. An entity
            of an earlier epoch is copied before it is changed.
        rewinds: Number of times that the state was set to another moment; a cut made before
            differs from this state, even at the same seq.
        replaced: Receives the values that are replaced from now on; None keeps nothing.
    """

    __slots__ = (
        "_cuts",
        "_sum",
        "authors",
        "collections",
        "dirty",
        "epoch",
        "replaced",
        "rewinds",
        "tables",
        "tombstones_max",
        "tracked_from",
    )

    def __init__(self, tombstones_max: int = 4096) -> None:
        self.collections: dict[str, Collection] = {}
        self.tables: dict[str, TableData] = {}
        self.authors = Authors()
        self.tombstones_max = tombstones_max
        self.tracked_from = 0
        self.dirty: list[tuple[str, str]] = []
        self.epoch = 0
        self.rewinds = 0
        self.replaced: Replaced | None = None
        self._cuts = 0
        self._sum = 0

    def __repr__(self) -> str:
        counts = {name: len(rows.entities) for name, rows in sorted(self.collections.items())}
        entities = ", ".join(f"{name} {count}" for name, count in counts.items() if count)
        return printable(f"<State: {entities or 'empty'}>")

    def __getitem__(self, collection: object) -> NoReturn:
        """Explain how a state is read; a view of it is a mapping, this is not."""
        raise TypeError(f"a state has no [{collection!r}]: {READ_AND_WRITE}")

    # reading

    def get(self, collection: str, entity: str, field: str, default: Json = None) -> Json:
        """Read one field, or the default where there is no such field or entity."""
        rows = self.collections.get(collection)
        row = None if rows is None else rows.entities.get(entity)
        return default if row is None else row.fields.get(field, default)

    def exists(self, collection: str, entity: str) -> bool:
        """Return whether an entity exists."""
        rows = self.collections.get(collection)
        return rows is not None and entity in rows.entities

    def entity(self, collection: str, entity: str) -> Mapping[str, Json] | None:
        """Read all fields of an entity, or None. The mapping is read-only."""
        rows = self.collections.get(collection)
        row = None if rows is None else rows.entities.get(entity)
        return None if row is None else MappingProxyType(row.fields)

    def ids(self, collection: str) -> Iterator[str]:
        """Return the ids of a collection, sorted; of a table, in the order of its rows.

        O(n log n), of a table O(rows that are read).
        """
        rows = self.collections.get(collection)
        return iter(() if rows is None else ordered_ids(rows.entities))

    def count(self, collection: str) -> int:
        """Count the entities of a collection."""
        rows = self.collections.get(collection)
        return 0 if rows is None else len(rows.entities)

    def stamp(self, collection: str, entity: str | None) -> Stamp | None:
        """Return the stamp of an entity, deleted or not, or of a collection (`entity` None).

        None if it has no stamp.
        """
        rows = self.collections.get(collection)
        if rows is None or entity is None:
            return rows
        return rows.entities.get(entity) or rows.tombstones.get(entity)

    def cut(self) -> "State":
        """Return an immutable copy that holds entities and their fields, and no stamps to rely on.

        It shares the entities with this state, which copies each one before its next change
        (`own`). So a cut costs what changed since the last one, and the first cut O(state).

        Its `epoch` is its number, and `changed` of each collection compares it with the cut before.
        """
        self.epoch += 1
        self._cuts += 1
        copy = State()
        copy.epoch = self._cuts
        for name, rows in self.collections.items():
            if rows.is_table:
                copy.add_table(self.tables[name].make_cut())
                continue
            shown = copy.collection(name)
            shown.seq = rows.seq or len(rows.tombstones)  # not 0 if the collection has been
            if rows.cut is None:
                shown.changed = dict.fromkeys(rows.entities)
                rows.cut = EntityCut.of(rows.entities)
            elif rows.changed is None:
                rows.cut = EntityCut.of(rows.entities)
            else:
                shown.changed = rows.changed
                if rows.changed:
                    rows.cut = rows.cut.successor(rows.entities, rows.changed)
            rows.changed = {}
            shown.entities = cast("dict[str, Entity]", rows.cut)  # which is only read
        return copy

    # writing, for drafts and replay

    def own(self, collection: str, entity: str, row: Entity) -> Entity:
        """Replace an entity of an earlier epoch by a copy, which may be changed; return it."""
        replaced, rows = self.replaced, self.collections[collection]
        if replaced is not None:
            replaced.entities.append((collection, entity, row))
        copy = Entity(dict(row.fields), row.seq, row.by, row.foreign_seq, self.epoch)
        copy.digest = row.digest
        rows.entities[entity] = copy
        rows.mark_changed(entity)
        return copy

    def collection(self, name: str) -> Collection:
        """Return a collection, creating it if it does not exist."""
        rows = self.collections.get(name)
        if rows is None:
            rows = self.collections[name] = Collection()
        return rows

    def mark_dirty(self, collection: str, entity: str, row: Entity) -> None:
        """Remove an entity's share from the digest until it is computed again."""
        if row.digest is not None:
            self._sum -= row.digest
            row.digest = None
        self.dirty.append((collection, entity))

    def note_touched(
        self, collection: str, entity: str, row: Entity | None, grave: Stamp | None
    ) -> None:
        """Keep the values that a creation or a deletion replaces, if it can be put back.

        Args:
            collection: The collection, with its stamp as it was before.
            entity: The created or deleted entity.
            row: The entity before; None if there was none.
            grave: Its tombstone before; None if there was none.
        """
        replaced = self.replaced
        if replaced is not None:
            rows = self.collections[collection]
            stamp = (rows.seq, rows.by, rows.foreign_seq)
            replaced.entities.append((collection, entity, row))
            replaced.stamps.append((collection, entity, grave, stamp, self.tracked_from))

    def mark(self) -> "dict[str, TableVersion]":
        """Have each entity and array copied before its next change.

        Returns:
            The present version of each table, for `put_back`.
        """
        self.epoch += 1
        return {name: table.share() for name, table in self.tables.items()}

    def put_back(
        self, newest_first: Iterable[Replaced], tables: "Mapping[str, TableVersion]"
    ) -> None:
        """Put back the replaced values. O(replaced).

        Args:
            newest_first: The replaced parts of collections.
            tables: Version of each table; others were made later, and are dropped.
        """
        for name in reversed([*self.tables]):
            if name in tables:
                self.tables[name].go_back(tables[name], is_kept=True)
            else:
                self.drop_table(name)
        oldest: dict[tuple[str, str], Entity | None] = {}
        for replaced in newest_first:
            for collection, entity, row in reversed(replaced.entities):
                oldest[collection, entity] = row
            for collection, entity, grave, stamp, tracked_from in reversed(replaced.stamps):
                rows = self.collections[collection]
                rows.seq, rows.by, rows.foreign_seq = stamp
                self.tracked_from = tracked_from
                restore_item(rows.tombstones, entity, grave)
        for (collection, entity), row in oldest.items():
            self._put_back(collection, entity, row)
        self.rewinds += 1

    def _put_back(self, collection: str, entity: str, row: Entity | None) -> None:
        rows = self.collections[collection]
        present = rows.entities.get(entity)
        if present is row:
            return
        rows.mark_changed(entity)
        if present is not None and present.digest is not None:
            self._sum -= present.digest
        if row is None:
            del rows.entities[entity]
            return
        rows.entities[entity] = row
        if row.digest is None:
            self.dirty.append((collection, entity))
        else:
            self._sum += row.digest

    def become(self, other: "State") -> None:
        """Take over the contents of a state that was just loaded, which is not used afterwards.

        O(state).

        Mappings of collections that were read from this state show them too.
        """
        for name in {**self.tables, **other.tables}:
            self._become_table(name, other)
        self.authors.populations = other.authors.populations
        for name in {**self.collections, **other.collections}:
            if name in self.tables:
                continue
            rows, others = self.collection(name), other.collection(name)
            rows.entities.clear()
            rows.entities.update(others.entities)
            rows.tombstones, rows.changed = others.tombstones, None
            rows.seq, rows.by, rows.foreign_seq = others.seq, others.by, others.foreign_seq
        self.tracked_from, self.dirty, self._sum = other.tracked_from, other.dirty, 0
        self.replaced = None
        self.rewinds += 1

    def _become_table(self, name: str, other: "State") -> None:
        table, present = other.tables.get(name), self.tables.get(name)
        if table is None:
            del self.tables[name], self.collections[name]
            return
        table.authors = self.authors
        if present is None:
            self.add_table(table)
        else:
            present.become(table)

    def trim(self, collection: str) -> None:
        """Forget the older half of the tombstones where there are too many; at commit only.

        By (seq, id) and not by the dict's order, which depends on batches that were undone.
        """
        rows, replaced = self.collections[collection], self.replaced
        graves, stamp = rows.tombstones, (rows.seq, rows.by, rows.foreign_seq)
        if len(graves) <= self.tombstones_max:
            return
        by_age = sorted(graves, key=lambda entity: (graves[entity].seq, entity))
        for entity in by_age[: len(graves) - self.tombstones_max // 2]:
            grave = graves.pop(entity)
            if replaced is not None:
                replaced.stamps.append((collection, entity, grave, stamp, self.tracked_from))
            self.tracked_from = max(self.tracked_from, grave.seq)

    def add_table(self, table: "TableData") -> None:
        """Add a table, which stays: its rows are neither created nor deleted."""
        self.collections[table.name] = self.tables[table.name] = table

    def table_of(self, name: str) -> str | None:
        """Return the table of whose rows a name is one, or would be with more rows; else None."""
        form = sequence_form(name)
        stem = None if form is None else form[0]
        return next((table.name for table in self.tables.values() if table.stem == stem), None)

    def drop_table(self, name: str) -> None:
        """Take back a table, whose registration failed."""
        table = self.tables.pop(name)
        del self.collections[name]
        self.authors.drop(table.stem)
        # Undone writes of its rows wait for a digest, which would look for the collection.
        self.dirty[:] = [place for place in self.dirty if place[0] != name]

    # the whole

    def digest(self) -> bytes:
        """Return the state digest: entity hashes summed mod 2**128, 16 bytes."""
        for collection, entity in self.dirty:
            row = self.collections[collection].entities.get(entity)
            if row is not None and row.digest is None:
                row.digest = entity_hash(collection, entity, row.fields)
                self._sum += row.digest
        self.dirty.clear()
        self._sum &= _MODULUS_MASK
        total = self._sum
        if self.tables:
            total = total + sum(table.digest() for table in self.tables.values()) & _MODULUS_MASK
        return total.to_bytes(DIGEST_BYTES, "big")

    def as_dict(self) -> dict[str, dict[str, dict[str, Json]]]:
        """Copy the whole tree as plain JSON values. O(state)."""
        return {
            name: self.tables[name].as_dict()
            if rows.is_table
            else {key: thaw(dict(rows.entities[key].fields)) for key in sorted(rows.entities)}
            for name, rows in sorted(self.collections.items())
            if rows.entities
        }

    def dump(self) -> list[Json]:
        """Return the whole tree with its stamps, sorted, for snapshots and the world digest."""
        return [self.tracked_from] + [
            table.dump()
            if (table := self.tables.get(name)) is not None
            else [
                name,
                [rows.seq, rows.by, rows.foreign_seq],
                [
                    [key, row.fields, row.seq, row.by, row.foreign_seq]
                    for key, row in sorted(rows.entities.items())
                ],
                [
                    [key, grave.seq, grave.by, grave.foreign_seq]
                    for key, grave in sorted(rows.tombstones.items())
                ],
            ]
            for name, rows in sorted(self.collections.items())
            if rows.has_been
        ]

    @classmethod
    def load(cls, dumped: list[Json], tombstones_max: int = 4096) -> "State":
        """Rebuild a tree from `dump`."""
        state = cls(tombstones_max)
        state.tracked_from, *collections = dumped
        for name, *table in (each for each in collections if len(each) != _COLLECTION_PARTS):
            _load_table(state, name, *table)
        for name, (seq, by, foreign_seq), entities, graves in (
            each for each in collections if len(each) == _COLLECTION_PARTS
        ):
            rows = state.collection(name)
            rows.seq, rows.by, rows.foreign_seq = seq, by, foreign_seq
            for key, fields, *stamp in entities:
                frozen = {field: freeze(value) for field, value in fields.items()}
                rows.entities[key] = row = Entity(frozen, *stamp)
                state.mark_dirty(name, key, row)
            rows.tombstones = {key: Stamp(*stamp) for key, *stamp in graves}
        return state


def _load_table(state: State, name: str, *dumped: Json) -> None:
    require_numpy("the snapshot")
    from placet.kernel.state.table import TableData  # noqa: PLC0415  # numpy is an extra

    state.add_table(TableData.load(state.authors, name, *dumped))


def entity_hash(collection: str, entity: str, fields: Mapping[str, Json]) -> int:
    """Hash one entity to 128 bits over its canonical bytes."""
    data = canonical((collection, entity, fields))
    return int.from_bytes(blake2b(data, digest_size=DIGEST_BYTES).digest(), "big")


class WorldState(Mapping[str, Mapping[str, Mapping[str, Json]]]):
    """The state as a read-only mapping: `world_state["world.agents"]["alice"]["position"]`.

    It is a live view, not a copy. It iterates over the collections that have entities. A collection
    that a domain declares, or that had entities at an earlier seq, is an empty mapping; any other
    name raises.

    Args:
        state: The state.
        declared: Names of the collections that the world's domains declare.
    """

    __slots__ = ("_declared", "_state")

    def __init__(self, state: State, declared: Names[str] = ()) -> None:
        self._state = state
        self._declared = declared

    def __getitem__(self, collection: str) -> Mapping[str, Mapping[str, Json]]:
        rows = self._state.collections.get(collection)
        if rows is not None and rows.has_been:
            return _CollectionView(rows.entities)
        if collection in self._declared:
            return NO_ENTITIES
        raise MissingKeyError(collection, "collection", self.known())

    def known(self) -> Iterator[str]:
        """Yield the names of the collections that do not raise, the empty ones too, sorted."""
        been = {name for name, rows in self._state.collections.items() if rows.has_been}
        yield from sorted(been.union(self._declared))

    def columns(self, table: str) -> "Mapping[str, Array] | None":
        """Return the columns of a table, `(rows, *shape)` each, read-only; None of no table.

        They keep their values: a later change writes into a copy. O(fields).
        """
        rows = self._state.tables.get(table)
        if rows is None:
            return None
        return {name: rows.shown(name) for name in rows.fields}

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(n for n, rows in self._state.collections.items() if rows.entities))

    def __len__(self) -> int:
        return sum(1 for rows in self._state.collections.values() if rows.entities)

    def __repr__(self) -> str:
        sizes = (f"{name}: {len(entities)}" for name, entities in self.items())
        return printable(f"<WorldState of {', '.join(sizes) or 'no entities'}>")


class _CollectionView(Mapping[str, Mapping[str, Json]]):
    __slots__ = ("_entities",)

    def __init__(self, entities: Mapping[str, Entity]) -> None:
        self._entities = entities

    def __getitem__(self, entity: str) -> Mapping[str, Json]:
        row = self._entities.get(entity)
        if row is None:
            raise MissingKeyError(entity, "entity", self)
        return MappingProxyType(row.fields)

    @overload
    def get(self, entity: str, /) -> Mapping[str, Json] | None: ...
    @overload
    def get(self, entity: str, /, default: Default) -> Mapping[str, Json] | Default: ...
    def get(self, entity: str, /, default: object = None) -> object:
        """Return an entity's fields, without the exception that `Mapping.get` would catch."""
        row = self._entities.get(entity)
        return default if row is None else MappingProxyType(row.fields)

    def __contains__(self, entity: object) -> bool:
        return entity in self._entities

    def __iter__(self) -> Iterator[str]:
        return iter(ordered_ids(self._entities))

    def __len__(self) -> int:
        return len(self._entities)

    def __repr__(self) -> str:
        more = ["…"] if len(self) > _SHOWN_MAX else []
        return f"<{len(self)} entities: {', '.join([*islice(self, _SHOWN_MAX), *more])}>"


NO_ENTITIES: Final[Mapping[str, Mapping[str, Json]]] = _CollectionView({})
"""A collection without entities."""
