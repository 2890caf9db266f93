"""Recovery: rebuild a world from the newest valid snapshot and the log after it.

A snapshot that cannot be trusted is skipped, and said to be; then an older one serves, or the whole
log. Only where the log itself begins later (compaction) and no snapshot reaches into it is there
nothing to begin from. The log decides: a snapshot that does not stand on a record of this very log,
by its hash, is another log's, or of a future that was never durable; and one that leads to another
state digest than the log holds was forged or damaged.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

from placet.actors.ports import EventLog
from placet.kernel.log import snapshot as snapshots
from placet.kernel.log.replay import DigestDivergence, Divergence, Replayer
from placet.schemas.errors import StoreError
from placet.schemas.log.record import Checkpoint, LogStart, Record, decode_record, record_hash
from placet.schemas.log.snapshot import Snapshot, SnapshotPosition
from placet.stores.append_rules import OvertakenError, overtaken
from placet.stores.snapshots.files import SnapshotStore, snapshots_of

_LISTINGS_MAX: Final = 5
"""How often the folder is listed anew where a file went before it was read."""


class Upto(NamedTuple):
    """A bound up to which a log is replayed; None is no bound.

    Attributes:
        seq: Last seq.
        record: Number of records.
    """

    seq: int | None = None
    record: int | None = None

    def includes(self, place: SnapshotPosition) -> bool:
        """Return whether a snapshot's position lies within the bound."""
        is_early = self.seq is None or place.seq <= self.seq
        return is_early and (self.record is None or place.records <= self.record)


EVERYWHERE: Final = Upto()


@dataclass(slots=True)
class Recovery:
    """A recovered world, and the cost of its recovery.

    Attributes:
        past: The replayed world: state and ledger.
        snapshot: The snapshot from which the replay started; None for the first record.
        folded: Number of records that were replayed after it.
        start: Position of the log's first record at that time.
        skipped: One sentence for each newer snapshot: why it was not used.
    """

    past: Replayer
    snapshot: SnapshotPosition | None = None
    folded: int = 0
    start: LogStart = field(default_factory=LogStart)
    skipped: list[str] = field(default_factory=list)


def recover(
    log: EventLog,
    *,
    to_seq: int | None = None,
    to_record: int | None = None,
    files: SnapshotStore | None = None,
) -> Recovery:
    """Rebuild a world from its newest valid snapshot and the log after it.

    O(state + the records after the snapshot).

    Args:
        log: The log; it is only read.
        to_seq: Last seq to replay; a batch that a seq lies inside of is left out. None is the end
            of the log.
        to_record: Number of records to replay, including those before the snapshot. None is all.
        files: Store of the snapshots; None is the one that belongs to the log.

    Raises:
        StoreError: The log cannot be read, is inconsistent, or was compacted beyond every valid
            snapshot, or beyond `to_seq` or `to_record`.
    """
    upto, files = Upto(to_seq, to_record), files or snapshots_of(log)
    forged: dict[SnapshotPosition, DigestDivergence] = {}
    listings = 0
    while listings < _LISTINGS_MAX:
        try:
            recovery = _started(log, upto, files, forged)
        except StoreError:
            if forged:  # the log may be at fault, and not its snapshots
                raise next(iter(forged.values())) from None
            raise
        try:
            _fold(log, recovery, upto)
        except OvertakenError:  # then there is a newer snapshot to begin from
            listings += 1
        except DigestDivergence as error:
            if recovery.snapshot is None:
                raise
            forged[recovery.snapshot] = error
        else:
            return recovery
    raise _vanishing(log)


def _fold(log: EventLog, recovery: Recovery, upto: Upto) -> None:
    """Fold the records after a snapshot, up to the bound."""
    past = recovery.past
    for ordinal, data in read_on(log, past.journal.count):
        if upto.record is not None and ordinal >= upto.record:
            break
        if upto.seq is not None and decode(data, past.journal.count).seq > upto.seq:
            break
        past.apply(data)
        recovery.folded += 1


def read_on(log: EventLog, record: int) -> Generator[tuple[int, bytes]]:
    """Yield `(ordinal, record)` pairs of a log from a record on; raise if that record is gone.

    `EventLog.read` starts at the first record that a log still has. If another process compacted
    the log during a replay, records would be missing unnoticed, and the chain would look broken.

    Raises:
        OvertakenError: The log was compacted beyond the record.
        StoreError: The log cannot be read.
    """
    is_first = True
    for ordinal, data in log.read(record):
        if is_first and ordinal > record:
            raise overtaken(log.url, record, log.start())
        is_first = False
        yield ordinal, data


def why_not(log: EventLog, snapshot: Snapshot) -> str | None:
    """Return the reason why a snapshot does not belong to a log; None if it belongs to it.

    It belongs to the log if the log has the record whose hash the snapshot contains.

    Raises:
        StoreError: The log cannot be read.
    """
    last = snapshot.records - 1
    if snapshot.records > log.count():
        return f"the log ends at record {log.count()}, before it"
    ordinal, data = next(log.read(last), (-1, b""))
    if ordinal != last:
        return f"the log begins at record {log.start().record}, after it"
    if record_hash(data) != snapshot.chain:
        return f"record {last} of the log is another one: the snapshot is of another log"
    record = decode(data, last)
    if isinstance(record, Checkpoint) and record.state_digest != snapshot.state_digest:
        return f"record {last} of the log holds another state digest"
    return None


def listed(log: EventLog, files: SnapshotStore) -> list[SnapshotPosition]:
    """Return the positions of all snapshots, newest first, valid or not.

    Raises:
        StoreError: The snapshots cannot be listed.
    """
    try:
        return files.places()
    except OSError as error:
        raise StoreError(f"cannot list {files.where}: {error}", store=log.url) from error


def trusted(
    log: EventLog, files: SnapshotStore, *, upto: Upto = EVERYWHERE, skipped: list[str]
) -> Iterator[tuple[SnapshotPosition, Snapshot]]:
    """Yield the undamaged snapshots that belong to a log, with their positions, newest first.

    Args:
        log: The log; it is only read.
        files: Store of the snapshots.
        upto: Bound of the positions.
        skipped: A sentence is appended for each snapshot that is left out.

    Raises:
        StoreError: The log or the snapshots cannot be read.
        FileNotFoundError: A snapshot was removed during the reading: start again.
    """
    for place in listed(log, files):
        if not upto.includes(place):
            continue
        snapshot: Snapshot | None = None
        try:
            snapshot = files.read(place)
            why = why_not(log, snapshot)
        except FileNotFoundError:
            raise
        except (OSError, ValueError) as error:
            why = str(error)
        if snapshot is not None and why is None:
            yield place, snapshot
        else:
            skipped.append(f"snapshot {place.name} in {files.where} is not used: {why}")


def trusted_snapshots(
    log: EventLog, files: SnapshotStore, *, upto: Upto = EVERYWHERE, skipped: list[str]
) -> list[tuple[SnapshotPosition, Snapshot]]:
    """Return all snapshots that `trusted` yields; start again if one is removed meanwhile.

    Raises:
        StoreError: The log or the snapshots cannot be read, or snapshots keep being removed.
    """
    for _ in range(_LISTINGS_MAX):
        skipped.clear()
        with suppress(FileNotFoundError):  # another process removed it: list again
            return list(trusted(log, files, upto=upto, skipped=skipped))
    raise _vanishing(log)


def trusted_places(
    log: EventLog, files: SnapshotStore, count: int | None = None
) -> list[SnapshotPosition]:
    """Return the positions of the newest undamaged snapshots that belong to a log, newest first.

    Args:
        log: The log; it is only read.
        files: Store of the snapshots.
        count: Maximum number of positions; None for all.

    Raises:
        StoreError: The log or the snapshots cannot be read, or snapshots keep being removed.
    """
    for _ in range(_LISTINGS_MAX):
        with suppress(FileNotFoundError):  # likewise; one at a time, for a snapshot may be large
            return [place for place, _ in islice(trusted(log, files, skipped=[]), count)]
    raise _vanishing(log)


def decode(data: bytes, ordinal: int) -> Record:
    """Decode one record of a log; `ordinal` is its number, for the error.

    Raises:
        Divergence: The bytes are not a record of a known format.
    """
    try:
        return decode_record(data)
    except ValueError as error:
        raise Divergence(ordinal, 0, f"no record of a known format: {error}") from None


def _started(
    log: EventLog,
    upto: Upto,
    files: SnapshotStore | None,
    forged: Mapping[SnapshotPosition, DigestDivergence],
) -> Recovery:
    """Find where to begin: not at a snapshot that has led to another state digest."""
    for _ in range(_LISTINGS_MAX):
        skipped: list[str] = []
        try:
            newest = None if files is None else _newest(log, files, upto, skipped, forged)
        except FileNotFoundError:  # a newer one is there, or this one would not have gone
            continue
        start = log.start()
        if newest is not None:
            place, past = newest
            return Recovery(past, place, start=start, skipped=skipped)
        if files is not None and skipped and not log.count():
            raise _emptied(log, files)
        if start.record == 0:
            return Recovery(Replayer(), skipped=skipped)
        places = trusted_places(log, files) if files is not None and upto != EVERYWHERE else []
        raise no_beginning(log, start, skipped, places)
    raise _vanishing(log)


def _newest(
    log: EventLog,
    files: SnapshotStore,
    upto: Upto,
    skipped: list[str],
    forged: Mapping[SnapshotPosition, DigestDivergence],
) -> tuple[SnapshotPosition, Replayer] | None:
    for place, snapshot in trusted(log, files, upto=upto, skipped=skipped):
        try:
            if place in forged:
                raise ValueError(f"it leads to another state than the log's: {forged[place]}")
            return place, snapshots.resume(snapshot)
        except ValueError as error:
            skipped.append(f"snapshot {place.name} in {files.where} is not used: {error}")
    return None


def _vanishing(log: EventLog) -> StoreError:
    """Return the error for a folder that another process empties meanwhile."""
    return StoreError(
        f"the snapshots of {log.url} are removed while they are read; find the process that "
        "removes them, and try again",
        store=log.url,
    )


def _emptied(log: EventLog, files: SnapshotStore) -> StoreError:
    """Return the error for a log that was longer once: starting anew would hide the loss."""
    return StoreError(
        f"{log.url} is empty, but the snapshots in {files.where} are of a log with records; "
        "restore the file from a copy, or remove that folder to start a new world",
        store=log.url,
    )


def no_beginning(
    log: EventLog, start: LogStart, skipped: list[str], places: Sequence[SnapshotPosition] = ()
) -> StoreError:
    """Build the error for a compacted log without a valid snapshot from which to start a replay.

    Args:
        log: The log.
        start: Position of the log's first record.
        skipped: One sentence for each unused snapshot: why it was not used.
        places: Valid snapshots, newest first, all of a later seq than the requested one.
    """
    cut = f"{log.url} was compacted up to seq {start.seq}"
    if places:
        message = (
            f"{cut}, and the first seq at which the world can be restored is {places[-1].seq}; "
            f"give that or a later seq. {' '.join(skipped)}".rstrip()
        )
    else:
        message = (
            f"{cut}, and no snapshot of it is valid; restore the folder of snapshots, or the "
            f"whole log, from a copy. {' '.join(skipped) or 'There is none.'}"
        )
    return StoreError(message, store=log.url, seq=start.seq)
