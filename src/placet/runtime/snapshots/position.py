"""Where a snapshot stands in its log."""

from typing import NamedTuple


class SnapshotPosition(NamedTuple):
    """Which snapshot: what its file's name says of it. Newer ones compare as greater."""

    records: int
    seq: int

    @property
    def name(self) -> str:
        """The file's name, which sorts as the places do."""
        return f"{self.records:012d}-{self.seq:012d}.snapshot"
