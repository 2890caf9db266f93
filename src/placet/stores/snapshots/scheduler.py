"""Take snapshots of an open world's log in the background, and compact the log behind them.

A write costs the world one comparison. A thread, which begins when the first snapshot is due, waits
for the process that takes the snapshot, then removes records in slices. A failure is reported and
counted, and harms nothing else: without a snapshot, opening the world takes longer.

A thread serves worlds with and without an event loop: `EventLog.compact` and `append` exclude each
other in the store.
"""

from collections.abc import Callable
from threading import Event, Thread
from time import perf_counter
from typing import Final

from placet.actors.metrics import Counters
from placet.actors.ports import EventLog
from placet.schemas.errors import StoreError
from placet.schemas.log.snapshot import SnapshotPosition
from placet.stores.snapshots.recovery import Recovery
from placet.stores.snapshots.writer import SnapshotProcess, WrittenSnapshot

_SLICE_APPENDS: Final = 64
"""Removed in one transaction: an append waits for one such slice at most."""

_REST: Final = 4.0
"""A slice is followed by a rest so many times as long: appends keep the disk to themselves."""


class SnapshotScheduler:
    """A scheduler that takes snapshots of an open world's log, so that it reopens quickly.

    Args:
        log: The log, opened for writing.
        epoch: The epoch that `log.open` returned.
        process: Takes the snapshots.
        counters: Metrics, which count the snapshots.
        every: Number of seqs, or of records, after which a snapshot is due.
        recovery: How the log was opened: position of its newest snapshot and of its start.
        is_compacting: Remove the records from the log that all kept snapshots cover.
        on_fault: Called in the thread with the name of the failed work and its error.
    """

    def __init__(
        self,
        log: EventLog,
        epoch: int,
        process: SnapshotProcess,
        counters: Counters,
        *,
        every: int,
        recovery: Recovery,
        is_compacting: bool,
        on_fault: Callable[[str, BaseException], None],
    ) -> None:
        self._log = log
        self._epoch = epoch
        self._process = process
        self._counters = counters
        self._every = every
        self._latest = recovery.snapshot or SnapshotPosition(0, 0)
        self._first_record = recovery.start.record
        self._is_compacting = is_compacting
        self._on_fault = on_fault
        self._reached: tuple[int, int] = self._latest
        """Records and seqs of the log after the last write; the world's thread writes it."""
        self._due = self._after(self._latest)
        """End of the log at which the next snapshot begins; the scheduler's thread writes it."""
        self._is_due = Event()
        """Set iff a snapshot is due or under way, or the scheduler is closed."""
        self._is_closed = Event()
        self._thread: Thread | None = None
        """None iff no snapshot was due yet."""
        counters.watch("snapshot_seq", lambda: self._latest.seq)
        counters.watch("log_first_record", lambda: self._first_record)

    def note(self, records: int, seq: int) -> None:
        """Record how many records and seqs the log has now. Called for every append."""
        self._reached = (records, seq)
        if seq >= self._due.seq or records >= self._due.records:
            if self._thread is None:
                self._thread = Thread(target=self._run, name="placet snapshots", daemon=True)
                self._thread.start()
            self._is_due.set()

    def close(self) -> None:
        """Stop a snapshot or a compaction in progress, and wait; existing snapshots stay."""
        self._is_closed.set()
        self._is_due.set()
        self._process.stop()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._is_closed.is_set():  # set before `_is_due`, which `_take` may clear
            self._is_due.wait()
            taken = None if self._is_closed.is_set() else self._take()
            if taken is not None and self._is_compacting:
                self._compact(taken.compact_before)

    def _take(self) -> WrittenSnapshot | None:
        began = perf_counter()
        taken = None
        try:
            taken = self._process.run()
        except StoreError as error:
            self._counters.snapshot("failed", perf_counter() - began)
            self._on_fault("snapshots", error)
        if taken is not None:
            self._counters.snapshot("written", perf_counter() - began)
            self._latest = SnapshotPosition(taken.records, taken.seq)
        # After a failure, when there is as much again to do: what failed once may do so at once.
        self._due = self._after(self._reached if taken is None else self._latest)
        self._is_due.clear()
        return taken

    def _after(self, place: tuple[int, int]) -> SnapshotPosition:
        records, seq = place
        return SnapshotPosition(records + self._every, seq + self._every)

    def _compact(self, before_record: int) -> None:
        """Remove what two snapshots hold, slice by slice."""
        is_more = True
        try:
            while is_more and not self._is_closed.is_set():
                began = perf_counter()
                is_more = self._log.compact(before_record, self._epoch, appends_max=_SLICE_APPENDS)
                self._first_record = self._log.start().record
                self._is_closed.wait(_REST * (perf_counter() - began) if is_more else 0)
        except StoreError as error:
            self._on_fault("compaction", error)
