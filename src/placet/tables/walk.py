"""Read a range of a log for its rows: each record with its tick, and the fields before it.

A `Walk` fixes the end of the log when it is made, so that two passes over a log that another
process writes read the same records.
"""

from collections.abc import Iterator, Mapping

from placet.actors.ports import EventLog
from placet.history.reader import beginning_of
from placet.history.selection import Selection, first_seq
from placet.history.timeline.fold import Collections, apply_changes, changed_in, plain_collections
from placet.schemas.codec import Json
from placet.schemas.errors import StoreError
from placet.schemas.log.expand import expanded
from placet.schemas.log.record import EntityChange, Header, Record, RulesChanged, Tick
from placet.stores.snapshots.recovery import decode, recover


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
        fold: The fields of all entities before the current record; empty without `needs_fold`.
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
        self.header: Header | RulesChanged | None = None
        self.done = 0
        self.is_selected = True

    def __iter__(self) -> Iterator[Record]:
        """Yield the records of which a part lies in the range of seqs."""
        self.tick, self.fold, self.done = 0, {}, 0
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
                    self.is_selected = not selection.is_by_content or selection.matches(record)
                    yield record
                if to_seq is not None and record.seq > to_seq:
                    return  # the range ends inside a batch: the state is that before it
                if self.needs_fold:
                    apply_changes(self.fold, changed_in(record))
                if isinstance(record, Tick):
                    self.tick += 1
            self.done += 1

    def includes(self, seq: int) -> bool:
        """Return whether a seq lies in the range."""
        to_seq = self.selection.to_seq
        return seq >= self.selection.from_seq and (to_seq is None or seq <= to_seq)

    def fields_before(self, change: EntityChange) -> Mapping[str, Json]:
        """Return the fields of a changed entity before the current record; empty if it is new."""
        return self.fold.get(change.collection, {}).get(change.entity, {})

    def _continue(self) -> None:
        """Begin with the tick and the fields before the first record."""
        past = recover(self.log, to_record=self.first).past
        self.header = past.header
        self.tick = past.ledger.tick
        if self.needs_fold:
            self.fold = plain_collections(past.state)
