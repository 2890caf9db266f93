"""Snapshots of a world without an event loop: taken by another process, while a thread waits.

The world asks once per write whether one is due. A failure is reported and harms nothing else.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from placet.actors.ports import EventLog
from placet.schemas.errors import StoreError
from placet.schemas.log.snapshot import SnapshotPosition
from placet.stores.snapshots.writer import SnapshotProcess, WrittenSnapshot

_SLICE_GROUPS: Final = 64
"""Groups of the log that are removed after one write."""


class BackgroundSnapshots:
    """Takes snapshots of an open world's log, and compacts the log behind them.

    Args:
        log: The log, opened for writing.
        epoch: The epoch that `log.open` returned.
        process: Takes the snapshots.
        every: Number of seqs, or of records, after which a snapshot is due.
        latest: Position of the newest snapshot.
        is_compacting: Remove the records from the log that all kept snapshots cover.
        on_fault: Called with the name of the failed work and its error.
    """

    def __init__(
        self,
        log: EventLog,
        epoch: int,
        process: SnapshotProcess,
        *,
        every: int,
        latest: SnapshotPosition,
        is_compacting: bool,
        on_fault: Callable[[str, BaseException], None],
    ) -> None:
        self._log = log
        self._epoch = epoch
        self._process = process
        self._every = every
        self._due_records, self._due_seq = latest.records + every, latest.seq + every
        self._is_compacting = is_compacting
        self._thread: ThreadPoolExecutor | None = None
        self._running: Future[WrittenSnapshot | None] | None = None
        self._compact_before = 0
        self._on_fault = on_fault

    def note(self, records: int, seq: int) -> None:
        """Record the size of the log after a write: begin or finish a snapshot, compact a slice."""
        running = self._running
        if running is None:
            if records >= self._due_records or seq >= self._due_seq:
                self._thread = self._thread or ThreadPoolExecutor(1, "placet-snapshots")
                self._running = self._thread.submit(self._process.run)
        elif running.done():
            self._running = None
            self._due_records, self._due_seq = records + self._every, seq + self._every
            self._finish(running)
        if self._compact_before:
            self._compact()

    def close(self) -> None:
        """Stop a snapshot in progress; existing snapshots stay."""
        self._process.stop()
        if self._thread is not None:
            self._thread.shutdown()

    def _finish(self, done: "Future[WrittenSnapshot | None]") -> None:
        try:
            taken = done.result()
        except StoreError as error:
            self._on_fault("snapshots", error)
            return
        if taken is not None:
            self._due_records, self._due_seq = (
                taken.records + self._every,
                taken.seq + self._every,
            )
            self._compact_before = taken.compact_before if self._is_compacting else 0

    def _compact(self) -> None:
        try:
            is_more = self._log.compact(self._compact_before, self._epoch, groups_max=_SLICE_GROUPS)
        except StoreError as error:
            self._on_fault("compaction", error)
            is_more = False
        if not is_more:
            self._compact_before = 0
