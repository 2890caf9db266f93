"""The rules of a log's writer, the same in every store that may block.

A handle is a reader until `open` returns an epoch. One lock orders the writes of a handle. The
first failure of a write ends the handle's right to write, because its outcome is unknown.

`MemoryEventLog` does not derive from this class: an append to memory takes less time than the lock
and the `with` block here.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from placet.schemas.errors import StoreError
from placet.schemas.log.record import LogAppend, LogStart
from placet.stores.append_rules import require_writer
from placet.stores.rows import Tail


class BaseEventLog(ABC):
    """An `EventLog` whose store implements seven methods; this class has the rules of a writer.

    A store implements `read`, `find_seq`, and these, which placet calls through this class:

    - `_acquire(*, take_over)` becomes the writer; returns the new epoch and the end of the log
    - `_write(group, epoch)` appends durably, all or nothing; returns the new end
    - `_write_check(epoch)` writes durably without a new record
    - `_read_tail()` reads the end of the log as a reader
    - `_release()` releases the right to write, files and sessions; it may be repeated

    It may override `start` and `_remove(before_record, epoch, appends_max)`, if it compacts. All
    raise `StoreError`, or `OSError`, which becomes one. A process may end in the middle of
    `_write`: the next `_acquire` and every reader ignore such a rest. The attributes `_lock`,
    `_epoch`, `_failure` and `_tail` (the end after the last append of a writer) and the methods
    `_end`, `_failed`, `_known_tail`, `_noting_failure` and `_require_writer` belong to this class:
    a store uses other names.

    `append` and `close` may be called from different threads; they wait for each other.

    Args:
        url: URL of the log, for messages.
        durability: How safe an acknowledged record is: `off`, `normal`, `local` or `full`.

    Attributes:
        durability: How safe an acknowledged record is.
        is_blocking: True.
        url: URL of the log.
    """

    def __init__(self, url: str, durability: str) -> None:
        self.durability = durability
        self.is_blocking = True
        self.url = url
        self._lock = Lock()
        self._epoch: int | None = None
        """The epoch that `open` returned last; None iff this handle is a reader."""
        self._failure: str | None = None
        """Message of a failed or unfinished write in `_epoch`; while it is set, nothing is
        appended."""
        self._tail = Tail()
        """The end of the log after the last append; valid only while `_epoch` is not None."""

    def open(self, *, take_over: bool = False) -> int:
        """Create the log if it does not exist, become its writer, and return the new epoch.

        Args:
            take_over: Become the writer even if another process writes the log at present.

        Raises:
            InUseError: Another process writes the log.
            StoreError: The store cannot be created or written, or is not a placet log of a version
                that this release knows.
        """
        with self._lock:
            if self._epoch is not None:
                self._end()
            try:
                epoch, self._tail = self._acquire(take_over=take_over)
            except OSError as error:
                raise self._failed("open", error) from error
            self._epoch, self._failure = epoch, None
            return epoch

    def append(self, append: LogAppend, epoch: int) -> None:
        """Write an append, completely or not at all; it is durable at the log's level on return.

        Raises:
            StoreError: The store refused or was lost, the append does not follow the last one,
                `epoch` is no longer the latest, or an append has failed before: nothing follows a
                failure, and nothing is written twice.
        """
        with self._lock:
            self._require_writer(epoch)
            with self._noting_failure(f"append record {append.first_record} to"):
                self._tail = self._write(append, epoch)

    def check_writable(self, epoch: int) -> None:
        """Check, by a durable write that changes no record, that an append could be appended now.

        Raises:
            StoreError: The store cannot be written, `epoch` is not the latest, or an append or a
                check has failed before.
        """
        with self._lock:
            self._require_writer(epoch)
            with self._noting_failure("write"):
                self._write_check(epoch)

    def compact(self, before_record: int, epoch: int, *, appends_max: int) -> bool:
        """Remove at most `appends_max` of the oldest appends before a record; keep the last.

        Returns:
            Whether more appends could be removed.

        Raises:
            StoreError: The store refused, `epoch` is not the latest, or an append has failed.
        """
        with self._lock:
            self._require_writer(epoch)
            return self._remove(before_record, epoch, appends_max)

    def count(self) -> int:
        """Return the number of records ever appended, compacted ones included.

        Raises:
            StoreError: The log cannot be read.
        """
        return self._known_tail().record_count

    def size_bytes(self) -> int:
        """Return the bytes of all records ever appended, without the store's overhead.

        Raises:
            StoreError: The log cannot be read.
        """
        return self._known_tail().size_bytes

    def close(self) -> None:
        """Release the right to write and the store; harmless if called twice.

        Raises:
            StoreError: The store failed; acknowledged records are in it.
        """
        with self._lock:
            self._end()

    @abstractmethod
    def read(self, from_record: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield `(ordinal, record)` pairs in order, from ordinal `from_record` on.

        Records appended meanwhile are included. Of a compacted log, the remaining records are
        returned, and a reader before the cut raises `overtaken`.

        Raises:
            StoreError: The store cannot be read or is damaged.
        """

    @abstractmethod
    def find_seq(self, seq: int) -> int:
        """Return the ordinal of the first record of the append that reached a seq.

        `count()` if no append has reached it.

        Raises:
            StoreError: The store cannot be read or is damaged.
        """

    def start(self) -> LogStart:
        """Return the position of the log's first record; of a log that is compacted, override it.

        Raises:
            StoreError: The store cannot be read or is damaged.
        """
        return LogStart()

    @abstractmethod
    def _acquire(self, *, take_over: bool) -> tuple[int, Tail]:
        """Become the writer; return the new epoch and the end of the log.

        This handle holds no right to write: `open` calls `_release` before, if it did.

        Raises:
            InUseError: Another process writes the log, and `take_over` is false.
        """

    @abstractmethod
    def _release(self) -> None:
        """Release the right to write, and close files or sessions; may be repeated."""

    @abstractmethod
    def _write(self, append: LogAppend, epoch: int) -> Tail:
        """Write an append durably and return the new end of the log.

        In one atomic step with the write, call `require_epoch` with the latest epoch in the store,
        and `require_follows` with the end of the log in the store.
        """

    @abstractmethod
    def _write_check(self, epoch: int) -> None:
        """Write durably without a change of a record, after `require_epoch` in the same step."""

    @abstractmethod
    def _read_tail(self) -> Tail:
        """Read the end of the log as a reader."""

    def _remove(self, before_record: int, epoch: int, appends_max: int) -> bool:  # none
        """Compact; a store that keeps every record removes none."""
        return False

    def _require_writer(self, epoch: int) -> None:
        require_writer(epoch, held=self._epoch, failure=self._failure, store=self.url)

    def _known_tail(self) -> Tail:
        return self._read_tail() if self._epoch is None else self._tail

    def _end(self) -> None:
        self._epoch = None
        self._release()

    @contextmanager
    def _noting_failure(self, doing: str) -> Iterator[None]:
        # Failed until proven durable: an interrupt may leave a half of the write.
        self._failure = "a write was interrupted"
        try:
            yield
        except (StoreError, OSError) as error:
            failure = error if isinstance(error, StoreError) else self._failed(doing, error)
            self._failure = str(failure)
            raise failure from error.__cause__ or error
        self._failure = None

    def _failed(self, doing: str, error: OSError) -> StoreError:
        return StoreError(f"cannot {doing} {self.url}: {error}", store=self.url)
