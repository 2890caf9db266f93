"""Snapshots as files beside a log: `town.db.snapshots/<records>-<seq>.snapshot`.

A snapshot is written under another name, synced, renamed, and its folder synced: it is there whole
or not at all, and it goes only after newer ones are there.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from itertools import count
from pathlib import Path
from re import compile as pattern
from typing import Final, NamedTuple

from placet.actors.ports import EventLog
from placet.runtime.stores.event_log_url import file_of
from placet.runtime.stores.file_operations import Disk, FileOperations
from placet.schemas.snapshot import Snapshot, decode_snapshot, encode_snapshot

_NAME: Final = pattern(r"(\d{12,19})-(\d{12,19})\.snapshot")
_UNFINISHED: Final = ".tmp"
_NUMBERS: Final = count()


class Place(NamedTuple):
    """Which snapshot: what its file's name says of it. Newer ones compare as greater."""

    records: int
    seq: int

    @property
    def name(self) -> str:
        """The file's name, which sorts as the places do."""
        return f"{self.records:012d}-{self.seq:012d}.snapshot"


class SnapshotFiles:
    """The snapshots of one log.

    Args:
        folder: Where they are; it need not exist.
        disk: What does the work; a test hands in its own.

    Attributes:
        folder: As given.
    """

    def __init__(self, folder: Path, disk: FileOperations | None = None) -> None:
        self.folder = folder
        self._disk = disk or Disk()

    def places(self) -> list[Place]:
        """List the snapshots there are, newest first, by their names alone.

        Raises:
            OSError: The folder cannot be read.
        """
        found = (_NAME.fullmatch(name) for name in self._disk.list(self.folder))
        return sorted((Place(int(f[1]), int(f[2])) for f in found if f), reverse=True)

    def read(self, place: Place) -> Snapshot:
        """Read a snapshot and check that it is whole, and is the one that its name says.

        Raises:
            ValueError: It is damaged, or of another version.
            OSError: It cannot be read; `FileNotFoundError` if it went meanwhile.
        """
        snapshot = decode_snapshot(self._disk.read(self.folder / place.name))
        if (snapshot.records, snapshot.seq) != place:
            raise ValueError(
                f"it stands at record {snapshot.records} and seq {snapshot.seq}, not where its "
                "name says"
            )
        return snapshot

    def write(self, snapshot: Snapshot) -> int:
        """Write a snapshot, durable when this returns, and give its size in bytes.

        Raises:
            OSError: The disk refused; nothing is there, or a file that nobody reads.
        """
        disk, folder = self._disk, self.folder
        disk.make_dir(folder)
        disk.sync_dir(folder.parent)
        target = folder / Place(snapshot.records, snapshot.seq).name
        draft = folder / f"{target.name}.{os.getpid()}-{next(_NUMBERS)}{_UNFINISHED}"
        data = encode_snapshot(snapshot)
        try:
            disk.write_new(draft, data)
            disk.fsync(draft)
            disk.replace(draft, target)
        except OSError:
            with suppress(OSError):  # the first error is the one that matters
                disk.remove(draft)
            raise
        disk.sync_dir(folder)
        return len(data)

    def keep(self, places: Iterable[Place]) -> None:
        """Remove every snapshot but these, and what an earlier writer left unfinished.

        Raises:
            OSError: The disk refused.
        """
        kept = {place.name for place in places}
        assert kept, "a log without a snapshot is not made by removing the last one"
        for name in self._disk.list(self.folder):
            if name not in kept and (_NAME.fullmatch(name) or name.endswith(_UNFINISHED)):
                with suppress(FileNotFoundError):  # somebody else was first
                    self._disk.remove(self.folder / name)


def snapshots_of(log: EventLog) -> SnapshotFiles | None:
    """Give the snapshots that lie beside a log; None where it is in no file."""
    path = file_of(log)
    return None if path is None else SnapshotFiles(path.with_name(path.name + ".snapshots"))
