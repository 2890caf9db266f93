"""Every byte of a snapshot is flipped, and none of it makes another world (G15, G19).

A damaged snapshot is left aside, with a reason; then an older one serves, or the whole log. Where
the log was compacted and nothing is left to begin from, opening fails and says so.
"""

from pathlib import Path

import pytest

from placet.kernel import Kernel, KernelConfig
from placet.kernel.log.snapshot import take, world_digest
from placet.schemas.errors import StoreError
from placet.schemas.log import envelope
from placet.schemas.log import snapshot as schema
from placet.schemas.log.record import LogAppend
from placet.stores.memory import MemoryEventLog
from placet.stores.snapshots.files import SnapshotFiles
from placet.stores.snapshots.recovery import recover
from tests.crash.lossy_disk import Remains
from tests.kernel.builders import add, intent
from tests.kernel.domains import MAIL, Lab

FOLDER = Path("/disk/a.db.snapshots")


class Town:
    """A log of some groups, and the bytes of a snapshot at its end and of an older one."""

    def __init__(self) -> None:
        self.log = MemoryEventLog()
        self.epoch = self.log.open()
        self._records: list[bytes] = []
        self.kernel = Kernel(Lab(), KernelConfig(), sink=self._records.append)
        self._seq = self._count = 0
        self.kernel.change_executor(MAIL, 9)
        self.kernel.register_agent("alice")
        self.kernel.decide([add("r:1"), intent("Mail", {"count": 1}, "r:2")])
        self._keep()
        self.older = self._snapshot()
        self.kernel.decide({"intents": [add("r:3", 7)], "sim_time": 50})
        self.kernel.decide([intent("Take", {"amount": 99}, "r:4")])
        self._keep()
        self.newest = self._snapshot()

    def _keep(self) -> None:
        append = LogAppend(self._count, self._seq, self.kernel.seq, tuple(self._records))
        self.log.append(append, self.epoch)
        self._seq, self._count = append.seq, append.first_record + len(append.records)
        self._records.clear()

    def _snapshot(self) -> tuple[str, bytes]:
        disk = Remains({})
        SnapshotFiles(FOLDER, disk).write(take(recover(self.log).past))
        (name,) = disk.list(FOLDER)
        return name, disk.read(FOLDER / name)

    def recovered(self, newest: bytes) -> tuple[str, bool]:
        """Recover with a changed newest snapshot; return the world and whether it was used."""
        files = {FOLDER / self.older[0]: self.older[1], FOLDER / self.newest[0]: newest}
        recovery = recover(self.log, files=SnapshotFiles(FOLDER, Remains(files)))
        is_used = recovery.snapshot is not None and recovery.snapshot.name == self.newest[0]
        assert is_used or self.newest[0] in recovery.skipped[0]
        past = recovery.past
        return world_digest(past.state, past.ledger).hex(), is_used

    def flipped(self, step: int = 1) -> tuple[list[int], int]:
        """Flip bytes; return the places that changed the world, and the number of skips."""
        _, sound = self.newest
        silent, aside = [], 0
        for place in range(0, len(sound), step):
            damaged = bytearray(sound)
            damaged[place] ^= 1 << place * 5 % 8
            digest, is_used = self.recovered(bytes(damaged))
            aside += not is_used
            if digest != self.kernel.world_digest():
                silent.append(place)
        return silent, aside


@pytest.fixture(scope="module")
def town():
    return Town()


def test_no_flipped_byte_of_a_snapshot_changes_the_world(town):
    silent, aside = town.flipped()
    assert silent == []
    assert aside == len(town.newest[1])


def test_a_truncated_snapshot_is_skipped(town):
    _, sound = town.newest
    assert town.recovered(sound) == (town.kernel.world_digest(), True)
    for length in range(len(sound)):
        assert town.recovered(sound[:length]) == (town.kernel.world_digest(), False)


def test_a_compacted_log_without_a_valid_snapshot_is_an_error(town):
    log = MemoryEventLog()
    epoch = log.open()
    groups = [[data] for _, data in town.log.read()]
    for number, group in enumerate(groups):
        log.append(LogAppend(number, number, number + 1, group), epoch)
    log.compact(3, epoch, appends_max=99)
    name, sound = town.newest
    damaged = Remains({FOLDER / name: sound[:-1]})
    with pytest.raises(StoreError, match="no snapshot of it is valid") as caught:
        recover(log, files=SnapshotFiles(FOLDER, damaged))
    assert name in str(caught.value)


def test_flips_find_a_snapshot_that_is_read_unchecked(town, monkeypatch):
    """The control: without the checksum, some flips make another world."""
    body = town.newest[1][len(schema.MAGIC) :]
    monkeypatch.setattr(envelope, "_checksum", lambda _: body[: envelope.CHECKSUM_BYTES])
    silent, _ = town.flipped(step=3)
    assert silent
