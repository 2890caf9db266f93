"""A draft: the only way by which rules touch the state, undone as a whole if a batch is refused.

It writes straight into the tree and keeps an undo list, so a batch costs what it touches. Reading
in a draft therefore sees what the intents before it in the batch did.
"""

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from placet.kernel.domain import Ref
from placet.kernel.draw import draw_below, draw_unit
from placet.kernel.state import Entity, Stamp, State
from placet.schemas.codec import Json, freeze
from placet.schemas.identity import SYSTEM
from placet.schemas.limits import SECOND_NS
from placet.schemas.record import Changes, CollectionChange, EntityChange
from placet.schemas.refusal import Notice

_ABSENT: Final = object()
_WHOLE: Final = ""
"""Stands in the undo list for create and delete, where a field's name would; no field has it."""

NO_CHANGES: Final = Changes()

_Undo: TypeAlias = tuple[str, str, str, Json, Entity, int, str, int]
Mark: TypeAlias = tuple[int, int, int, int]


class ToolUnregistered(Exception):  # noqa: N818  # control flow between a rule and the gate
    """A rule emitted an effect for which there is no executor."""


class Draft:
    """State as a rule sees and changes it.

    Attributes:
        state: The tree, for reading.
        agent_id: Whose intent is being applied; `system` on ticks and settlements.
        seq: The sequence number that the intent will have.
        now_ns: Simulated nanoseconds.
    """

    __slots__ = (
        "_claims",
        "_claims_undo",
        "_collection_undo",
        "_executors",
        "_position",
        "_seed",
        "_undo",
        "agent_id",
        "effects",
        "normalized",
        "notices",
        "now_ns",
        "seq",
        "state",
    )

    def __init__(self, state: State, seed: int = 0, executors: Mapping[str, object] = {}) -> None:
        self.state = state
        self.agent_id: str = SYSTEM
        self.seq = 0
        self.now_ns = 0
        self._seed = seed
        self._executors = executors
        self._position = 0
        self._undo: list[_Undo] = []
        self._collection_undo: list[tuple[str, str, Stamp, Stamp | None]] = []
        self._claims: dict[str, str] = {}
        self._claims_undo: list[str] = []
        self.effects: list[tuple[int, str, dict[str, Json], str]] = []
        self.normalized: dict[int, dict[str, Json]] | None = None
        self.notices: dict[int, tuple[Notice, ...]] | None = None

    # reading

    @property
    def sim_time(self) -> float:
        """Simulated seconds."""
        return self.now_ns / SECOND_NS

    def get(self, collection: str, entity: str, field: str, default: Json = None) -> Json:
        """Read one field, or the default where there is no such field or entity."""
        rows = self.state.collections.get(collection)
        row = None if rows is None else rows.entities.get(entity)
        return default if row is None else row.fields.get(field, default)

    def exists(self, collection: str, entity: str) -> bool:
        """Tell whether an entity exists."""
        return self.state.exists(collection, entity)

    def entity(self, collection: str, entity: str) -> Mapping[str, Json] | None:
        """Read all fields of an entity, or None. The mapping is read-only."""
        return self.state.entity(collection, entity)

    def ids(self, collection: str) -> Iterator[str]:
        """Give the ids of a collection, sorted. O(n log n)."""
        return self.state.ids(collection)

    def draw(self, purpose: str) -> float:
        """Draw a number in [0, 1): the same for the same seed, seq, agent and purpose."""
        return draw_unit(self._seed, self.seq, self.agent_id, purpose)

    def draw_below(self, bound: int, purpose: str) -> int:
        """Draw an int in 0..bound-1."""
        return draw_below(bound, self._seed, self.seq, self.agent_id, purpose)

    # writing

    def put(self, collection: str, entity: str, field: str, value: Json) -> None:
        """Set one field of an entity that exists.

        Raises:
            KeyError: There is no such entity; `create` it.
            TypeError, ValueError: The value is not plain JSON, or not finite.
        """
        rows = self.state.collections.get(collection)
        row = None if rows is None else rows.entities.get(entity)
        if row is None:
            raise KeyError(f"no entity {collection}/{entity}; create it before you put a field")
        if not field:
            raise ValueError("a field needs a name")
        value = freeze(value)
        fields = row.fields
        by = row.by
        self._undo.append(
            (
                collection,
                entity,
                field,
                fields.get(field, _ABSENT),
                row,
                row.seq,
                by,
                row.foreign_seq,
            )
        )
        fields[field] = value
        if by != self.agent_id:
            row.foreign_seq = row.seq
            row.by = self.agent_id
        row.seq = self.seq
        if row.digest is not None:
            self.state.mark_dirty(collection, entity, row)

    def create(
        self, collection: str, entity: str, fields: Mapping[str, Json] | None = None
    ) -> None:
        """Create an entity with these fields.

        Raises:
            KeyError: It exists already.
            TypeError, ValueError: A value is not plain JSON, or not finite.
        """
        rows = self.state.collection(collection)
        if entity in rows.entities:
            raise KeyError(f"entity {collection}/{entity} exists already")
        frozen = {name: freeze(value) for name, value in (fields or {}).items()}
        if _WHOLE in frozen:
            raise ValueError("a field needs a name")
        grave = rows.tombstones.pop(entity, None)
        self._touch(collection, entity, grave)
        row = Entity(frozen, self.seq, self.agent_id)
        if grave is not None:
            row.foreign_seq = grave.changed_for(self.agent_id)
        self._undo.append((collection, entity, _WHOLE, _ABSENT, row, 0, "", 0))
        rows.entities[entity] = row
        self.state.mark_dirty(collection, entity, row)

    def delete(self, collection: str, entity: str) -> None:
        """Delete an entity.

        Raises:
            KeyError: There is no such entity.
        """
        rows = self.state.collections.get(collection)
        row = None if rows is None else rows.entities.pop(entity, None)
        if rows is None or row is None:
            raise KeyError(f"no entity {collection}/{entity} to delete")
        self._touch(collection, entity, rows.tombstones.get(entity))
        self._undo.append((collection, entity, _WHOLE, row, row, 0, "", 0))
        if row.digest is not None:
            self.state.mark_dirty(collection, entity, row)
        grave = Stamp(row.seq, row.by, row.foreign_seq)
        grave.touch(self.seq, self.agent_id)
        rows.tombstones[entity] = grave

    def claim(self, resource: str) -> str | None:
        """Take something that only one agent may have in this group.

        Returns:
            None if it is now this agent's, else the agent who took it first.
        """
        winner = self._claims.setdefault(resource, self.agent_id)
        if winner != self.agent_id:
            return winner
        self._claims_undo.append(resource)
        return None

    def emit(self, kind: str, payload: Mapping[str, Json]) -> None:
        """Ask for an effect on the outside world, to be run once the batch is durable.

        Without an executor for `kind` the intent is refused as `tool_unregistered`.
        """
        if kind not in self._executors:
            raise ToolUnregistered(kind)
        frozen = {name: freeze(value) for name, value in payload.items()}
        self.effects.append((self.seq, kind, frozen, self.agent_id))

    def normalize(self, payload: Mapping[str, Json]) -> None:
        """Replace the payload that verdict and log will show by the one that was applied."""
        if self.normalized is None:
            self.normalized = {}
        self.normalized[self._position] = {k: freeze(v) for k, v in payload.items()}

    def warn(self, code: str, message: str, *, at: str = "") -> None:
        """Let the intent pass, and say what was changed on the way in."""
        if self.notices is None:
            self.notices = {}
        known = self.notices.get(self._position, ())
        self.notices[self._position] = (*known, Notice(code, message, at))

    # for the kernel

    def open_group(self, now_ns: int) -> None:
        """Begin a group of batches: claims hold from here to the next group."""
        self.now_ns = now_ns
        self._claims.clear()

    def open_batch(self) -> None:
        """Begin a batch: what was done so far can no longer be undone."""
        self._undo.clear()
        if self._collection_undo:
            self._collection_undo.clear()
        if self._claims_undo:
            self._claims_undo.clear()
        if self.effects:
            self.effects = []
        self.normalized = None
        self.notices = None

    def begin(self, position: int, seq: int, agent_id: str) -> None:
        """Turn to the next intent of the batch."""
        self._position = position
        self.seq = seq
        self.agent_id = agent_id

    def mark(self) -> Mark:
        """Remember this point, to `undo` back to."""
        return (
            len(self._undo),
            len(self._collection_undo),
            len(self._claims_undo),
            len(self.effects),
        )

    def undo(self, mark: Mark = (0, 0, 0, 0)) -> None:
        """Take back everything since a mark, newest first."""
        undo_to, collections_to, claims_to, effects_to = mark
        while len(self._undo) > undo_to:
            self._undo_one(*self._undo.pop())
        while len(self._collection_undo) > collections_to:
            self._untouch(*self._collection_undo.pop())
        claimed = self._claims_undo
        while len(claimed) > claims_to:
            resource = claimed.pop()
            if resource not in claimed:
                del self._claims[resource]
        del self.effects[effects_to:]

    def changed(self) -> list[Ref]:
        """List the entities that the batch changed, each once, in order of first change."""
        return [Ref(*key) for key in dict.fromkeys((u[0], u[1]) for u in self._undo)]

    def changes(self) -> Changes:
        """Sum up what the batch did, for the record. O(what it touched)."""
        touched: dict[tuple[str, str], dict[str, None] | None] = {}
        for collection, entity, field, *_ in self._undo:
            key = (collection, entity)
            if field == _WHOLE:
                touched[key] = None
            else:
                fields = touched.setdefault(key, {})
                if fields is not None:
                    fields[field] = None
        if not touched:
            return NO_CHANGES
        names = dict.fromkeys(name for name, *_ in self._collection_undo)
        stamps = ((name, self.state.collections[name]) for name in names)
        return Changes(
            [self._change(*key, fields) for key, fields in touched.items()],
            [CollectionChange(name, rows.seq, rows.by, rows.foreign_seq) for name, rows in stamps],
        )

    def _change(self, collection: str, entity: str, fields: dict[str, None] | None) -> EntityChange:
        rows = self.state.collections[collection]
        row = rows.entities.get(entity)
        if row is None:
            grave = rows.tombstones.get(entity) or Stamp()  # created and deleted: no grave remains
            return EntityChange(
                collection, entity, None, True, grave.seq, grave.by, grave.foreign_seq
            )
        values = row.fields if fields is None else {name: row.fields[name] for name in fields}
        return EntityChange(
            collection, entity, dict(values), fields is None, row.seq, row.by, row.foreign_seq
        )

    def _undo_one(
        self,
        collection: str,
        entity: str,
        field: str,
        old: Json,
        row: Entity,
        seq: int,
        by: str,
        foreign_seq: int,
    ) -> None:
        if field != _WHOLE:
            if old is _ABSENT:
                del row.fields[field]
            else:
                row.fields[field] = old
            row.seq, row.by, row.foreign_seq = seq, by, foreign_seq
            return
        entities = self.state.collections[collection].entities
        if old is _ABSENT:
            del entities[entity]
        else:
            entities[entity] = row
        self.state.mark_dirty(collection, entity, row)

    def _touch(self, collection: str, entity: str, grave: Stamp | None) -> None:
        rows = self.state.collections[collection]
        before = Stamp(rows.seq, rows.by, rows.foreign_seq)
        self._collection_undo.append((collection, entity, before, grave))
        rows.touch(self.seq, self.agent_id)

    def _untouch(self, collection: str, entity: str, before: Stamp, grave: Stamp | None) -> None:
        rows = self.state.collections[collection]
        rows.seq, rows.by, rows.foreign_seq = before.seq, before.by, before.foreign_seq
        if grave is not None:
            rows.tombstones[entity] = grave
        else:
            rows.tombstones.pop(entity, None)
