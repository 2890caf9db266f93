"""Takes a snapshot of a log, by reading it: no writer is asked, and none is held up.

It starts from the newest trusted snapshot and folds the records since, so its work is proportional
to them, and every digest on the way is checked again. Older snapshots are removed once the new one
is safe.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final

from placet.actors.ports import EventLog
from placet.kernel.log import snapshot as snapshots
from placet.kernel.log.replay import Replayer
from placet.runtime.snapshots.files import SnapshotPosition, SnapshotStore
from placet.runtime.snapshots.recovery import listed, recover, trusted_places
from placet.schemas.errors import StoreError

EVERY_SEQS: Final = 200_000
"""Where nobody says otherwise: about a second of folding at the next opening."""

KEPT_MIN: Final = 2
"""A world that is compacted to a single snapshot is lost with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenSnapshot:
    """The result of writing a snapshot.

    Attributes:
        records: Where the newest snapshot stands now, in records;
        seq: and in seqs.
        size_bytes: Of its file; 0 where there was nothing new to take.
        folded: How many records were folded for it.
        compact_before: Records before this one are in all snapshots that are kept, two at least: a
            compaction may remove them, and each of those still stands on a record.
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
    kept: int | None = KEPT_MIN,
    to_seq: int | None = None,
    is_wanted: Callable[[], bool] = lambda: True,
) -> WrittenSnapshot:
    """Take a snapshot at the end of a log, and keep so many of the newest.

    Args:
        log: Which; it is only read, and may grow meanwhile.
        files: Where the snapshots are.
        kept: How many to keep, `KEPT_MIN` at least; None is all of them.
        to_seq: Take it at this seq instead, or where the last batch before it ended.
        is_wanted: Asked before anything is written or removed.

    Raises:
        StoreError: The log cannot be read or is inconsistent, the disk refused, or the snapshot is
            no longer wanted.
        ValueError: `kept` is too small.
    """
    if kept is not None and kept < KEPT_MIN:
        raise ValueError(f"at least {KEPT_MIN} snapshots are kept, got {kept}")
    recovery = recover(log, to_seq=to_seq, files=files)
    past = recovery.past
    if past.header is None:
        raise StoreError(f"{log.url} is empty: there is no world to take a snapshot of")
    if not is_wanted():
        raise StoreError("nobody wants the snapshot any more", store=log.url)
    here = SnapshotPosition(past.journal.count, past.ledger.seq)
    size_bytes = 0
    if recovery.snapshot != here:
        size_bytes = _write(past, here, files, log.url)
    places = [] if kept is None else _prune(log, files, kept)
    return WrittenSnapshot(
        records=here.records,
        seq=here.seq,
        size_bytes=size_bytes,
        folded=recovery.folded,
        # The record on which a snapshot stands is kept: by its hash they know each other.
        compact_before=places[-1].records - 1 if len(places) >= KEPT_MIN else 0,
    )


def keep_only(
    log: EventLog,
    files: SnapshotStore,
    places: Collection[SnapshotPosition],
    *,
    of: Iterable[SnapshotPosition],
) -> None:
    """Remove snapshots of a log, all but some.

    Args:
        log: Which.
        files: Where they are.
        places: Which stay; one at least.
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
            f"cannot write a snapshot into {files.where}: {error}; see that there is room and "
            "that the folder is writable, and try again",
            store=store,
        ) from error
    assert written == snapshot, "what was written is read back"
    return size_bytes


def _prune(log: EventLog, files: SnapshotStore, kept: int) -> list[SnapshotPosition]:
    """Keep the newest trusted snapshots; remove the others."""
    there = listed(log, files)
    places = trusted_places(log, files, kept)
    keep_only(log, files, places, of=there)
    return places
