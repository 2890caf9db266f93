"""The read replica: a copy of the state that contains only durable changes.

It is made when the first observer of a world is opened, and then applies each durable record, so it
costs O(changes in the records). Field mappings are replaced, never modified: an observation
stays as it was, and observers that know the same version of an entity share it and its delta.

A table is copied as arrays. An entity of it is made for an observer that compares it, and a change
of rows is a change of `Ref(table, None)`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from placet.kernel.kernel import Kernel
from placet.kernel.ledger.ledger import GateSettings, Ledger
from placet.kernel.log.replay import fold_changes
from placet.kernel.state.collection import Entity, Stamp
from placet.kernel.state.tree import State
from placet.schemas.codec import Json, canonical, freeze, joined
from placet.schemas.config import KernelConfig
from placet.schemas.identity import Ref
from placet.schemas.log.record import Changes, Columns, EntityChange, Record, TableMade
from placet.schemas.view import Change

if TYPE_CHECKING:
    from placet.schemas.log.column_records import ColumnWrite

Fields = Mapping[str, Json]


class ReplicaEntity(Entity):
    """An entity of the replica, with its redacted versions and deltas cached until it changes."""

    __slots__ = ("_anonymous", "_deltas", "_redacted", "name")

    def __init__(self, name: str, fields: dict[str, Json], stamp: Stamp) -> None:
        super().__init__(fields, stamp.seq, stamp.by, stamp.foreign_seq)
        self.name = name
        self._redacted: dict[frozenset[str], Fields] = {}
        self._deltas: dict[tuple[int, int], tuple[Fields | None, Fields, Change | None]] = {}
        self._anonymous: dict[int, Change] = {}

    def replace(self, fields: dict[str, Json]) -> None:
        """Set the fields and clear the caches."""
        self.fields = fields
        self._redacted.clear()
        self._deltas.clear()
        self._anonymous.clear()

    def without(self, hidden: Iterable[str]) -> Fields:
        """Return the fields except the hidden ones; equal arguments return the same object."""
        if not hidden:
            return self.fields
        names = frozenset(hidden)
        fields = self._redacted.get(names)
        if fields is None:
            fields = {name: value for name, value in self.fields.items() if name not in names}
            self._redacted[names] = fields
        return fields

    def change(self, before: Fields | None, now: Fields) -> Change | None:
        """Return the change between two results of `without`; None if they are equal.

        `before` is None for an entity that was not visible.
        """
        key = (id(before), id(now))
        known = self._deltas.get(key)
        if known is None:  # the entry holds both, so no other object can get their ids
            known = self._deltas[key] = (before, now, self._compare(before, now))
        return known[2]

    def anonymous(self, change: Change) -> Change:
        """Return a result of `change` without its author; observers share it."""
        known = self._anonymous.get(id(change))  # `_deltas` holds the change until both are cleared
        if known is None:
            fields = change.fields
            known = Change(change.entity, change.op, change.seq, "", fields)
            self._anonymous[id(change)] = known
        return known

    def _compare(self, before: Fields | None, now: Fields) -> Change | None:
        if before is None or not before.keys() <= now.keys():
            return Change(self.name, "added", self.seq, self.by, now)
        fields = {
            name: value
            for name, value in now.items()
            if name not in before or not _is_same(before[name], value)
        }
        return Change(self.name, "changed", self.seq, self.by, fields) if fields else None


class ReadReplica:
    """A copy of a kernel's state that contains only durable changes.

    Attributes:
        state: The tree; its digest is not maintained.
        seq: Sequence number of the last applied record.
        now_ns: Simulated time in nanoseconds.
        record: Ordinal of the first record not yet applied.
    """

    __slots__ = ("_ledger", "now_ns", "record", "seq", "state")

    def __init__(self, kernel: Kernel) -> None:
        """Copy the state of a kernel. O(state).

        The kernel may be ahead of the log: observations are sent only after it is durable.
        """
        self.seq, self.record = kernel.seq, kernel.record_count
        self.now_ns = kernel.ledger.now_ns
        self.state = state = State(kernel.tree.tombstones_max)
        state.tracked_from = kernel.tree.tracked_from
        self._ledger: Ledger | None = None
        if kernel.tree.tables:
            self._copy_tables(kernel)
        for name, rows in kernel.tree.collections.items():
            if rows.is_table:
                continue
            copy = state.collection(name)
            copy.seq, copy.by, copy.foreign_seq = rows.seq, rows.by, rows.foreign_seq
            copy.entities = {
                key: ReplicaEntity(f"{name}/{key}", dict(row.fields), row)
                for key, row in rows.entities.items()
            }
            copy.tombstones = {
                key: Stamp(stamp.seq, stamp.by, stamp.foreign_seq)
                for key, stamp in rows.tombstones.items()
            }

    def _copy_tables(self, kernel: Kernel) -> None:
        """Copy the tables and the sizes of the populations. O(rows), as arrays."""
        from placet.kernel.commit.table_made import load_members  # noqa: PLC0415  # numpy is an extra
        from placet.kernel.state.table import TableData  # noqa: PLC0415  # as above

        ledger = self._open_ledger()
        ledger.now_ns = self.now_ns
        load_members(
            ledger, [each.dump(self.now_ns) for each in kernel.ledger.populations.values()]
        )
        for each in ledger.populations.values():
            self.state.authors.add(each.name, each.count)
        for table in kernel.tree.tables.values():
            self.state.add_table(TableData.load(self.state.authors, *table.dump()))

    def _open_ledger(self) -> Ledger:
        if self._ledger is None:
            self._ledger = Ledger(GateSettings.of(KernelConfig()))
        return self._ledger

    def row(self, ref: Ref) -> ReplicaEntity | None:
        """Return an entity; None if it does not exist. One of a table is made now."""
        table = self.state.tables.get(ref.collection)
        if table is not None:
            own = None if ref.entity is None else table.entities.get(ref.entity)
            if own is None:
                return None
            return ReplicaEntity(f"{ref.collection}/{ref.entity}", dict(own.fields), own)
        rows = self.state.collections.get(ref.collection)
        row = None if rows is None or ref.entity is None else rows.entities.get(ref.entity)
        assert row is None or isinstance(row, ReplicaEntity), "a replica holds only ReplicaEntity"
        return row

    def refs(self) -> Iterator[Ref]:
        """Yield the ref of every entity of the replica but rows, collection by collection."""
        for name, rows in self.state.collections.items():
            for entity in () if rows.is_table else rows.entities:
                yield Ref(name, entity)

    def fold(self, records: Sequence[Record]) -> Sequence[Ref]:
        """Apply a durable record to the copy; return the refs of the entities that it changed.

        Of a table whose rows changed it is `Ref(table, None)`.

        Args:
            records: The record, or those of the batches that it holds (`expanded`).
        """
        self.record += 1
        refs: list[Ref] = []
        for record in records:
            self.seq = record.seq
            self.now_ns = max(self.now_ns, record.now_ns)
            refs += self._fold_arrays(record)
            changes: object = getattr(record, "changes", None)
            if isinstance(changes, Changes):
                refs += self._fold_changes(changes)
        return refs

    def _fold_arrays(self, record: Record) -> list[Ref]:
        """Apply the changes of whole columns: of a new table, a column batch, and hooks."""
        written: Sequence[ColumnWrite] = getattr(record, "written", ())
        if not written and not isinstance(record, TableMade | Columns):
            return []
        from placet.kernel.columns.settle import fold  # noqa: PLC0415  # numpy is an extra
        from placet.kernel.commit.table_made import add_members, make_table  # noqa: PLC0415
        from placet.kernel.state.draft_columns import fold_written  # noqa: PLC0415

        changed = dict.fromkeys(write.table for write in written)
        if isinstance(record, TableMade):
            make_table(self.state, record)
            add_members(self._open_ledger(), record)
            changed[record.table] = None
        elif isinstance(record, Columns):
            fold(self.state, self._open_ledger(), record)
            changed = dict.fromkeys(change.table for change in record.changes)
        fold_written(self.state, written, record.seq)
        return [Ref(table, None) for table in changed]

    def _fold_changes(self, changes: Changes) -> list[Ref]:
        for change in changes.collections:
            rows = self.state.collection(change.collection)
            rows.seq, rows.by, rows.foreign_seq = change.seq, change.by, change.foreign_seq
        refs = [self._fold_entity(entity) for entity in changes.entities]
        for change in changes.collections:
            self.state.trim(change.collection)
        return refs

    def _fold_entity(self, change: EntityChange) -> Ref:
        ref = Ref(change.collection, change.entity)
        if change.collection in self.state.tables:
            fold_changes(self.state, Changes([change]))
            return Ref(change.collection, None)
        rows = self.state.collection(change.collection)
        if change.fields is None:
            rows.entities.pop(change.entity, None)
            rows.tombstones[change.entity] = Stamp(change.seq, change.by, change.foreign_seq)
            return ref
        fields = {name: freeze(value) for name, value in change.fields.items()}
        row = self.row(ref)
        if row is None:
            stamp = Stamp(change.seq, change.by, change.foreign_seq)
            name = f"{change.collection}/{change.entity}"
            rows.entities[change.entity] = ReplicaEntity(name, fields, stamp)
            rows.tombstones.pop(change.entity, None)
            return ref
        row.seq, row.by, row.foreign_seq = change.seq, change.by, change.foreign_seq
        row.replace(fields if change.is_whole else joined(row.fields, fields))
        return ref


def _is_same(old: Json, new: Json) -> bool:
    """Return whether two values have the same JSON; in Python 1, 1.0 and True are equal."""
    return old is new or (bool(old == new) and canonical(old) == canonical(new))
