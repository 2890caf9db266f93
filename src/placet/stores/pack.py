"""A packed log, as a log that can only be read: `placet log`, `replay`, `explain` work on it.

It is read as a whole, once, and its checksum is verified before any record is returned.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import Final, NoReturn

from placet.schemas.errors import StoreError
from placet.schemas.log.pack import PACK_MAGIC, Pack, decode_pack
from placet.schemas.log.record import LogAppend, LogStart, decode_record
from placet.schemas.log.snapshot import Snapshot, SnapshotPosition, decode_snapshot
from placet.stores.files import quoted, unquoted

_URL: Final = "pack:///"


class PackEventLog:
    """A packed log in a file, as a read-only `EventLog`.

    Args:
        path: Path of the file.

    Attributes:
        durability: `pack`.
        is_blocking: True: it is a file.
        url: `pack:///` and the path.
    """

    def __init__(self, path: Path) -> None:
        self.durability = "pack"
        self.is_blocking = True
        self.url = f"{_URL}{quoted(path)}"
        self._path = path

    @cached_property
    def pack(self) -> Pack:
        """The decoded content of the file, read once.

        Raises:
            StoreError: The file cannot be read, or is damaged.
        """
        try:
            return decode_pack(self._path.read_bytes())
        except (OSError, ValueError) as error:
            raise StoreError(f"cannot read {self._path}: {error}", store=self.url) from error

    @cached_property
    def _seqs(self) -> list[int]:
        """The seq at which each record ends.

        Raises:
            StoreError: A record is not valid, although the checksum is right.
        """
        seqs: list[int] = []
        try:
            seqs.extend(decode_record(data).seq for data in self.pack.records)
        except ValueError as error:
            ordinal = self.pack.first_record + len(seqs)
            raise StoreError(
                f"{self._path} is no log from record {ordinal} on: no record of a known format: "
                f"{error}",
                store=self.url,
            ) from error
        return seqs

    @property
    def snapshots(self) -> "PackedSnapshots":
        """The snapshots in the pack."""
        return PackedSnapshots(self)

    def read(self, from_record: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield `(ordinal, record)` pairs in order, from ordinal `from_record` on."""
        pack = self.pack
        skipped = max(0, from_record - pack.first_record)
        yield from enumerate(pack.records[skipped:], pack.first_record + skipped)

    def find_seq(self, seq: int) -> int:
        """Return the ordinal of the first record that reached a seq; `count()` if none has.

        O(log n).
        """
        return self.pack.first_record + bisect_left(self._seqs, seq)

    def start(self) -> LogStart:
        """Return the position of the log's first record."""
        return LogStart(self.pack.first_record, self.pack.after_seq)

    def count(self) -> int:
        """Return the number of records ever appended, compacted ones included."""
        return self.pack.first_record + len(self.pack.records)

    def size_bytes(self) -> int:
        """Return the bytes of the records in the file."""
        return sum(map(len, self.pack.records))

    def close(self) -> None:
        """Do nothing: no resource is held."""

    def open(self, *, take_over: bool = False) -> int:  # the port's
        """Raise: a pack is read-only.

        Raises:
            StoreError: Always.
        """
        self._refuse()

    def append(self, append: LogAppend, epoch: int) -> None:  # the port's
        """Raise: a pack is read-only.

        Raises:
            StoreError: Always.
        """
        self._refuse()

    def check_writable(self, epoch: int) -> None:  # the port's
        """Raise: a pack is read-only.

        Raises:
            StoreError: Always.
        """
        self._refuse()

    def compact(self, before_record: int, epoch: int, *, appends_max: int) -> bool:  # the port's
        """Raise: a pack is read-only.

        Raises:
            StoreError: Always.
        """
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise StoreError(
            f"{self._path} is a packed log and read-only; to continue from it, fork it: "
            f"placet fork {quote(str(self._path))} NEW.db",
            store=self.url,
        )


class PackedSnapshots:
    """The snapshots in a packed log; read-only.

    Attributes:
        where: URL of the pack, for messages.
    """

    def __init__(self, log: PackEventLog) -> None:
        self.where = log.url
        self._log = log

    def places(self) -> list[SnapshotPosition]:
        """Return the positions of all snapshots, newest first.

        Raises:
            OSError: A snapshot in the pack cannot be decoded.
        """
        return sorted(self._found(), reverse=True)

    def read(self, place: SnapshotPosition) -> Snapshot:
        """Return the snapshot at a position; raise `KeyError` if the pack has none there."""
        return self._found()[place]

    def write(self, snapshot: Snapshot) -> int:
        """Raise: a packed log is read-only.

        Raises:
            OSError: Always.
        """
        raise OSError(f"record {snapshot.records}: a packed log is read-only")

    def remove(self, places: Iterable[SnapshotPosition]) -> None:
        """Raise: a packed log is read-only.

        Raises:
            OSError: Always.
        """
        raise OSError(f"{len(list(places))} of them: a packed log is read-only")

    def _found(self) -> dict[SnapshotPosition, Snapshot]:
        try:
            snapshots = [decode_snapshot(data) for data in self._log.pack.snapshots]
        except ValueError as error:  # the pack's checksum is sound, its content is not
            raise OSError(f"a snapshot in the pack cannot be read: {error}") from error
        return {SnapshotPosition(one.records, one.seq): one for one in snapshots}


def pack_at(store: str) -> PackEventLog | None:
    """Return the packed log at a path or a `pack:///` URL; None if the file is no pack."""
    path = Path(unquoted(store.removeprefix(_URL)) if store.startswith(_URL) else store)
    try:
        if not path.is_file():  # from a pipe one would wait for ever
            return None
        with path.open("rb") as file:
            is_pack = file.read(len(PACK_MAGIC)) == PACK_MAGIC
    except (OSError, ValueError):  # a NUL in it
        is_pack = False
    return PackEventLog(path) if is_pack else None
