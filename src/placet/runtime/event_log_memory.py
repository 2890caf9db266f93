"""A log in memory: the same bytes as on a disk, as long as the process lives.

It keeps encoded records, not objects: a tuple of bytes per group, which the garbage collector
soon stops tracking, so that a long log does not slow the world down.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final

from placet.runtime.event_log_rules import require_follows, require_writer
from placet.schemas.errors import StoreError
from placet.schemas.limits import Limits
from placet.schemas.record import LogGroup

_URL: Final = "memory://"


class MemoryEventLog:
    """An `EventLog` that forgets everything when the process ends.

    Attributes:
        durability: `memory`.
        is_blocking: False: an append costs no more than a copy of the references.
        url: `memory://`.
    """

    def __init__(self, *, log_bytes_max: int = Limits().log_bytes_max) -> None:
        self.durability = "memory"
        self.is_blocking = False
        self.url = _URL
        self._log_bytes_max = log_bytes_max
        self._groups: list[tuple[bytes, ...]] = []
        self._firsts = array("q")
        self._seqs = array("q")
        self._count = 0
        self._size_bytes = 0
        self._epoch = 0
        self._is_open = False
        self._failure: str | None = None

    def open(self) -> int:
        """Take the fence and give the new epoch; whoever held the last one is shut out."""
        self._epoch += 1
        self._is_open = True
        self._failure = None
        return self._epoch

    def append(self, group: LogGroup, epoch: int) -> None:
        """Keep a group, all of it or nothing.

        Raises:
            StoreError: The log is full or closed, an append has failed before, the group does
                not follow the last one, or `epoch` is no longer the latest.
        """
        held = self._epoch if self._is_open else None
        require_writer(epoch, held=held, failure=self._failure, store=_URL)
        try:
            self._keep(group)
        except StoreError as error:
            self._failure = str(error)
            raise

    def _keep(self, group: LogGroup) -> None:
        seq = self._seqs[-1] if self._seqs else 0
        require_follows(group, count=self._count, seq=seq, store=_URL)
        size_bytes = self._size_bytes + sum(map(len, group.records))
        if size_bytes > self._log_bytes_max:
            raise StoreError(
                f"the log in memory is full: limit 'log_bytes_max' allows {self._log_bytes_max} "
                f"bytes, with this group it would be {size_bytes}; raise the limit, or keep the "
                "log in a file: store='sqlite:///world.db'",
                store=_URL,
                seq=group.seq_before,
            )
        self._firsts.append(group.first_record)
        self._seqs.append(group.seq)
        self._groups.append(tuple(group.records))
        self._count += len(group.records)
        self._size_bytes = size_bytes

    def read(self, from_record: int = 0) -> Iterator[tuple[int, bytes]]:
        """Give `(ordinal, record)` from an ordinal on, also what is appended meanwhile."""
        place = max(0, bisect_right(self._firsts, from_record) - 1)
        while place < len(self._groups):
            for ordinal, record in enumerate(self._groups[place], self._firsts[place]):
                if ordinal >= from_record:
                    yield ordinal, record
            place += 1

    def find_seq(self, seq: int) -> int:
        """Give the ordinal of the group that reached a seq; `count()` if none has. O(log n)."""
        place = bisect_left(self._seqs, seq)
        return self._firsts[place] if place < len(self._firsts) else self._count

    def count(self) -> int:
        """Count the records."""
        return self._count

    def size_bytes(self) -> int:
        """Give the bytes of the records."""
        return self._size_bytes

    def close(self) -> None:
        """Accept no more appends. What is kept can still be read."""
        self._is_open = False
