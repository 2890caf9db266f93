"""A log in memory: the same bytes as on disk, for the lifetime of the process.

It keeps encoded records, not objects: a tuple of bytes per append, which the garbage collector
soon stops tracking, so that a long log does not slow the world down.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final

from placet.schemas.errors import StoreError
from placet.schemas.limits import Limits
from placet.schemas.log.record import LogAppend, LogStart
from placet.stores.append_rules import overtaken, require_follows, require_writer

_URL: Final = "memory://"


class MemoryEventLog:
    """An `EventLog` in memory, which is lost when the process ends.

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
        self._appends: list[tuple[bytes, ...]] = []
        self._firsts = array("q")
        self._seqs = array("q")
        self._start = LogStart()
        self._count = 0
        self._size_bytes = 0
        self._removed_bytes = 0
        self._epoch = 0
        self._is_open = False
        self._failure: str | None = None

    def open(self, *, take_over: bool = False) -> int:  # no other process has it
        """Make this the writer of the log and return the new epoch.

        Earlier epochs become invalid.
        """
        self._epoch += 1
        self._is_open = True
        self._failure = None
        return self._epoch

    def append(self, append: LogAppend, epoch: int) -> None:
        """Write an append, completely or not at all.

        Raises:
            StoreError: The log is full or closed, an append has failed before, the append does
                not follow the last one, or `epoch` is no longer the latest.
        """
        if epoch != self._epoch or not self._is_open or self._failure is not None:
            self._require_writer(epoch)
        try:
            self._keep(append)
        except StoreError as error:
            self._failure = str(error)
            raise

    def _require_writer(self, epoch: int) -> None:
        held = self._epoch if self._is_open else None
        require_writer(epoch, held=held, failure=self._failure, store=_URL)

    def check_writable(self, epoch: int) -> None:
        """Check that an append could be appended now.

        Raises:
            StoreError: The log is closed, an append has failed, or `epoch` is not the latest.
        """
        self._require_writer(epoch)

    def _keep(self, append: LogAppend) -> None:
        seq = self._seqs[-1] if self._seqs else 0
        if not append.follows(self._count, seq):
            require_follows(append, count=self._count, seq=seq, store=_URL)
        size_bytes = self._size_bytes + sum(map(len, append.records))
        kept_bytes = size_bytes - self._removed_bytes
        if kept_bytes > self._log_bytes_max:
            raise StoreError(
                f"the log in memory is full: limit 'log_bytes_max' allows {self._log_bytes_max} "
                f"bytes, with this append it would be {kept_bytes}; raise the limit, or keep the "
                "log in a file: store='sqlite:///world.db'",
                store=_URL,
                seq=append.seq_before,
            )
        self._firsts.append(append.first_record)
        self._seqs.append(append.seq)
        self._appends.append(tuple(append.records))
        self._count += len(append.records)
        self._size_bytes = size_bytes

    def read(self, from_record: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield `(ordinal, record)` pairs in order, from ordinal `from_record` on.

        Records appended meanwhile are included.
        """
        record = max(from_record, self._start.record)
        while record < self._count:
            place = max(0, bisect_right(self._firsts, record) - 1)
            first, records = self._firsts[place], self._appends[place]
            if record < first:
                raise overtaken(_URL, record, LogStart(first, self._start.seq))
            for data in records[record - first :]:
                yield record, data
                record += 1

    def find_seq(self, seq: int) -> int:
        """Return the ordinal of the first record of the append that reached a seq. O(log n).

        `count()` if no append has reached it.
        """
        place = bisect_left(self._seqs, seq)
        return self._firsts[place] if place < len(self._firsts) else self._count

    def start(self) -> LogStart:
        """Return the position of the log's first record."""
        return self._start

    def compact(self, before_record: int, epoch: int, *, appends_max: int) -> bool:
        """Remove at most `appends_max` of the oldest appends before a record; keep the last.

        Returns:
            Whether more appends could be removed.

        Raises:
            StoreError: The log is closed, an append has failed, or `epoch` is not the latest.
        """
        self._require_writer(epoch)
        place = max(0, bisect_right(self._firsts, before_record) - 1)
        cut = min(place, appends_max)
        if cut:
            self._removed_bytes += sum(len(data) for kept in self._appends[:cut] for data in kept)
            self._start = LogStart(self._firsts[cut], self._seqs[cut - 1])
            del self._appends[:cut], self._firsts[:cut], self._seqs[:cut]
        return cut < place

    def count(self) -> int:
        """Return the number of records ever appended, compacted ones included."""
        return self._count

    def size_bytes(self) -> int:
        """Return the bytes of all records ever appended."""
        return self._size_bytes

    def close(self) -> None:
        """Accept no more appends. Records can still be read."""
        self._is_open = False
