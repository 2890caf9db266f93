"""Snapshots along a whole log, so that a replay to any place of it begins nearby.

A running world keeps two snapshots, near its end. A player asks for views and explanations
anywhere, so a process of low priority folds the log once and leaves a snapshot every `LEDGER_SEQS`
seqs beside the key frames. They are disposable as those are.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from re import compile as pattern
from typing import Final

from placet.actors.ports import EventLog
from placet.history.timeline.frames import compressed, decompressed
from placet.kernel.log import snapshot as snapshots
from placet.kernel.log.replay import Replayer
from placet.schemas.errors import PlacetError
from placet.schemas.limits import DERIVED_BYTES_MAX, derived_bytes_max
from placet.schemas.log.record import Checkpoint
from placet.schemas.log.snapshot import Snapshot, SnapshotPosition, encode_snapshot, snapshot_at
from placet.stores.append_rules import OvertakenError
from placet.stores.files import make_folder, write_whole
from placet.stores.gc_tuning import tune_gc
from placet.stores.reading import log_to_read
from placet.stores.snapshots.files import SnapshotStore, snapshots_of
from placet.stores.snapshots.recovery import read_on, recover
from placet.stores.url import environment_of, is_lasting, lasting_url_of

LEDGER_SEQS: Final = 50_000
"""Seqs between two snapshots; as many as there are entities and agents, if those are more."""

_NAME: Final = pattern(r"(\d{12,19})-(\d{12,19})\.ledger")
_NICENESS: Final = 10
_PROGRAM: Final = (
    "import sys; from placet.history.timeline.ledgers import main; sys.exit(main(*sys.argv[1:]))"
)


class LedgerFrames:
    """A `SnapshotStore` of the snapshots along a log, together with the log's own.

    Args:
        folder: The folder of the log's key frames; it need not exist.
        own: The snapshots that belong to the log; None if it has none.
        bytes_max: Returns the bound of a snapshot once it is decompressed.
    """

    def __init__(
        self,
        folder: Path,
        own: SnapshotStore | None,
        bytes_max: Callable[[], int] = lambda: DERIVED_BYTES_MAX,
    ) -> None:
        self.folder = folder
        self.where = str(folder)
        self._own = own
        self._bytes_max = bytes_max

    def along(self) -> list[SnapshotPosition]:
        """Return the positions of the snapshots of this folder, newest first."""
        try:
            names = os.listdir(self.folder)  # noqa: PTH208  # names alone
        except OSError:
            return []
        found = (_NAME.fullmatch(name) for name in names)
        return sorted((SnapshotPosition(int(n[1]), int(n[2])) for n in found if n), reverse=True)

    def places(self) -> list[SnapshotPosition]:
        """Return the positions of all snapshots, newest first."""
        own = [] if self._own is None else self._own.places()
        return sorted({*own, *self.along()}, reverse=True)

    def read(self, place: SnapshotPosition) -> Snapshot:
        """Read the snapshot at a position; check that it is undamaged and of that position.

        Raises:
            ValueError: The snapshot is damaged, or of another version.
            OSError: The snapshot cannot be read; `FileNotFoundError` if it was removed.
        """
        path = self._path(place)
        if self._own is not None and not path.exists():
            return self._own.read(place)
        return snapshot_at(place, decompressed(path.read_bytes(), self._bytes_max()))

    def write(self, snapshot: Snapshot) -> int:
        """Write a snapshot, whole or not at all; return its size in bytes.

        Raises:
            OSError: The folder cannot be written.
        """
        make_folder(self.folder)
        data = compressed(encode_snapshot(snapshot))
        path = self._path(SnapshotPosition(snapshot.records, snapshot.seq))
        write_whole(path, data, is_lasting=False)
        return len(data)

    def remove(self, places: Iterable[SnapshotPosition]) -> None:
        """Remove snapshots of this folder; those of the log itself stay."""
        for place in places:
            with suppress(OSError):
                self._path(place).unlink()

    def _path(self, place: SnapshotPosition) -> Path:
        return self.folder / f"{place.records:012d}-{place.seq:012d}.ledger"


def ledgers_of(log: EventLog, folder: Path | None) -> LedgerFrames | None:
    """Return the snapshots along a log; None for a log in memory, which has none."""
    return None if folder is None else _frames_in(folder, log)


def _frames_in(folder: Path, log: EventLog) -> LedgerFrames:
    return LedgerFrames(folder, snapshots_of(log), lambda: derived_bytes_max(log.size_bytes()))


def write_ledgers(
    log: EventLog, files: LedgerFrames, is_wanted: Callable[[], bool] = lambda: True
) -> int:
    """Fold a log from its last snapshot in the folder to its end; return the number written.

    Raises:
        StoreError: The log cannot be read or is inconsistent.
        OSError: The folder cannot be written.
    """
    along = files.along()
    start = log.start()
    if along and along[0].records > start.record:
        past = recover(log, to_record=along[0].records, files=files).past
    elif start.record:
        oldest = min(files.places(), default=None)
        past = recover(log, to_record=oldest and oldest.records, files=files).past
    else:
        past = Replayer()
    written, last = 0, past.ledger.seq
    with suppress(OvertakenError):  # compacted meanwhile: the next pass begins later
        for _, data in read_on(log, past.journal.count):
            record = past.apply(data)
            # At a checkpoint where one comes soon: the log then holds the digest of its state.
            seqs = past.ledger.seq - last
            if seqs < (LEDGER_SEQS if isinstance(record, Checkpoint) else 2 * LEDGER_SEQS):
                continue
            size = sum(len(rows.entities) for rows in past.state.collections.values())
            if seqs < size + len(past.ledger.agents):
                continue
            if not is_wanted():
                break
            files.write(snapshots.take(past))
            written, last = written + 1, past.ledger.seq
    return written


def start_writing(log: EventLog, folder: Path) -> "subprocess.Popen[bytes] | None":
    """Start the process that folds a log, and return it; None if it cannot be started."""
    if not is_lasting(log):
        return None
    arguments = (lasting_url_of(log), str(folder), str(os.getpid()))
    command = [sys.executable, "-P", "-c", _PROGRAM, *arguments]
    nothing = subprocess.DEVNULL
    environment = {**os.environ, **environment_of(log)}
    try:
        return subprocess.Popen(
            command, stdin=nothing, stdout=nothing, stderr=nothing, env=environment
        )
    except OSError:
        return None


def main(url: str, folder: str, parent: str) -> int:
    """Fold the log of a URL in the child process; return its exit code."""
    os.nice(_NICENESS)
    tune_gc()
    log = log_to_read(url)
    try:
        files = _frames_in(Path(folder), log)
        write_ledgers(log, files, lambda: os.getppid() == int(parent))
    except (PlacetError, OSError):
        return 1  # a question then costs a longer replay
    return 0
