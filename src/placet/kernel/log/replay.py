"""Replay a log: check its hash chain, and fold its records into state and ledger.

No rule runs and no effect is executed, because a record contains its changes. A replay needs no
domain, and its cost is proportional to the changes. `verify.py` re-executes the decisions instead.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from placet.kernel.commit.apply_record import apply_record
from placet.kernel.commit.commit import Journal
from placet.kernel.decide.single.fold import fold_block
from placet.kernel.ledger.ledger import GateSettings, Ledger
from placet.kernel.recorded_batch import recorded_batch
from placet.kernel.state.collection import OF_TABLE, Entity, Stamp
from placet.kernel.state.tree import DIRTY_MAX, State
from placet.schemas.batch import CheckedBatch
from placet.schemas.codec import ENCODE_ERRORS, freeze, joined
from placet.schemas.config import KernelConfig
from placet.schemas.errors import StoreError
from placet.schemas.log.cut import first_batches
from placet.schemas.log.expand import BatchRecord
from placet.schemas.log.record import (
    Admitted,
    Changes,
    Checkpoint,
    Columns,
    Configured,
    EntityChange,
    ForkAdopted,
    Forked,
    Header,
    Record,
    Refused,
    RulesChanged,
    Scheduled,
    SingleBlock,
    TableMade,
    decode_record,
    encode_record,
    record_hash,
    record_type,
)

if TYPE_CHECKING:
    from placet.schemas.log.column_records import ColumnWrite

MISFITS: Final = (*ENCODE_ERRORS, AssertionError, AttributeError, IndexError, KeyError)
"""Errors while folding a record or a snapshot that decodes but fits no world: its hash or checksum
proves that the bytes are unchanged, not that a gate wrote them."""


class Divergence(StoreError):  # noqa: N818  # the finding that `verify` reports by this name
    """Raised for an inconsistent log; the message names the record, the seq and the reason.

    Attributes:
        record: Ordinal number of the first record that does not follow.
    """

    def __init__(self, record: int, seq: int, why: str) -> None:
        super().__init__(f"record {record}, after seq {seq}: {why}", seq=seq)
        self.record = record


class DigestDivergence(Divergence):
    """Raised where the folded state has another digest than the log holds.

    The log was changed, or the snapshot from which the fold began.
    """


class Replayer:
    """Folds a log: the state and the ledger after the records read so far.

    Attributes:
        header: The header with the rules in force; None before the first record.
        header_data: Encoded header.
        configured_data: Encoded record of the settings in force; None before the first.
        state: Domain state.
        ledger: Ledger.
        journal: Hash chain and record count.
        batches_seen: Highest number of a batch.
        groups: Groups of batches since the last checkpoint, as the kernel counts them.
    """

    def __init__(self) -> None:
        self.header: Header | None = None
        self.header_data: bytes | None = None
        self.configured_data: bytes | None = None
        self.ledger = Ledger(GateSettings.of(KernelConfig()))
        self.state = State(self.ledger.policy.limits.tombstones_max)
        self.journal = Journal()
        self.batches_seen = 0
        self.groups = 0

    @property
    def known_header(self) -> Header:
        """The header, for a caller that has applied it; `header` is None before."""
        assert self.header is not None, "a log begins with its header"
        return self.header

    def apply(self, data: bytes) -> Record:
        """Check one encoded record against the chain, fold it, and return it decoded.

        Raises:
            Divergence: The bytes are not a record, do not follow the last record, or a digest
                differs.
        """
        try:
            record = decode_record(data)
        except (msgspec.DecodeError, ValueError) as error:
            raise self._divergence(f"no record of a known format: {error}") from None
        if record.prev != self.journal.prev:
            raise self._divergence(
                f"the chain is broken: it names {record.prev.hex()} as the record before it, "
                f"which is {self.journal.prev.hex()}"
            )
        if (self.header is None) != isinstance(record, Header):
            raise self._divergence(f"a log begins with its header, got {record_type(record)}")
        try:
            expected = self.ledger.seq + seqs_of(record)
            self._fold(record, data)
            if isinstance(record, ForkAdopted):
                self.header = forked_header(self.known_header, record)
                self.header_data = encode_record(self.header)
        except MISFITS as error:
            raise self._divergence(f"{record_type(record)} does not fit: {error!r}") from error
        if record.seq != expected:
            raise self._divergence(f"its seq is {record.seq}, expected {expected}")
        self.ledger.seq = expected
        self.ledger.now_ns = max(self.ledger.now_ns, record.now_ns)
        self.journal.prev = record_hash(data)
        self.journal.count += 1
        return record

    def apply_part(self, group: SingleBlock, count: int) -> None:
        """Fold the first batches of the next record; the replay stays before that record.

        Raises:
            Divergence: The group does not follow, or does not fit.
        """
        before = self.journal.prev, self.journal.count
        self.apply(encode_record(first_batches(group, count)))
        self.journal.prev, self.journal.count = before

    def _divergence(self, why: str) -> Divergence:
        return Divergence(self.journal.count, self.ledger.seq, why)

    def _fold(self, record: Record, data: bytes) -> None:
        """Apply a record to the ledger, its changes to the state, and note headers and groups."""
        if isinstance(record, Admitted):  # nearly every record of a log
            apply_record(self.ledger, record, self._batch(record))
            fold_changes(self.state, record.changes)
            return
        if isinstance(record, SingleBlock):
            self._note_group(record)
            fold_block(record, self.state, self.ledger, lambda batch: self._fold(batch, b""))
            return
        if isinstance(record, Columns):
            self._fold_columns(record)
            return
        if isinstance(record, Refused | Scheduled):
            apply_record(self.ledger, record, self._batch(record))
        else:
            apply_record(self.ledger, record)
        match record:
            case Header():
                self.header, self.header_data = record, data
            case RulesChanged():
                self.header = header_after(self.known_header, record)
                self.header_data = encode_record(self.header)
            case Configured():
                self.configured_data = data
                self.state.tombstones_max = self.ledger.policy.limits.tombstones_max
            case TableMade():
                self._make_table(record)
            case Checkpoint():
                self._check_digest(record)
                self.groups = 0
            case _:
                pass
        self._fold_changes(record)

    def _fold_changes(self, record: Record) -> None:
        """Write the columns and the entities that a record changed into the state."""
        written: Sequence[ColumnWrite] | None = getattr(record, "written", None)
        if written:
            from placet.kernel.state.draft_columns import fold_written  # noqa: PLC0415  # numpy is an extra

            fold_written(self.state, written, record.seq)
        changes: Changes | None = getattr(record, "changes", None)
        if changes is not None:
            fold_changes(self.state, changes)

    def _make_table(self, record: TableMade) -> None:
        from placet.kernel.commit.table_made import make_table  # noqa: PLC0415  # numpy is an extra

        rows_max = self.ledger.policy.limits.column_rows_max
        if record.count > rows_max:  # a forged count would take all memory
            raise ValueError(
                f"a table of {record.count} rows, where at most {rows_max} are allowed"
            )
        make_table(self.state, record)

    def _fold_columns(self, record: Columns) -> None:
        from placet.kernel.columns.settle import fold  # noqa: PLC0415  # numpy is an extra

        self.batches_seen = max(self.batches_seen, record.number)
        self._count_group(record)
        fold(self.state, self.ledger, record)

    def _note_group(self, record: SingleBlock) -> None:
        """Count the batches of a record and their group, as `_batch` does."""
        self.batches_seen = max(self.batches_seen, *record.numbers)
        self._count_group(record)
        self.ledger.group = record.group + 1

    def _batch(self, record: Admitted | Refused | Scheduled) -> CheckedBatch:
        number = record.batch_id[1:]
        if number.isdecimal():
            self.batches_seen = max(self.batches_seen, int(number))
        self._count_group(record)
        return recorded_batch(record)

    def _count_group(self, record: BatchRecord | SingleBlock | Columns) -> None:
        ledger = self.ledger
        if (record.tick, record.group) == (ledger.tick, ledger.group):
            self.groups += 1
        elif (record.tick, record.group) != (ledger.tick, ledger.group - 1):
            raise ValueError(
                f"it is of group {record.group} of tick {record.tick}, expected group "
                f"{ledger.group} of tick {ledger.tick}, or the one before"
            )

    def _check_digest(self, record: Checkpoint) -> None:
        digest = self.state.digest()
        if digest != record.state_digest:
            raise DigestDivergence(
                self.journal.count,
                self.ledger.seq,
                f"the state digest is {digest.hex()}, recorded is {record.state_digest.hex()}",
            )


def folded(history: Iterable[bytes]) -> Replayer:
    """Return a replayer that has read these encoded records, from the first of a log on.

    Raises:
        Divergence: The records are inconsistent.
    """
    past = Replayer()
    for data in history:
        past.apply(data)
    return past


def header_after(header: Header, record: RulesChanged) -> Header:
    """Return the header with its rules replaced by those of a `RulesChanged` record."""
    names = ("domains", "fingerprint", "settings", "kinds", "validator")
    return msgspec.structs.replace(header, **{name: getattr(record, name) for name in names})


def forked_header(header: Header, record: ForkAdopted) -> Forked:
    """Return the header of a fork."""
    fields = msgspec.structs.asdict(header)
    fields.update(world=record.world, forked_from=(record.parent, record.seq))
    if record.seed is not None:
        fields["seed"] = record.seed
    if record.new_origin is not None:
        fields["origin"] = record.new_origin
    return Forked(**fields)


def seqs_of(record: Record) -> int:
    """Return the number of seqs that a record takes."""
    if isinstance(record, Admitted):
        return len(record.contexts)
    if isinstance(record, SingleBlock):
        return len(record.puts)
    if isinstance(record, Columns):
        return int(record.seq != record.group_seq)
    return 0 if isinstance(record, Header | Refused | Checkpoint | ForkAdopted) else 1


def fold_changes(state: State, changes: Changes) -> None:
    """Write the changes of a record into the state, with the stamps that the record holds.

    A reader that needs neither stamps nor a digest folds the changes into plain values instead, as
    `history/timeline/fold.py` does at a tenth of the cost.
    """
    for entity in changes.entities:
        _fold_entity(state, entity)
    for change in changes.collections:
        rows = state.collection(change.collection)
        rows.seq, rows.by, rows.foreign_seq = change.seq, change.by, change.foreign_seq
        state.trim(change.collection)
    if len(state.dirty) > DIRTY_MAX:
        state.digest()  # bounds the list of entities that wait for it


def _fold_entity(state: State, change: EntityChange) -> None:
    rows = state.collection(change.collection)
    row = rows.entities.get(change.entity)
    rows.mark_changed(change.entity)
    stamp = (change.seq, change.by, change.foreign_seq)
    if change.fields is None:
        if row is not None:
            state.mark_dirty(change.collection, change.entity, row)
            del rows.entities[change.entity]
        rows.tombstones[change.entity] = Stamp(*stamp)
        return
    fields = {name: freeze(value) for name, value in change.fields.items()}
    if change.is_whole:
        if row is not None:
            state.mark_dirty(change.collection, change.entity, row)
        rows.tombstones.pop(change.entity, None)
        row = rows.entities[change.entity] = Entity(fields, *stamp, state.epoch)
    else:
        assert row is not None, f"{change.collection}/{change.entity} is changed but not there"
        if row.epoch not in {state.epoch, OF_TABLE}:  # a cut shares it
            row = state.own(change.collection, change.entity, row)
        if row.epoch == OF_TABLE:
            for name, value in fields.items():
                row.fields[name] = value
        else:
            row.fields = joined(row.fields, fields)
        row.seq, row.by, row.foreign_seq = stamp
    state.mark_dirty(change.collection, change.entity, row)
