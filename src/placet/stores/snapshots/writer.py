"""Take a snapshot of a log in a separate process, so that the writer of the log does not wait.

The process loads the newest valid snapshot and replays the records after it, so its time is
proportional to their number; every recorded digest is checked. Older snapshots are removed once the
new one is durable. A replay needs no domain and no configuration, so the process reads the log like
any reader, at low priority, prints its result as one JSON line, and ends.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from threading import Event, Lock
from typing import Final

from placet.actors.ports import EventLog
from placet.kernel.log import snapshot as snapshots
from placet.kernel.log.replay import Replayer
from placet.schemas.codec import from_json, to_json
from placet.schemas.errors import PlacetError, StoreError
from placet.schemas.log.snapshot import SnapshotPosition
from placet.stores.gc_tuning import tune_gc
from placet.stores.snapshots.files import SnapshotStore, snapshots_of
from placet.stores.snapshots.recovery import listed, recover, trusted_places
from placet.stores.url import open_event_log

EVERY_SEQS: Final = 200_000
"""Default number of seqs between snapshots: about a second of folding at the next opening."""

KEPT_MIN: Final = 2
"""Two: a compacted world with a single snapshot is lost if that file is damaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenSnapshot:
    """The result of writing a snapshot.

    Attributes:
        records: Number of records before the newest snapshot.
        seq: Sequence number of the newest snapshot.
        size_bytes: Size of the snapshot; 0 if one existed already at the end of the log.
        folded: Number of records that were replayed for it.
        compact_before: Records before this one are covered by every kept snapshot, two at least. A
            compaction may remove them; the record before each snapshot stays.
    """

    records: int
    seq: int
    size_bytes: int
    folded: int
    compact_before: int


def take_snapshot(
    log: EventLog,
    files: SnapshotStore,
    *,
    kept_count: int | None = KEPT_MIN,
    to_seq: int | None = None,
    is_wanted: Callable[[], bool] = lambda: True,
) -> WrittenSnapshot:
    """Write a snapshot at the end of a log, and remove all but the newest `kept_count`.

    Args:
        log: The log; it is only read, and may grow meanwhile.
        files: Store of the snapshots.
        kept_count: Number of snapshots to keep, at least `KEPT_MIN`; None keeps all.
        to_seq: Seq of the snapshot instead of the end; inside a batch, the seq before the batch.
        is_wanted: Called before anything is written or removed; false cancels.

    Raises:
        StoreError: The log cannot be read or is inconsistent, the disk refused, or the snapshot is
            no longer wanted.
        ValueError: `kept_count` is too small.
    """
    if kept_count is not None and kept_count < KEPT_MIN:
        raise ValueError(f"at least {KEPT_MIN} snapshots are kept, got {kept_count}")
    recovery = recover(log, to_seq=to_seq, files=files)
    past = recovery.past
    if past.header is None:
        raise StoreError(f"{log.url} is empty: there is no world to take a snapshot of")
    if not is_wanted():
        raise StoreError("the snapshot is not needed: the parent process has ended", store=log.url)
    here = SnapshotPosition(past.journal.count, past.ledger.seq)
    size_bytes = 0
    if recovery.snapshot != here:
        size_bytes = _write(past, here, files, log.url)
    places = [] if kept_count is None else _prune(log, files, kept_count)
    return WrittenSnapshot(
        records=here.records,
        seq=here.seq,
        size_bytes=size_bytes,
        folded=recovery.folded,
        # The record before the snapshot is kept: the snapshot contains its hash, which proves that
        # the two belong together.
        compact_before=places[-1].records - 1 if len(places) >= KEPT_MIN else 0,
    )


def keep_only(
    log: EventLog,
    files: SnapshotStore,
    places: Collection[SnapshotPosition],
    *,
    of: Iterable[SnapshotPosition],
) -> None:
    """Remove all snapshots of a log except those at given positions.

    Args:
        log: The log.
        files: Store of the snapshots.
        places: Positions of the snapshots to keep; one at least.
        of: The snapshots present before the choice was made. Later ones belong to another process,
            which may have compacted the log behind them.

    Raises:
        StoreError: The disk refused.
    """
    assert places, "a log without a snapshot is not made by removing the last one"
    try:
        files.remove(place for place in of if place not in places)
    except OSError as error:
        raise StoreError(
            f"cannot remove old snapshots from {files.where}: {error}; make the folder writable, "
            "and try again",
            store=log.url,
        ) from error


def _write(past: Replayer, here: SnapshotPosition, files: SnapshotStore, store: str) -> int:
    """Write a snapshot, and read it back before it is relied on."""
    snapshot = snapshots.take(past)
    try:
        size_bytes = files.write(snapshot)
        written = files.read(here)
    except (OSError, ValueError) as error:
        raise StoreError(
            f"cannot write a snapshot into {files.where}: {error}; check that the disk has room "
            "and that the folder is writable, and try again",
            store=store,
        ) from error
    assert written == snapshot, "the written snapshot reads back the same"
    return size_bytes


def _prune(log: EventLog, files: SnapshotStore, kept_count: int) -> list[SnapshotPosition]:
    """Keep the newest trusted snapshots; remove the others."""
    there = listed(log, files)
    places = trusted_places(log, files, kept_count)
    keep_only(log, files, places, of=there)
    return places


_NICENESS: Final = 5
# Not `-m`: the package imports this module, which would be run a second time.
_PROGRAM: Final = "import sys; from placet.stores.snapshots.writer import main; sys.exit(main())"
_ERROR_CHARACTERS: Final = 2_000


class SnapshotProcess:
    """A child process that takes snapshots of a log, as seen by its parent.

    Args:
        url: URL of the log.
        kept_count: Number of snapshots to keep.
        seconds_max: Time limit of the process, seconds.
        environment: Variables needed besides the URL, such as secrets that must not be visible.
    """

    def __init__(
        self,
        url: str,
        kept_count: int,
        seconds_max: float,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._url = url
        self._environment = environment or {}
        self._kept = kept_count
        self._seconds_max = seconds_max
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = Event()

    def run(self) -> WrittenSnapshot | None:
        """Take one snapshot and wait for it, blocking; None if `stop` was called.

        Raises:
            StoreError: The process failed, or took too long; the message has its last output.
        """
        arguments = (self._url, str(self._kept), str(os.getpid()))
        command = [sys.executable, "-P", "-c", _PROGRAM, *arguments]
        with self._lock:
            if self._stopped.is_set():
                return None
            process = self._process = self._start(command)
        with process:
            try:
                out, err = process.communicate(timeout=self._seconds_max)
            except subprocess.TimeoutExpired:
                process.kill()
                raise self._failure(f"it took longer than {self._seconds_max:g} s") from None
        if self._stopped.is_set():
            return None
        if process.returncode != 0:
            output = err.decode(errors="replace").strip()[-_ERROR_CHARACTERS:]
            raise self._failure(f"it ended with code {process.returncode} and wrote: {output}")
        return WrittenSnapshot(**from_json(out))

    def stop(self) -> None:
        """Kill the running process and start no more; log and older snapshots are unharmed."""
        with self._lock:
            self._stopped.set()
            if self._process is not None:
                self._process.kill()

    def _start(self, command: list[str]) -> "subprocess.Popen[bytes]":
        pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
        try:
            environment = {**os.environ, **self._environment}
            return subprocess.Popen(
                command, stdin=nothing, stdout=pipe, stderr=pipe, env=environment
            )
        except OSError as error:
            raise self._failure(f"it cannot be started: {error}") from error

    def _failure(self, why: str) -> StoreError:
        return StoreError(f"the process that takes snapshots failed: {why}", store=self._url)


def main() -> int:
    """Take one snapshot in the child process; return its exit code.

    Its arguments are the URL, the number of snapshots to keep, and the parent's process id.
    """
    url, kept_count, parent = sys.argv[1:]
    os.nice(_NICENESS)
    tune_gc()
    log = open_event_log(url)
    files = snapshots_of(log)
    assert files is not None, (
        "only a log in a file or on a server has a process that takes snapshots"
    )
    try:
        # Without its parent, another writer may own the log and prune with a second process;
        # two that remove snapshots at once could remove each other's.
        taken = take_snapshot(
            log, files, kept_count=int(kept_count), is_wanted=lambda: os.getppid() == int(parent)
        )
    except PlacetError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(to_json(asdict(taken)).decode() + "\n")
    return 0
