"""Opening a world from disk: from all of its log, or from a snapshot and the log after it."""

import time
from pathlib import Path
from typing import NamedTuple

from placet.kernel.kernel import Kernel
from placet.schemas.log.record import LogAppend, decode_record
from placet.stores.snapshots.files import SnapshotFiles, files_beside
from placet.stores.snapshots.recovery import Recovery, recover
from placet.stores.snapshots.writer import take_snapshot
from placet.stores.sqlite.log import SqliteEventLog
from placet.stores.url import file_of
from placet_bench.subjects import Contender, KernelAlone
from placet_bench.workloads import Chunk, Load, make_domain, make_kernel_config

GROUP_RECORDS = 32
"""Records of one group, as the orchestrator would commit them under load."""


class DiskLog:
    """A log in a file with the batches of workload W1, grown to any length.

    Attributes:
        log: The log, closed.
        intents: Number of intents in the log.
    """

    def __init__(self, path: Path, load: Load) -> None:
        self.log = SqliteEventLog(path, synchronous="off")
        self.intents = 0
        self._records: list[bytes] = []
        self._maker = KernelAlone(load, self._records)
        self._load = load
        self._seq = 0

    async def grow(self, intents: int) -> None:
        """Append batches to the log until it has at least `intents` intents; not timed."""
        epoch = self.log.open()
        while self.intents < intents:
            chunk = self._maker.next_chunk()
            await self._maker.run(chunk)
            self.intents += chunk.intents
            for first in range(0, len(self._records), GROUP_RECORDS):
                self._append(self._records[first : first + GROUP_RECORDS], epoch)
            self._records.clear()
        self.log.close()

    def _append(self, records: list[bytes], epoch: int) -> None:
        seq = decode_record(records[-1]).seq
        self.log.append(LogAppend(self.log.count(), self._seq, seq, records), epoch)
        self._seq = seq

    def take_snapshot(self) -> None:
        """Write a snapshot at the end of the log."""
        take_snapshot(self.log, self._files)

    def open(self) -> Recovery:
        """Rebuild the world from the log and build a kernel that could continue.

        Return the recovery.
        """
        recovery = recover(self.log)
        Kernel(make_domain(), make_kernel_config(self._load.shape), history=recovery.past)
        return recovery

    @property
    def _files(self) -> SnapshotFiles:
        path = file_of(self.log)
        assert path is not None, "the log is in a file"
        return files_beside(path)


class Recovering(Contender):
    """A contender that rebuilds a world from a log on disk, again and again."""

    def __init__(self, disk: DiskLog, intents: int) -> None:
        super().__init__()
        self._disk = disk
        self._intents = intents

    async def __aenter__(self) -> "Recovering":
        await self._disk.grow(self._intents)
        return self

    def next_chunk(self) -> Chunk:
        """Return the whole log as the work of a turn."""
        return Chunk(self._disk.intents, [])

    async def run(self, chunk: Chunk) -> None:
        """Rebuild the world from the log once."""
        self._disk.open()


class Opening(NamedTuple):
    """The measured time of opening a log that has a snapshot, with the numbers of records."""

    intents: int
    records: int
    folded: int
    seconds: float


async def opening(disk: DiskLog, intents: int, tail_intents: int) -> Opening:
    """Grow a log, write a snapshot shortly before its end, and measure the time to open it."""
    await disk.grow(intents - tail_intents)
    disk.take_snapshot()
    await disk.grow(intents)
    began = time.perf_counter()
    recovery = disk.open()
    seconds = time.perf_counter() - began
    return Opening(disk.intents, disk.log.count(), recovery.folded, seconds)
