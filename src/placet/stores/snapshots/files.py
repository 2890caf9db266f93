"""Snapshots as files beside a log: `town.db.snapshots/<records>-<seq>.snapshot`.

A snapshot is written under another name, synced, renamed, and its folder synced: it is there whole
or not at all, and it goes only after newer ones are there.
"""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from re import compile as pattern
from typing import Final, Protocol

from placet.actors.ports import EventLog
from placet.schemas.log.snapshot import Snapshot, SnapshotPosition, encode_snapshot, snapshot_at
from placet.stores.files import Disk, FileOperations, behind_link, is_draft, whole_file
from placet.stores.url import whereabouts_of

_NAME: Final = pattern(r"(\d{12,19})-(\d{12,19})\.snapshot")
_UNFINISHED: Final = ".tmp"
"""Ends the name of a draft of an earlier release."""


class SnapshotStore(Protocol):
    """The interface of a place that keeps the snapshots of one log.

    Attributes:
        where: Description of the place, for messages.
    """

    where: str

    def places(self) -> list[SnapshotPosition]:
        """Return the positions of all snapshots, newest first.

        Raises:
            OSError: The snapshots cannot be listed.
        """

    def read(self, place: SnapshotPosition) -> Snapshot:
        """Read the snapshot at a position; check that it is undamaged and of that position.

        Raises:
            ValueError: The snapshot is damaged, or of another version.
            OSError: The snapshot cannot be read; `FileNotFoundError` if it was removed.
        """

    def write(self, snapshot: Snapshot) -> int:
        """Write a snapshot durably; return its size in bytes.

        Raises:
            OSError: The write failed; no readable snapshot is left.
        """

    def remove(self, places: Iterable[SnapshotPosition]) -> None:
        """Remove the snapshots at positions; ignore those already removed.

        Raises:
            OSError: The snapshots could not be removed.
        """


class SnapshotFiles:
    """A folder with the snapshots of one log, one file each.

    Args:
        folder: The folder; it need not exist.
        disk: File operations; None uses the machine's disk.

    Attributes:
        folder: The folder.
        where: The folder as text, for messages.
    """

    def __init__(self, folder: Path, disk: FileOperations | None = None) -> None:
        self.folder = folder
        self.where = str(folder)
        self._disk = disk or Disk()

    def places(self) -> list[SnapshotPosition]:
        """Return the positions of all snapshots, newest first; only file names are read.

        Raises:
            OSError: The folder cannot be read.
        """
        matches = (_NAME.fullmatch(name) for name in self._disk.list(self.folder))
        return sorted((SnapshotPosition(int(f[1]), int(f[2])) for f in matches if f), reverse=True)

    def read(self, place: SnapshotPosition) -> Snapshot:
        """Read the snapshot at a position; check that it is undamaged and of that position.

        Raises:
            ValueError: The snapshot is damaged, or of another version.
            OSError: The snapshot cannot be read; `FileNotFoundError` if it was removed.
        """
        return snapshot_at(place, self._disk.read(self.folder / place.name))

    def write(self, snapshot: Snapshot) -> int:
        """Write a snapshot durably; return its size in bytes.

        Raises:
            OSError: The write failed; no readable snapshot is left.
        """
        disk, folder = self._disk, self.folder
        disk.make_dir(folder)
        disk.sync_dir(folder.parent)
        target = folder / SnapshotPosition(snapshot.records, snapshot.seq).name
        data = encode_snapshot(snapshot)
        with whole_file(target, data, disk=disk):
            return len(data)

    def remove(self, places: Iterable[SnapshotPosition]) -> None:
        """Remove the snapshots at positions, and unfinished files of earlier writers.

        Raises:
            OSError: A file could not be removed.
        """
        names = self._disk.list(self.folder)
        unfinished = (name for name in names if is_draft(name) or name.endswith(_UNFINISHED))
        for name in (*(place.name for place in places), *unfinished):
            with suppress(FileNotFoundError):  # another process removed it first
                self._disk.remove(self.folder / name)


def snapshots_of(log: EventLog) -> SnapshotStore | None:
    """Return the snapshot store that belongs to a log; None for a log in memory.

    Snapshots of a log in a file are in a folder beside it; another log has its own store of them,
    or none.
    """
    path = whereabouts_of(log)
    if path is not None:
        return files_beside(path)
    snapshots: SnapshotStore | None = getattr(log, "snapshots", None)
    return snapshots


def files_beside(path: Path) -> SnapshotFiles:
    """Return the snapshot folder of a log file: `<path>.snapshots`."""
    path = behind_link(path)
    return SnapshotFiles(path.with_name(path.name + ".snapshots"))
