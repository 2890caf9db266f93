"""Removes the beginning of a log that no process writes, once two snapshots cover it.

First the snapshots are safe, then the appends go, slice by slice: an end half way leaves
a log that opens. A running world does the same by itself (`keeper`).
"""

from dataclasses import dataclass
from pathlib import Path

from placet.actors.ports import EventLog
from placet.schemas.errors import StoreError
from placet.schemas.log.record import LogStart
from placet.schemas.log.snapshot import SnapshotPosition
from placet.stores.snapshots.files import SnapshotStore
from placet.stores.snapshots.recovery import listed, trusted_places
from placet.stores.snapshots.writer import KEPT_MIN, keep_only, take_snapshot
from placet.stores.sqlite.file import is_in_use, vacuum

_SLICE_APPENDS = 1_024


@dataclass(frozen=True, slots=True)
class Compaction:
    """The result of removing the oldest records of a log.

    Attributes:
        seq: Last seq of the log.
        before: Position of the log's first record before the compaction.
        after: Position of the log's first record now.
    """

    seq: int
    before: LogStart
    after: LogStart

    @property
    def removed_records(self) -> int:
        """Number of removed records."""
        return self.after.record - self.before.record


def compact(
    log: EventLog, path: Path | None, files: SnapshotStore, *, keep_seqs: int
) -> Compaction:
    """Remove the records of a log before its last seqs, and release their space.

    Writes two snapshots, at the cut and at the end. No other process may have the log open.

    Args:
        log: The log; opened and closed here.
        path: The log's file; None for a store that excludes other users by its own lock and
            releases space by itself.
        files: Store of the log's snapshots.
        keep_seqs: Minimum number of seqs to keep, at least 1.

    Raises:
        StoreError: The log is in use, cannot be written, or is inconsistent.
    """
    log.count()  # raises for a file that is no log
    if path is not None and is_in_use(path, log.url):
        raise StoreError(
            f"cannot compact {log.url}: another process has it open; stop that process, or let it "
            "compact its own log (compact_log, --compact)",
            store=log.url,
        )
    epoch = log.open()
    try:
        done = _cut(log, epoch, files, keep_seqs)
    finally:
        log.close()
    if path is not None:
        vacuum(path, log.url)
    return done


def _cut(log: EventLog, epoch: int, files: SnapshotStore, keep_seqs: int) -> Compaction:
    before = log.start()
    newest = take_snapshot(log, files, kept_count=None)
    to_seq = newest.seq - keep_seqs
    # A log that was cut before can be folded from its oldest snapshot on, and not to before it.
    places = trusted_places(log, files) if before.record else []
    # And what one that was ended half way has left before two snapshots is of no use.
    cut = places[-1].records - 1 if len(places) >= KEPT_MIN else 0
    if to_seq > (places[-1].seq if places else before.seq):
        older = take_snapshot(log, files, kept_count=None, to_seq=to_seq)
        two = [SnapshotPosition(snapshot.records, snapshot.seq) for snapshot in (older, newest)]
        keep_only(log, files, two, of=listed(log, files))
        cut = older.records - 1
    while log.compact(cut, epoch, appends_max=_SLICE_APPENDS):
        pass
    return Compaction(newest.seq, before, log.start())
