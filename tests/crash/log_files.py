"""The files of a world's log, after a clean close and after a crash, and how to read them.

Both hold the records of the fixed scenario. The groups are small, so that there are many.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from placet.kernel.log.replay import Replayer
from placet.schemas.errors import StoreError
from placet.schemas.log.record import LogAppend, decode_record
from placet.stores.sqlite.log import SqliteEventLog


class LeftBehind(NamedTuple):
    """The files of one log.

    Attributes:
        database: The bytes of the file.
        wal: The bytes of the `-wal` beside it; none after a clean close.
        groups: The records that are in them, by group.
    """

    database: bytes
    wal: bytes
    groups: list[list[bytes]]

    @property
    def records(self) -> list[bytes]:
        return [record for group in self.groups for record in group]

    def put(self, path: Path) -> None:
        """Write the files to a place where there are none, or older ones."""
        remove(path)
        path.write_bytes(self.database)
        if self.wal:
            wal_of(path).write_bytes(self.wal)


def wal_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        path.with_name(f"{path.name}{suffix}").unlink(missing_ok=True)


def leave(path: Path, records: Sequence[bytes], *, is_clean: bool) -> LeftBehind:
    """Write a log of these records in groups of one to three, and take its files."""
    log = SqliteEventLog(path)
    epoch = log.open()
    groups: list[list[bytes]] = []
    first = seq = 0
    while first < len(records):
        group = list(records[first : first + 1 + len(groups) % 3])
        reached = max(seq, decode_record(group[-1]).seq)
        log.append(LogAppend(first, seq, reached, group), epoch)
        groups.append(group)
        first, seq = first + len(group), reached
    if is_clean:
        log.close()
    left = LeftBehind(path.read_bytes(), b"" if is_clean else wal_of(path).read_bytes(), groups)
    log.close()
    remove(path)
    return left


def shown_by_reading(path: Path) -> list[bytes] | str:
    """Read and fold a log as `placet verify` does; return its records or the complaint."""
    return _shown(SqliteEventLog(path))


def shown_by_opening(path: Path) -> list[bytes] | str:
    """Open a log for writing as a world does, and fold it: its records, or the complaint."""
    log = SqliteEventLog(path)
    try:
        log.open()
        return _shown(log)
    except StoreError as error:
        return str(error)
    finally:
        log.close()


def _shown(log: SqliteEventLog) -> list[bytes] | str:
    past = Replayer()
    try:
        records = [data for _, data in log.read()]
        for data in records:
            past.apply(data)
    except StoreError as error:
        return str(error)
    return records
