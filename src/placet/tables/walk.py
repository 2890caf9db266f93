"""Read a range of a log for its rows: each record with its tick, and the fields before it.

A `Walk` fixes the end of the log when it is made, so that two passes over a log that another
process writes read the same records.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from placet.actors.ports import EventLog
from placet.history.reader import beginning_of
from placet.history.selection import Selection, first_seq
from placet.history.timeline.fold import Collections, apply_changes, changed_in, plain_collections
from placet.schemas.codec import Json
from placet.schemas.errors import StoreError
from placet.schemas.log.expand import expanded
from placet.schemas.log.record import (
    Columns,
    EntityChange,
    Header,
    Record,
    RulesChanged,
    TableMade,
    Tick,
)
from placet.stores.snapshots.recovery import decode, recover

if TYPE_CHECKING:
    from placet.kernel.log.replay import Replayer
    from placet.tables.folded import FoldedTables


class Walk:
    """The records of a log in a selection, in order; it can be iterated once more from the start.

    Of a compacted log it begins at the oldest snapshot, before which the state is not known.

    Args:
        log: The log; it is only read.
        selection: The records to read.
        needs_fold: Keep the fields of all entities beside the read, in `fold`. O(state).

    Attributes:
        end: Ordinal number after the last record.
        first: Ordinal number of the first record that is read.
        tick: Number of completed ticks before the current record.
        fold: The fields of all entities before the current record, without the rows of tables;
            empty without `needs_fold`.
        folded: The tables and populations before the current record; None before the first one.
        header: The latest header or change of rules before or at the current record.
        done: Number of records read so far in this pass.
        is_selected: The selection matches the current record by its content too.

    Raises:
        StoreError: The log cannot be read, or has no record.
    """

    def __init__(self, log: EventLog, selection: Selection, *, needs_fold: bool = False) -> None:
        self.log = log
        self.selection = selection
        self.needs_fold = needs_fold
        self.end = log.count()
        if not self.end:
            raise StoreError(f"{log.url} has no records yet", store=log.url)
        beginning = beginning_of(log)
        if selection.from_seq and selection.from_seq <= beginning.seq and beginning.record:
            raise StoreError(
                f"{log.url} was compacted, and its first seq with a known state is "
                f"{beginning.seq + 1}; give that or a later seq",
                store=log.url,
            )
        self.first = max(log.find_seq(selection.from_seq), beginning.record)
        self.tick = 0
        self.fold: Collections = {}
        self.folded: FoldedTables | None = None
        self.header: Header | RulesChanged | None = None
        self.done = 0
        self.is_selected = True

    def __iter__(self) -> Iterator[Record]:
        """Yield the records of which a part lies in the range of seqs."""
        self.tick, self.fold, self.done, self.folded = 0, {}, 0, None
        if self.first:
            self._continue()
        selection = self.selection
        from_seq, to_seq = selection.from_seq, selection.to_seq
        for ordinal, data in self.log.read(self.first):
            if ordinal >= self.end:
                return
            for record in expanded(decode(data, ordinal)):
                if to_seq is not None and first_seq(record) > to_seq:
                    return
                if isinstance(record, Header | RulesChanged):
                    self.header = record
                if record.seq >= from_seq:
                    self.is_selected = not selection.is_by_content or self._matches(record)
                    yield record
                if to_seq is not None and record.seq > to_seq:
                    return  # the range ends inside a batch: the state is that before it
                self._apply(record)
                if isinstance(record, Tick):
                    self.tick += 1
            self.done += 1

    def includes(self, seq: int) -> bool:
        """Return whether a seq lies in the range."""
        to_seq = self.selection.to_seq
        return seq >= self.selection.from_seq and (to_seq is None or seq <= to_seq)

    def fields_before(self, change: EntityChange) -> Mapping[str, Json]:
        """Return the fields of a changed entity before the current record; empty if it is new."""
        if self.folded is not None and change.collection in self.folded.tables:
            row = self.folded.tables[change.collection].entities.get(change.entity)
            return {} if row is None else row.fields
        return self.fold.get(change.collection, {}).get(change.entity, {})

    def _matches(self, record: Record) -> bool:
        """Return whether the content of a record is selected; the rows of a batch are not."""
        if isinstance(record, Columns) and self.selection.grep is None:
            return not self.selection.kinds or record.kind in self.selection.kinds
        return self.selection.matches(record)

    def _apply(self, record: Record) -> None:
        """Fold a record, the changes of rows of tables into arrays."""
        if self.folded is None and isinstance(record, TableMade):
            self._begin_tables()
        folded = self.folded
        if folded is not None:
            folded.apply(record)
        if self.needs_fold:
            changes = changed_in(record)
            if folded is not None:
                changes = [one for one in changes if one.collection not in folded.tables]
            apply_changes(self.fold, changes)

    def _begin_tables(self, past: "Replayer | None" = None) -> None:
        from placet.tables.folded import FoldedTables  # noqa: PLC0415  # numpy is an extra

        self.folded = FoldedTables(past, has_values=self.needs_fold)

    def _continue(self) -> None:
        """Begin with the tick and the fields before the first record."""
        past = recover(self.log, to_record=self.first).past
        self.header = past.header
        self.tick = past.ledger.tick
        if past.state.tables:
            self._begin_tables(past)
        if self.needs_fold:
            self.fold = plain_collections(past.state)
