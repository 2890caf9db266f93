"""Logs for the tests of recovery, written group by group, and snapshots beside them."""

from collections.abc import Sequence
from pathlib import Path

from placet.kernel.log import snapshot as snapshots
from placet.kernel.log.replay import Replayer
from placet.schemas.log.record import LogAppend
from placet.schemas.log.snapshot import SnapshotPosition
from placet.stores.snapshots.files import SnapshotFiles, snapshots_of
from placet.stores.sqlite.log import SqliteEventLog
from tests.kernel.builders import add, kernel_of


def records_of_adds(count: int, *, checkpoint_groups: int = 1_000_000) -> list[bytes]:
    """Return the records of a lab in which alice adds `count` times; each has one seq."""
    records: list[bytes] = []
    kernel = kernel_of(sink=records, limits={"checkpoint_groups": checkpoint_groups})
    for number in range(count):
        kernel.decide(add(f"r:{number}"))
    return records


def write_log(path: Path, records: Sequence[bytes], *, to: int | None = None) -> SqliteEventLog:
    """Append records, one per group, and close the log."""
    log = SqliteEventLog(path, synchronous="off")
    epoch = log.open()
    past = Replayer()
    for ordinal, data in enumerate(records[:to]):
        before = past.ledger.seq
        past.apply(data)
        if ordinal >= log.count():
            log.append(LogAppend(ordinal, before, past.ledger.seq, [data]), epoch)
    log.close()
    return log


def files_of(log: SqliteEventLog) -> SnapshotFiles:
    files = snapshots_of(log)
    assert isinstance(files, SnapshotFiles)
    return files


def snapshot_at(log: SqliteEventLog, records: Sequence[bytes], at: int) -> SnapshotPosition:
    """Write the snapshot of a log's first records beside it."""
    past = Replayer()
    for data in records[:at]:
        past.apply(data)
    files_of(log).write(snapshots.take(past))
    return SnapshotPosition(at, past.ledger.seq)


def cut_at(log: SqliteEventLog, before_record: int) -> None:
    """Compact a log without a writer."""
    epoch = log.open()
    log.compact(before_record, epoch, appends_max=1_000_000)
    log.close()
