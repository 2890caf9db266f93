"""A power loss between any two operations on snapshot files is recovered from (G19).

The log is on a store that keeps what it acknowledged; the snapshots beside it are on a disk that
keeps only what it was made to (`lossy_disk.py`). In every state that may be left, opening gives the
very world that the log tells of: from a snapshot that is whole, or from the log. Where the log was
compacted there is always such a snapshot.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from placet.kernel import Kernel, KernelConfig
from placet.kernel.log.snapshot import world_digest
from placet.schemas.errors import StoreError
from placet.schemas.log.record import LogAppend
from placet.stores.memory import MemoryEventLog
from placet.stores.snapshots.files import SnapshotFiles
from placet.stores.snapshots.recovery import recover
from placet.stores.snapshots.writer import take_snapshot
from tests.crash.lossy_disk import LossyDisk
from tests.kernel.builders import add
from tests.kernel.domains import Lab

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = Path("/disk/town.db.snapshots")
ROUNDS = 5


class World:
    """A world that takes snapshots and compacts: its log, its snapshots and their expected digests.

    Args:
        disk: What the snapshots are on in the end.
        files: The snapshots.
    """

    def __init__(self, disk: LossyDisk, files: SnapshotFiles) -> None:
        self.disk = disk
        self.files = files
        self.log = MemoryEventLog()
        self._epoch = self.log.open()
        self._records: list[bytes] = []
        self.kernel = Kernel(Lab(), KernelConfig(), sink=self._records.append)
        self.kernel.register_agent("alice")
        self._handed_on = (0, 0)

    def run(self) -> None:
        """Decide batches, append them, take a snapshot, compact."""
        self.kernel.decide([add(f"r:{self.kernel.seq}", self.kernel.seq)])
        seq, count = self._handed_on
        append = LogAppend(count, seq, self.kernel.seq, tuple(self._records))
        self.log.append(append, self._epoch)
        self._handed_on = (append.seq, count + len(append.records))
        self._records.clear()
        taken = take_snapshot(self.log, self.files)
        while self.log.compact(taken.compact_before, self._epoch, appends_max=1):
            pass

    def what_is_wrong(self) -> str:
        """Lose power in every possible way, and recover."""
        for remains in self.disk.after_power_loss():
            left = remains.list(FOLDER)
            try:
                past = recover(self.log, files=SnapshotFiles(FOLDER, remains)).past
            except StoreError as error:
                return f"after {self.disk.history[-1]}, with {left}: {error}"
            if world_digest(past.state, past.ledger).hex() != self.kernel.world_digest():
                return f"after {self.disk.history[-1]}, with {left}: another world"
        return ""


class Watched:
    """A disk that calls `look` before each operation, as if the operation never started."""

    def __init__(self, disk: LossyDisk) -> None:
        self._disk = disk
        self.look: Callable[[], None] = lambda: None

    def __getattr__(self, name: str) -> object:
        self.look()
        return getattr(self._disk, name)


class FoundWrongError(Exception):
    """A fault at some moment; ends the search."""


def moments_of(files_class: type[SnapshotFiles] = SnapshotFiles, from_record: int = 0) -> int:
    """Live some rounds, look at each moment at which something has changed, and count them.

    Args:
        files_class: With the bug to be found.
        from_record: Look only when the log has been compacted so far.

    Raises:
        FoundWrongError: At the first at which a loss of power would do harm.
    """
    disk = LossyDisk()
    watched = Watched(disk)
    world = World(disk, files_class(FOLDER, watched))  # type: ignore[arg-type]
    seen: set[tuple[int, int, int]] = set()

    def look() -> None:
        moment = (len(disk.history), world.log.count(), world.log.start().record)
        if moment not in seen and world.log.count() and moment[-1] >= from_record:
            seen.add(moment)
            if what := world.what_is_wrong():
                raise FoundWrongError(what)

    watched.look = look
    for _ in range(ROUNDS):
        world.run()
        look()
    return len(seen)


def test_a_power_loss_at_any_moment_is_recovered_from():
    assert moments_of() > 25


def test_the_simulated_disk_keeps_synced_data_only():
    disk, draft, target = LossyDisk(), FOLDER / "draft", FOLDER / "target"

    def remains() -> set[frozenset[tuple[str, bytes]]]:
        return {
            frozenset((name, left.read(FOLDER / name)) for name in left.list(FOLDER))
            for left in disk.after_power_loss()
        }

    disk.write_new(draft, b"1234")
    lost = {frozenset({("draft", data)}) for data in (b"1234", b"12", b"", bytes(4))}
    assert remains() == {frozenset(), *lost}
    disk.fsync(draft)
    assert remains() == {frozenset(), frozenset({("draft", b"1234")})}
    disk.replace(draft, target)
    renamed = frozenset({("target", b"1234")})
    assert remains() == {frozenset(), frozenset({("draft", b"1234")}), renamed}
    disk.sync_dir(FOLDER)
    assert remains() == {renamed}
    disk.remove(target)
    assert remains() == {renamed, frozenset()}


class Unsynced(SnapshotFiles):
    """Renames a file that is not durable yet."""

    def __init__(self, folder, disk):
        super().__init__(folder, Without(disk, "fsync"))


class Unlisted(SnapshotFiles):
    """Does not make the new name durable."""

    def __init__(self, folder, disk):
        super().__init__(folder, Without(disk, "sync_dir"))


class Without:
    """A disk on which one operation does nothing."""

    def __init__(self, disk, operation):
        self._disk = disk
        self._operation = operation

    def __getattr__(self, name):
        there = getattr(self._disk, name)
        return (lambda *_: None) if name == self._operation else there


class TooEarly(SnapshotFiles):
    """Removes the old snapshots, on which a compacted log relies, before it writes the new one."""

    def write(self, snapshot):
        is_relied_on = snapshot.seq > ROUNDS
        for place in self.places() if is_relied_on else []:
            self._disk.remove(self.folder / place.name)
        return super().write(snapshot)


@pytest.mark.parametrize("files", [Unsynced, Unlisted, TooEarly])
def test_a_missing_sync_is_found(files):
    """The control."""
    with pytest.raises(FoundWrongError, match="no snapshot of it is valid"):
        moments_of(files, from_record=1)
