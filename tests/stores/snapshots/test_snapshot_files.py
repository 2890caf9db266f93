"""Snapshots as files: written whole or not at all."""

from pathlib import Path

import pytest

from placet.schemas.log.snapshot import SNAPSHOT_VERSION, Snapshot, SnapshotPosition
from placet.stores.files import Disk
from placet.stores.memory import MemoryEventLog
from placet.stores.snapshots.files import SnapshotFiles, snapshots_of
from placet.stores.url import open_event_log


def a_snapshot(records: int, seq: int) -> Snapshot:
    return Snapshot(
        version=SNAPSHOT_VERSION,
        header=b"h",
        configured=None,
        records=records,
        seq=seq,
        now_ns=0,
        chain=b"c",
        batches_seen=0,
        groups=0,
        state_digest=b"d",
        world=b"w",
    )


@pytest.fixture
def files(tmp_path):
    return SnapshotFiles(tmp_path / "a.db.snapshots")


class Noted(Disk):
    """A disk that records its calls, and fails at a given one."""

    def __init__(self, failing: str = "") -> None:
        self.asked: list[str] = []
        self._failing = failing

    def _note(self, what: str, path: Path) -> None:
        self.asked.append(f"{what} {path.suffix or path.name}")
        if what == self._failing:
            raise OSError(28, "No space left on device")

    def write_new(self, path: Path, data: bytes) -> None:
        self._note("write", path)
        super().write_new(path, data)

    def fsync(self, path: Path) -> None:
        self._note("fsync", path)
        super().fsync(path)

    def replace(self, source: Path, target: Path) -> None:
        self._note("replace", target)
        super().replace(source, target)

    def sync_dir(self, folder: Path) -> None:
        self._note("sync_dir", folder)
        super().sync_dir(folder)


def test_written_snapshots_are_listed_newest_first_and_read_back(files):
    assert files.places() == []
    for records, seq in ((9, 5), (10, 5), (1_000_000_000_000, 7)):
        files.write(a_snapshot(records, seq))
    places = [
        SnapshotPosition(1_000_000_000_000, 7),
        SnapshotPosition(10, 5),
        SnapshotPosition(9, 5),
    ]
    assert files.places() == places
    assert [files.read(place) for place in places] == [a_snapshot(*place) for place in places]


def test_a_snapshot_is_synced_before_its_rename_and_its_folder_after(tmp_path):
    disk = Noted()
    SnapshotFiles(tmp_path / "x.snapshots", disk).write(a_snapshot(1, 1))
    assert disk.asked == [
        f"sync_dir {tmp_path.name}",
        "write .unfinished",
        "fsync .unfinished",
        "replace .snapshot",
        "sync_dir .snapshots",
    ]


@pytest.mark.parametrize("failing", ["write", "fsync", "replace"])
def test_a_failing_disk_leaves_no_file(tmp_path, failing):
    files = SnapshotFiles(tmp_path / "x.snapshots", Noted(failing))
    with pytest.raises(OSError, match="No space left"):
        files.write(a_snapshot(1, 1))
    assert list(files.folder.iterdir()) == []


def test_a_snapshot_that_contradicts_its_file_name_is_invalid(files):
    files.write(a_snapshot(1, 1))
    there = files.folder / SnapshotPosition(1, 1).name
    there.rename(files.folder / SnapshotPosition(2, 1).name)
    with pytest.raises(ValueError, match="is of record 1 and seq 1, and its name is of"):
        files.read(SnapshotPosition(2, 1))
    with pytest.raises(FileNotFoundError):
        files.read(SnapshotPosition(1, 1))


def test_removal_deletes_the_given_snapshots_and_no_other_files(files):
    for records in (1, 2, 3):
        files.write(a_snapshot(records, 1))
    (files.folder / f"{SnapshotPosition(4, 1).name}.77-0.tmp").write_bytes(b"half")
    (files.folder / "notes.txt").write_text("mine")
    files.remove([SnapshotPosition(1, 1)])
    left = {entry.name for entry in files.folder.iterdir()}
    assert left == {"notes.txt", SnapshotPosition(2, 1).name, SnapshotPosition(3, 1).name}
    assert files.places() == [SnapshotPosition(3, 1), SnapshotPosition(2, 1)]


def test_removing_a_missing_snapshot_is_no_error(files, monkeypatch):
    files.write(a_snapshot(1, 1))
    listed = [SnapshotPosition(2, 1).name, SnapshotPosition(1, 1).name]
    monkeypatch.setattr(Disk, "list", lambda _self, _folder: listed)
    files.remove([SnapshotPosition(2, 1)])
    assert files.read(SnapshotPosition(1, 1)) == a_snapshot(1, 1)


def test_snapshots_are_stored_beside_their_log(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log = open_event_log("sqlite:///some%20where/a.db?synchronous=off")
    monkeypatch.chdir("/")
    files = snapshots_of(log)
    assert isinstance(files, SnapshotFiles)
    assert files.folder == tmp_path / "some where/a.db.snapshots"
    assert snapshots_of(MemoryEventLog()) is None
