"""The kernel's side of a draft: begin, undo, and sum up the changes for the record.

Rules receive the same object typed as a `Draft`, which has none of these methods: a rule cannot
undo.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from placet.kernel.ledger.ordinals import Ordinals
from placet.kernel.state.collection import Entity, Stamp
from placet.kernel.state.draft import (
    ABSENT,
    NO_EXECUTORS,
    WHOLE,
    Draft,
    Draws,
    Undo,
)
from placet.kernel.state.draft_interfaces import AgentRegistrar, Sized
from placet.kernel.state.tree import DIRTY_MAX, State
from placet.schemas.batch import CheckedBatch
from placet.schemas.codec import Json, canonical
from placet.schemas.foreseen import FieldChange, Preview
from placet.schemas.identity import Ref
from placet.schemas.limits import UNLIMITED
from placet.schemas.log.changes import AgentChange
from placet.schemas.log.record import Changes, CollectionChange, EntityChange

if TYPE_CHECKING:
    from placet.schemas.log.column_records import ColumnWrite

NO_CHANGES: Final = Changes()

_REF: Final = partial(tuple.__new__, Ref)
"""Makes a `Ref` of a pair in a third of the time of `Ref._make`."""

Watched: TypeAlias = Mapping[str, Collection[str]]
"""Entity -> the collections in which it is watched."""

Mark: TypeAlias = tuple[int, int, int, int, int]
START: Final[Mark] = (0, 0, 0, 0, 0)


class Transaction(Draft):
    """A draft that can be undone, as a whole or back to a mark.

    Attributes:
        fates: Agent -> whether the latest entry of it in `agents` is a removal.
        born: Number of registrations less that of removals in `agents`.
    """

    __slots__ = ("_is_of_tick", "_summed", "born", "fates")

    def __init__(
        self,
        state: State,
        seed: int = 0,
        executors: Mapping[str, object] = NO_EXECUTORS,
        ordinals: Ordinals | None = None,
    ) -> None:
        super().__init__(state, seed, executors, ordinals)
        self._summed: tuple[int, Changes] | None = None
        self._is_of_tick = False
        self.fates: dict[str, bool] = {}
        self.born = 0

    def open_group(self, now_ns: int, work_max: int = UNLIMITED, *, tick: int = 0) -> None:
        """Begin a group of batches: claims hold until the next group.

        Args:
            now_ns: Simulated nanoseconds.
            work_max: Units of work that each of its batches may use.
            tick: Number of ticks before.
        """
        if now_ns != self._now_ns or tick != self._tick:
            self._draw_states.clear()
        self._now_ns = now_ns
        self._tick = tick
        self._work_max = work_max
        self._claims.clear()
        self._bound_dirty()

    def _bound_dirty(self) -> None:
        """Bound the list of entities that wait for a digest."""
        if len(self.state.dirty) > DIRTY_MAX:
            self.state.digest()

    def open_batch(self, batch: Sized | None = None) -> None:
        """Begin a batch: earlier changes can no longer be undone.

        Args:
            batch: The batch; None for a hook, whose work has no limit.
        """
        self._batch = batch
        self._is_of_tick = False
        self.work = 0
        self.has_more = False
        self._undo.clear()
        if self._summed is not None:
            self._summed = None
        if self._collection_undo:
            self._collection_undo.clear()
        if self._claims_undo:
            self._claims_undo.clear()
        if self.effects:
            self.effects = []
            self.started = []
        if self.agents:
            self.agents = []  # the record has the other list
            self._undo_agents(0)
        if self.checks:
            self.checks = []
        self.normalized = self.notices = self.outputs = self._draws = None
        self.reads_moment = False

    @contextmanager
    def elsewhere(self, batch: Sized, ns: int, ticks: int, draws: Draws) -> Iterator[None]:
        """Begin a batch as at a later moment and with other draws; at the end, undo it.

        Args:
            batch: The batch.
            ns: Simulated nanoseconds by which the moment is later.
            ticks: Ticks by which it is later.
            draws: Makes the draws of its rules.
        """
        moment = self._now_ns, self._tick
        self._bound_dirty()
        self.open_batch(batch)
        self._draws, self._now_ns, self._tick = draws, moment[0] + ns, moment[1] + ticks
        try:
            yield
        finally:
            self.undo()
            self._draws, (self._now_ns, self._tick) = None, moment

    def open_tick(self) -> None:
        """Begin the hooks of a tick, which may register and remove agents."""
        self.open_batch()
        self._is_of_tick = True

    def open_single(self, size: Sized, seq: int, agent_id: str) -> None:
        """Begin a batch of one intent: `open_batch` and `begin` in one.

        Args:
            size: The batch's size, from which its base work is known.
            seq: Seq that the intent will have.
            agent_id: Its agent.
        """
        if self.has_more:
            self.open_batch(size)
        else:
            self._batch = size
            self._summed = None
            self._undo.clear()
        self._position = 0
        self._seq = seq
        self.agent_id = self._author = agent_id

    def resume(self, batch: CheckedBatch) -> None:
        """Take the checked batch of the open single batch."""
        self._batch = batch

    def plain_writes(self) -> Sequence[Undo] | None:
        """Return the undo of the batch if it only put one field, or nothing; else None."""
        return None if self.has_more or len(self._undo) > 1 else self._undo

    def begin(self, position: int, seq: int, agent_id: str) -> Mark:
        """Begin the next intent of the batch; return the mark for `undo`."""
        self._position = position
        self._seq = seq
        self.agent_id = self._author = agent_id
        # Called for each intent: the four other lists are empty while `has_more` is false.
        return self.mark_here() if self.has_more else (len(self._undo), 0, 0, 0, 0)

    def add_outputs(self, outputs: Mapping[int, Json]) -> None:
        """Add outputs of intents by position, as the gate computes them after the rules."""
        self.has_more = True
        self.outputs = {**(self.outputs or {}), **outputs}

    def act_as(self, agent_id: str) -> None:
        """Draw and stamp in an agent's name from here on."""
        self.agent_id = self._author = agent_id

    def stamp_as(self, author: str) -> None:
        """Stamp the changes of the hooks that follow as an agent's; draws stay in their name."""
        self._author = author

    def mark_here(self) -> Mark:
        """Return the mark to which `undo` takes the draft back from later changes."""
        return (
            len(self._undo),
            len(self._collection_undo),
            len(self._claims_undo),
            len(self.agents),
            len(self.effects),
        )

    @property
    def may_change_agents(self) -> bool:
        """A rule, `on_batch` or `on_tick` runs, and no hook of an agent within it."""
        return self._batch is not None or self._is_of_tick

    def set_registrar(self, registrar: AgentRegistrar) -> None:
        """Set the object that registers and removes agents for the rules."""
        self._registrar = registrar

    def note_agent(self, change: AgentChange, hooks_since: int) -> None:
        """Note an agent that was registered or removed.

        Args:
            change: The agent.
            hooks_since: Number of writes before its hooks ran.
        """
        self.has_more = True
        self.agents.append(change)
        self._count_agent(change)
        self._hook_writes.append((hooks_since, len(self._undo)))

    def work_of(self, batch: CheckedBatch) -> int:
        """Return the work that the rules of a batch charged; 0 if they have not run."""
        return self.work if self._batch is batch else 0

    @property
    def is_overrun(self) -> bool:
        """The batch used more units of work than it may, whatever its rules made of it."""
        batch = self._batch
        return batch is not None and self.work + batch.base_work > self._work_max

    def undo(self, mark: Mark = START) -> None:
        """Undo all changes since a mark, newest first."""
        # Newest first: a field written twice gets its first value back last, and an entity deleted
        # and created again is there before its fields are restored.
        undo_to, collections_to, claims_to, agents_to, effects_to = mark
        self._summed = None
        while len(self._undo) > undo_to:
            self._undo_one(self._undo.pop())
        while len(self._collection_undo) > collections_to:
            self._untouch(*self._collection_undo.pop())
        while len(self._claims_undo) > claims_to:
            del self._claims[self._claims_undo.pop()]
        del self.effects[effects_to:]
        while self.started and self.started[-1] >= effects_to:
            self.started.pop()
        if len(self.agents) > agents_to:
            self._undo_agents(agents_to)

    def open_columns(self) -> None:
        """Have the hooks that follow write columns, until `close_columns`."""
        from placet.kernel.state.draft_columns import ColumnHook  # noqa: PLC0415  # numpy is an extra

        self.column_hook = ColumnHook(self, self._seq)

    def close_columns(self) -> None:
        """Have no hook write columns from now on; the writes so far can no longer be undone."""
        hook, self.column_hook = self.column_hook, None
        for _, table, version in hook.undo if hook is not None else ():
            table.release(version)

    def undo_hooks(self) -> None:
        """Undo all changes of hooks, those of columns too, newest first."""
        undo = self.column_hook.undo if self.column_hook is not None else []
        while undo:
            position, table, version = undo.pop()
            while len(self._undo) > position:
                self._undo_one(self._undo.pop())
            table.go_back(version, is_kept=False)
        self.close_columns()
        self.undo()

    def written_columns(self) -> "list[ColumnWrite]":
        """Return the writes of columns by the hooks, for the record."""
        return [] if self.column_hook is None else self.column_hook.written()

    def tables_written(self, since: int = 0) -> Sequence[str]:
        """Return the table of each column write of the hooks after the first `since`."""
        return () if self.column_hook is None else self.column_hook.names[since:]

    def _count_agent(self, change: AgentChange) -> None:
        self.fates[change.agent_id] = change.is_removed
        self.born += -1 if change.is_removed else 1

    def _undo_agents(self, count: int) -> None:
        """Forget all but the first changes of agents. O(those)."""
        del self.agents[count:], self._hook_writes[count:]
        self.fates, self.born = {}, 0
        for change in self.agents:
            self._count_agent(change)

    def changed(self, watched: Watched | None = None) -> list[Ref]:
        """Return the entities that the batch changed, each once, in order of first change.

        Args:
            watched: Return only these entities; None is all.
        """
        changes = self.changes()
        self._summed = len(self._undo), changes
        if watched is None:
            return [_REF((change.collection, change.entity)) for change in changes.entities]
        return [
            _REF((change.collection, change.entity))
            for change in changes.entities
            if change.entity in watched and change.collection in watched[change.entity]
        ]

    def changes(self) -> Changes:
        """Return the changes of the batch, for the record. O(touched entities)."""
        summed, undo = self._summed, self._undo
        if summed is not None and summed[0] == len(undo):  # nothing is written past that list
            return summed[1]
        if self._collection_undo:
            return self._changes_of_recreated()
        if len(undo) == 1:  # as when an agent makes one step
            collection, entity, field, _, row, _, _, _ = undo[0]
            fields = {field: row.fields[field]}
            step = EntityChange(collection, entity, fields, False, row.seq, row.by, row.foreign_seq)
            return Changes([step])
        changes: list[EntityChange] = []
        values: dict[Entity, dict[str, Json]] = {}  # each field once, in order of first change
        for collection, entity, field, _, row, _, _, _ in undo:
            if row in values:
                values[row][field] = row.fields[field]
                continue
            values[row] = fields = {field: row.fields[field]}
            seq, by, foreign_seq = row.seq, row.by, row.foreign_seq
            changes.append(EntityChange(collection, entity, fields, False, seq, by, foreign_seq))
        return Changes(changes) if changes else NO_CHANGES

    def _changes_of_recreated(self) -> Changes:
        """Sum up a batch that also created or deleted an entity."""
        touched: dict[tuple[str, str], dict[str, None] | None] = {}
        for collection, entity, field, *_ in self._undo:
            key = (collection, entity)
            if field == WHOLE:
                touched[key] = None
            else:
                fields = touched.setdefault(key, {})
                if fields is not None:
                    fields[field] = None
        names = dict.fromkeys(name for name, *_ in self._collection_undo)
        stamps = ((name, self.state.collections[name]) for name in names)
        return Changes(
            [self._change(*key, fields) for key, fields in touched.items()],
            [CollectionChange(name, rows.seq, rows.by, rows.foreign_seq) for name, rows in stamps],
        )

    def diff(self) -> tuple[FieldChange, ...]:
        """Return the changed fields, with old and new values, in order of first change."""
        old: dict[tuple[str, str], dict[str, Json]] = {}
        born: set[tuple[str, str]] = set()
        remade: set[tuple[str, str]] = set()
        for collection, entity, field, before, *_ in self._undo:
            key = (collection, entity)
            if field != WHOLE:
                if key not in remade:
                    old.setdefault(key, {}).setdefault(field, before)
                continue
            remade.add(key)
            if key not in old and before is ABSENT:
                born.add(key)
            values = {} if before is ABSENT or key in born else before.fields
            old[key] = {**values, **old.get(key, {})}
        changes = []
        for key, fields in old.items():
            row = self.state.collections[key[0]].entities.get(key[1])
            after = {} if row is None else row.fields
            is_there, was_there = row is not None, key not in born
            if not fields and not after and is_there != was_there:
                changes.append(FieldChange(*key, None, "add" if is_there else "remove", None, None))
            for name in dict.fromkeys([*fields, *after]) if key in remade else fields:
                change = _compared(fields.get(name, ABSENT), after.get(name, ABSENT))
                if change is not None:
                    changes.append(FieldChange(*key, name, *change))
        return tuple(changes)

    def preview(self) -> Preview:
        """Return the changes and effects of the batch so far."""
        return Preview(self.diff(), [(kind, payload) for _, kind, payload, _ in self.effects])

    def trim(self, changes: Changes) -> None:
        """Drop the older tombstones of changed collections that have too many, at a commit.

        A collection with more than `State.tombstones_max` keeps the newer half of that number. The
        batch cannot be undone afterwards.
        """
        for collection in changes.collections:
            self.state.trim(collection.collection)

    def _change(self, collection: str, entity: str, fields: dict[str, None] | None) -> EntityChange:
        rows = self.state.collections[collection]
        row = rows.entities.get(entity)
        if row is None:
            grave = rows.tombstones[entity]
            return EntityChange(
                collection, entity, None, True, grave.seq, grave.by, grave.foreign_seq
            )
        values = row.fields if fields is None else {name: row.fields[name] for name in fields}
        return EntityChange(
            collection, entity, dict(values), fields is None, row.seq, row.by, row.foreign_seq
        )

    def _undo_one(self, undo: Undo) -> None:
        collection, entity, field, old, row, seq, by, foreign_seq = undo
        if field != WHOLE:
            if old is ABSENT:
                del row.fields[field]
            else:
                row.fields[field] = old
            row.seq, row.by, row.foreign_seq = seq, by, foreign_seq
        else:
            rows = self.state.collections[collection]
            rows.mark_changed(entity)
            if old is ABSENT:
                del rows.entities[entity]
            else:
                rows.entities[entity] = row
        # Even if it was dirty before: a rule may have computed the digest in between.
        self.state.mark_dirty(collection, entity, row)

    def _untouch(self, collection: str, entity: str, before: Stamp, grave: Stamp | None) -> None:
        rows = self.state.collections[collection]
        rows.seq, rows.by, rows.foreign_seq = before.seq, before.by, before.foreign_seq
        if grave is not None:
            rows.tombstones[entity] = grave
        else:
            rows.tombstones.pop(entity, None)


def _compared(
    old: Json, new: Json
) -> tuple[Literal["add", "replace", "remove"], Json, Json] | None:
    """Return the change of a field; None if it has not changed.

    Values are compared as encoded: Python takes 1, 1.0 and True for equal, and 0.0 and -0.0, but
    the digest does not.
    """
    if old is ABSENT:
        return None if new is ABSENT else ("add", None, new)
    if new is ABSENT:
        return "remove", old, None
    return None if canonical(old) == canonical(new) else ("replace", old, new)
