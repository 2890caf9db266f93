"""The snapshots in a packed log."""

from collections.abc import Iterable

from placet.schemas.log.snapshot import Snapshot, SnapshotPosition, decode_snapshot
from placet.stores.pack import PackEventLog


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
        except ValueError as error:  # whoever wrote the pack gave it a sound checksum all the same
            raise OSError(f"a snapshot in the pack cannot be read: {error}") from error
        return {
            SnapshotPosition(snapshot.records, snapshot.seq): snapshot for snapshot in snapshots
        }
