"""Reads a log that another process may be writing: folds, checks and describes it.

A reader never takes the writer's fence, and never creates or changes a file. It costs the part of
the log that it reads, and the memory of the state.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from placet.actors.ports import EventLog
from placet.kernel.log import snapshot as snapshots
from placet.kernel.log.divergence import DecisionMismatch
from placet.kernel.log.replay import Divergence, Replayer
from placet.schemas.codec import Json
from placet.schemas.config import KernelConfig, Leases, Quota
from placet.schemas.errors import LogFormatError, StoreError
from placet.schemas.limits import Limits
from placet.schemas.log.cut import count_to_seq, first_batches
from placet.schemas.log.record import (
    Configured,
    Header,
    LogStart,
    SingleBlock,
    encode_record,
    record_hash,
)
from placet.schemas.log.snapshot import Snapshot, SnapshotPosition
from placet.stores.append_rules import OvertakenError, overtaken
from placet.stores.snapshots.files import snapshots_of
from placet.stores.snapshots.recovery import (
    decode,
    no_beginning,
    read_on,
    recover,
    trusted_snapshots,
)

_WHOLE: Final = LogStart()


@dataclass(frozen=True, slots=True)
class IntegrityReport:
    """The result of checking a log's chain and digests: how many of its records are valid.

    Attributes:
        is_ok: Every record follows the one before it, and every recorded digest is the replay's.
        records: Number of valid records before the first invalid one.
        seq: Sequence number that the valid records reach.
        digest: State digest at that seq, hexadecimal.
        head: Hash of the last valid record, hexadecimal.
        world: Name of the world; empty before its header.
        first_divergence: `{record, seq, why}` of the first invalid record, or None.
        start: Position of the log's first record; earlier records were compacted away.
        snapshots: Number of snapshots that equal the replay at their positions.
        warnings: One sentence for each snapshot that cannot be used; the log is valid without it.
    """

    is_ok: bool
    records: int
    seq: int
    digest: str
    head: str
    world: str
    first_divergence: dict[str, Json] | None = None
    start: LogStart = _WHOLE
    snapshots: int = 0
    warnings: tuple[str, ...] = ()

    @property
    def end(self) -> int:
        """Ordinal number after the last valid record."""
        return self.start.record + self.records

    def as_dict(self) -> dict[str, Json]:
        """Return the report as plain JSON; empty entries are left out."""
        report: dict[str, Json] = {
            "ok": self.is_ok,
            "records": self.records,
            "seq": self.seq,
            "digest": self.digest,
            "head": self.head,
        }
        if self.start.record:
            report["compacted"] = {"first_record": self.start.record, "after_seq": self.start.seq}
        if self.snapshots:
            report["snapshots"] = self.snapshots
        if self.warnings:
            report["warnings"] = list(self.warnings)
        if self.first_divergence is not None:
            report["first_divergence"] = self.first_divergence
        return report


def check_integrity(
    log: EventLog, *, continue_with: Callable[[Replayer], Replayer] = lambda past: past
) -> IntegrityReport:
    """Check a log's hash chain and its recorded digests, by a replay of all records. O(log).

    The part of a compacted log before its oldest snapshot is checked by the chain alone. Each
    snapshot must equal the replay at its position.

    Args:
        log: The log; it is only read, and may be written meanwhile.
        continue_with: Returns the replayer that continues from the start of the log; a `Verifier`
            re-executes the decisions too.

    Raises:
        StoreError: There is no log to check, or no snapshot at the start of a compacted one; or the
            log was compacted beyond the checked position, which is no fault of the log.
    """
    log.count()  # a file that is no log is an error, and no finding
    warnings: list[str] = []
    trusted = _snapshots(log, warnings)
    start = log.start()
    past = continue_with(_oldest(log, start, trusted, warnings))
    expected = {place.records: snapshot.world_digest for place, snapshot in trusted}
    divergence: dict[str, Json] | None = None
    matched, prev = 0, None
    try:
        for ordinal, data in log.read():
            if ordinal < past.journal.count:
                prev = _follow(ordinal, data, prev)
                continue
            if ordinal > past.journal.count:
                raise overtaken(log.url, past.journal.count, log.start())
            past.apply(data)
            if past.journal.count in expected:
                _check_snapshot(past, expected[past.journal.count])
                matched += 1
    except (OvertakenError, LogFormatError):
        raise
    except StoreError as error:
        record = error.record if isinstance(error, Divergence) else past.journal.count
        divergence = {"record": record, "seq": past.ledger.seq, "why": str(error)}
        if isinstance(error, DecisionMismatch):
            divergence = {**error.difference.as_dict(), "why": str(error)}
    return IntegrityReport(
        divergence is None,
        past.journal.count - start.record,
        past.ledger.seq,
        past.state.digest().hex(),
        past.journal.prev.hex(),
        "" if past.header is None else past.header.world,
        divergence,
        start,
        matched + (start.record > 0),
        tuple(warnings),
    )


def fold(log: EventLog, to_seq: int | None = None) -> Replayer:
    """Replay a log up to a seq, and return the replayed world; start from the nearest snapshot.

    Args:
        log: The log; it is only read.
        to_seq: Last seq to replay; None for the whole log. A batch that a seq lies inside of is
            left out.

    Raises:
        StoreError: The log cannot be read, is inconsistent, was compacted beyond `to_seq`,
            or ends before it.
    """
    past = recover(log, to_seq=to_seq).past
    is_at_end = past.journal.count >= log.count()
    if to_seq is not None and not is_at_end:
        _fold_part(log, past, to_seq)
    if to_seq is not None and past.ledger.seq < to_seq and is_at_end:
        raise StoreError(
            f"cannot replay {log.url} to seq {to_seq}: it ends at seq {past.ledger.seq}; "
            "give a seq up to that one",
            store=log.url,
        )
    return past


def oldest_snapshot(log: EventLog) -> Snapshot:
    """Return the oldest snapshot of a compacted log, before which its state is not known.

    Raises:
        StoreError: The log cannot be read, or no snapshot of it is valid.
    """
    skipped: list[str] = []
    trusted = _snapshots(log, skipped)
    if not trusted:
        raise no_beginning(log, log.start(), skipped)
    return trusted[-1][1]


def beginning_of(log: EventLog) -> LogStart:
    """Return the first position of a log at which the state is known: its oldest snapshot.

    (0, 0) of a log that was not compacted.

    Raises:
        StoreError: The log cannot be read, or was compacted and has no valid snapshot.
    """
    start = log.start()
    if not start.record:
        return start
    oldest = oldest_snapshot(log)
    return LogStart(oldest.records, oldest.seq)


def config_of(log: EventLog) -> KernelConfig | None:
    """Return the kernel configuration with which a log continues; None if the log is empty.

    O(state + the log after its newest snapshot).

    Raises:
        StoreError: The log cannot be read.
    """
    return config_from(recover(log).past)


def config_from(past: Replayer) -> KernelConfig | None:
    """Return the kernel configuration with which a replayed world continues.

    None if no record was replayed.

    Raises:
        StoreError: The log holds no valid configuration.
    """
    header = past.header
    if header is None:
        return None
    configured = None if past.configured_data is None else decode(past.configured_data, 1)
    if not isinstance(configured, Configured):
        return KernelConfig(world=header.world, seed=header.seed)
    try:
        return _config(header, configured)
    except (TypeError, ValueError) as error:
        raise StoreError(
            f"the log's own configuration is none: {error}; `placet verify` says how far the log "
            "can be trusted"
        ) from error


def _config(header: Header, configured: Configured) -> KernelConfig:
    quota, permissions = configured.world_quota, configured.default_permissions
    leases = configured.lease_settings
    return KernelConfig(
        world=header.world,
        seed=header.seed,
        staleness_threshold=configured.staleness_threshold,
        quotas={kind: Quota(*pair).spec() for kind, pair in configured.quotas.items()},
        world_quota=None if quota is None else Quota(*quota).spec(),
        default_permissions=None if permissions is None else frozenset(permissions),
        leases=None if leases is None else Leases.of(leases),
        limits=Limits.of_record(configured.limits),
    )


def _fold_part(log: EventLog, past: Replayer, to_seq: int) -> None:
    """Fold the batches up to a seq of the next record, if that is a group of batches."""
    ordinal, data = next(read_on(log, past.journal.count))
    record = decode(data, ordinal)
    if isinstance(record, SingleBlock):
        count = count_to_seq(record, to_seq)
        if count:
            past.apply(encode_record(first_batches(record, count)))


def _snapshots(log: EventLog, warnings: list[str]) -> list[tuple[SnapshotPosition, Snapshot]]:
    """Read the snapshots that can be trusted, newest first."""
    files = snapshots_of(log)
    return [] if files is None else trusted_snapshots(log, files, skipped=warnings)


def _oldest(
    log: EventLog,
    start: LogStart,
    trusted: list[tuple[SnapshotPosition, Snapshot]],
    warnings: list[str],
) -> Replayer:
    """Begin where the log does, or else where the oldest snapshot of it does."""
    if start.record == 0:
        return Replayer()
    for place, snapshot in reversed(trusted):
        try:
            return snapshots.resume(snapshot)
        except ValueError as error:
            warnings.append(f"snapshot {place.name} is not used: {error}")
    raise no_beginning(log, start, warnings)


def _follow(ordinal: int, data: bytes, prev: bytes | None) -> bytes:
    """Check that a record names `prev` as the hash before it, and return its own hash.

    None as `prev` checks nothing: the record before was compacted away.
    """
    record = decode(data, ordinal)
    if prev is not None and record.prev != prev:
        raise Divergence(ordinal, record.seq, "the chain is broken: it names another record")
    return record_hash(data)


def _check_snapshot(past: Replayer, world_digest: bytes) -> None:
    if snapshots.world_digest(past.state, past.ledger) != world_digest:
        raise Divergence(
            past.journal.count - 1, past.ledger.seq, "the snapshot taken here is of another world"
        )
