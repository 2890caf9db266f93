"""A log in PostgreSQL, for worlds that outlive the machine they run on.

One row is one group, and one group is one statement in one round trip. Who may write is settled
twice: by a lock that lasts as long as its session is alive (`fence.py`), and by the epoch
that is checked inside the statement that appends. A connection that is lost in a commit leaves a
question that only the log can answer: nothing is sent again, the world stops, and recovery reads.

Each reader has its own session, runs one statement at a time, and takes no lock.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from select import select
from threading import Lock
from typing import Final
from weakref import finalize

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

from placet.schemas.errors import StoreError
from placet.schemas.log.record import LogGroup, LogStart
from placet.stores.append_rules import (
    require_epoch,
    require_follows,
    require_writer,
)
from placet.stores.postgres.address import PostgresAddress
from placet.stores.postgres.errors import is_lost, postgres_faults
from placet.stores.postgres.fence import PostgresFence, connect
from placet.stores.postgres.layout import Layout
from placet.stores.postgres.notify import PostgresChangeFeed
from placet.stores.postgres.snapshots import SnapshotRows
from placet.stores.rows import Row, Tail, damaged, read_rows, row_of

DURABILITY_OF: Final = {
    "on": "full",
    "remote_apply": "full",
    "remote_write": "full",
    "local": "local",
    "off": "off",
}
"""What an acknowledgement is worth, by the server's `synchronous_commit`."""

_DIAGNOSIS_SECONDS_MAX: Final = 2


class PostgresEventLog:
    """An `EventLog` in PostgreSQL; a handle whose `open` was not called is a reader.

    `append` and `close` may be called from different threads; they wait for each other.

    Args:
        address: Address of the log.

    Attributes:
        durability: `full` is as durable as a commit of the server, and waits for synchronous
            standbys if there are any; `local` does not wait for them; `off` may lose the last half
            second when the server loses power, but never the order of the rest. Also `off` if the
            server itself runs with `fsync` off.
        is_blocking: True.
        url: Where the log is, without a password.
        address: Address of the log.
        fence: The exclusive right to write the log.
    """

    def __init__(self, address: PostgresAddress) -> None:
        self.durability = DURABILITY_OF[address.synchronous_commit]
        self.is_blocking = True
        self.url = address.url
        self.address = address
        self.fence = PostgresFence(address)
        self._layout = Layout(address.schema, address.url)
        self._lock = Lock()
        self._epoch: int | None = None
        self._failure: str | None = None
        self._tail = Tail()
        self._idle: list[Connection[TupleRow]] = []
        finalize(self, _close_all, self._idle)

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that another process needs besides `url` to open the log."""
        return self.address.environment

    @property
    def snapshots(self) -> SnapshotRows:
        """The snapshots of the log, in a table beside it."""
        return SnapshotRows(self.address)

    def subscribe(self) -> PostgresChangeFeed:
        """Subscribe to notifications of appends.

        Raises:
            StoreError: The server cannot be reached.
        """
        return PostgresChangeFeed(self.address)

    def open(self, *, take_over: bool = False) -> int:
        """Create missing tables, become the writer, and return the new epoch.

        Waits for the lease of a writer that has died.

        Args:
            take_over: End the session of a writer that is alive, which releases its fence.

        Raises:
            InUseError: Another writer is alive.
            StoreError: The server cannot be reached or written, or the
                schema is not a placet log of a version that this release knows.
        """
        with self._lock:
            if self._epoch is not None:
                self._release()
            connection = self.fence.take(take_over=take_over)
            try:
                with postgres_faults("open", self.url), connection.transaction():
                    self._layout.make(connection)
                    row = connection.execute(self._layout.raise_epoch).fetchone()
                    assert row is not None, "meta has one row"
                    epoch: int = row[0]
                    self._tail = self._layout.tail_of(connection)
                    if connection.execute("SHOW fsync").fetchone() == ("off",):
                        self.durability = "off"
            except BaseException:
                self.fence.release()
                raise
            self._epoch, self._failure = epoch, None
            return epoch

    def append(self, group: LogGroup, epoch: int) -> None:
        """Append a group, completely or not at all; it is durable at the log's level on return.

        Raises:
            StoreError: The server refused or was lost, the group does not follow the last one,
                `epoch` is no longer the latest, or an append has failed before: nothing follows a
                failure, and nothing is sent twice.
        """
        with self._lock:
            connection = self._writer(epoch)
            with self._noting_failure():
                self._tail = self._write(connection, group, epoch)

    def check_writable(self, epoch: int) -> None:
        """Check, by a durable write that changes no record, that a group could be appended now.

        Raises:
            StoreError: The store cannot be written, `epoch` is not the latest, or an append or a
                check has failed before.
        """
        with self._lock:
            connection = self._writer(epoch)
            with self._noting_failure():
                with self._writing("write", epoch):
                    done = connection.execute(self._layout.rewrite_epoch, (epoch,))
                if done.rowcount != 1:
                    self._require_unfenced(epoch)

    def read(self, from_record: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield `(ordinal, record)` pairs in order, from ordinal `from_record` on.

        Records appended meanwhile are included.

        Of a compacted log, the remaining records are returned, and a reader before the cut gets an
        error. Holds one page of groups in memory (a megabyte or one group), and no lock between two
        records.

        Raises:
            StoreError: The server cannot be reached, there is no such world, or a row is damaged;
                the message names the record from which on nothing can be trusted.
        """
        layout = self._layout
        with self._reading() as connection:
            start = layout.start_of(connection)
            place = max(start.record, layout.holder_of_record(connection, from_record))
        yield from read_rows(self._page, place, self.start, from_record, self.url)

    def find_seq(self, seq: int) -> int:
        """Return the ordinal of the first record of the group that reached a seq. O(log n).

        `count()` if no group has reached it.

        Raises:
            StoreError: The log cannot be read.
        """
        with self._reading() as connection:
            row = connection.execute(self._layout.reached_seq, (seq,)).fetchone()
            return row[0] if row else self._layout.tail_of(connection).record_count

    def start(self) -> LogStart:
        """Return the position of the log's first record. O(log n).

        Raises:
            StoreError: The log cannot be read, or a group is lost at its front.
        """
        with self._reading() as connection:
            return self._layout.start_of(connection)

    def compact(self, before_record: int, epoch: int, *, groups_max: int) -> bool:
        """Remove the oldest groups, at most `groups_max`, that lie before a record; keep the last.

        The server's vacuum makes the space available to later rows.

        Returns:
            Whether more groups could be removed.

        Raises:
            StoreError: The server refused, `epoch` is not the latest, or an append has failed.
        """
        with self._lock:
            connection = self._writer(epoch)
            doing = f"compact before record {before_record} of"
            with self._writing(doing, epoch), connection.transaction():
                connection.execute(self._layout.lock_epoch)
                require_epoch(epoch, latest=self._layout.epoch_of(connection), store=self.url)
                return self._layout.remove_groups(connection, before_record, groups_max)

    def count(self) -> int:
        """Return the number of records ever appended, compacted ones included.

        Raises:
            StoreError: The log cannot be read.
        """
        return self._known_tail().record_count

    def size_bytes(self) -> int:
        """Return the bytes of all records ever appended, without the server's overhead.

        Raises:
            StoreError: The log cannot be read.
        """
        return self._known_tail().size_bytes

    def close(self) -> None:
        """Release the right to write, and close every session."""
        with self._lock:
            self._release()
            _close_all(self._idle)

    def _release(self) -> None:
        self._epoch = None
        self.fence.release()

    def _writer(self, epoch: int) -> Connection[TupleRow]:
        require_writer(epoch, held=self._epoch, failure=self._failure, store=self.url)
        connection = self.fence.connection
        assert connection is not None, "an open log holds its fence"
        return connection

    @contextmanager
    def _noting_failure(self) -> Iterator[None]:
        """Note a failure of the block, after which this handle writes nothing more."""
        # Failed until proven durable: so is what an interrupt leaves half done.
        self._failure = "a write was interrupted"
        try:
            yield
        except StoreError as error:
            self._failure = str(error)
            raise
        self._failure = None

    def _write(self, connection: Connection[TupleRow], group: LogGroup, epoch: int) -> Tail:
        first, before = group.first_record, group.seq_before
        if not group.follows(self._tail.record_count, self._tail.seq):
            self._refuse(connection, group, epoch)
        row, tail = row_of(group, self._tail)
        layout = self._layout
        statement = layout.append_and_tell if self.fence.is_followed else layout.append
        values = (*row, epoch, first, before, first, before)
        with self._writing(f"append record {first} to", epoch):
            done = connection.execute(statement, values, prepare=True)
        if done.rowcount != 1:
            self._refuse(connection, group, epoch)
        return tail

    def _refuse(self, connection: Connection[TupleRow], group: LogGroup, epoch: int) -> None:
        """Return why a group was not taken.

        Raises:
            StoreError: Always: the writer is fenced, or the group does not follow.
        """
        with postgres_faults(f"append record {group.first_record} to", self.url):
            latest = self._layout.epoch_of(connection)
            tail = self._layout.tail_of(connection)
        require_epoch(epoch, latest=latest, store=self.url)
        require_follows(group, count=tail.record_count, seq=tail.seq, store=self.url)
        raise damaged(self.url, group.first_record, "is not where the epoch says that it may be")

    @contextmanager
    def _writing(self, doing: str, epoch: int) -> Iterator[None]:
        """Return what went wrong in the block; of a session that was lost, also whether to another.

        Raises:
            StoreError: The server refused, was lost, or another writer has taken the fence.
        """
        try:
            with postgres_faults(doing, self.url):
                yield
        except StoreError as error:
            if is_lost(error.__cause__):
                self._require_unfenced(epoch)
            raise

    def _require_unfenced(self, epoch: int) -> None:
        try:
            with connect(
                self.address, "look", connect_timeout=_DIAGNOSIS_SECONDS_MAX
            ) as connection:
                latest = self._layout.epoch_of(connection)
        except (StoreError, psycopg.Error):
            return  # the first error is the one that matters
        require_epoch(epoch, latest=latest, store=self.url)

    @contextmanager
    def _reading(self, doing: str = "read") -> Iterator[Connection[TupleRow]]:
        """Lend a session for a few statements; one that is idle is kept for the next."""
        with postgres_faults(doing, self.url):
            connection = self._borrowed()
            try:
                yield connection
            except BaseException:
                connection.close()
                raise
        if self._idle:
            connection.close()
        else:
            self._idle.append(connection)

    def _borrowed(self) -> Connection[TupleRow]:
        """Take a session that is idle, if the server has not closed it, or open one."""
        while self._idle:
            idle = self._idle.pop()
            # A session that was asked nothing has nothing to say, but that it is over.
            if not select([idle.fileno()], [], [], 0)[0]:
                return idle
            idle.close()
        connection = connect(self.address, "reader")
        try:
            self._layout.require_version(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _known_tail(self) -> Tail:
        if self._epoch is not None:
            return self._tail
        with self._reading() as connection:
            return self._layout.tail_of(connection)

    def _page(self, place: int) -> list[Row]:
        with self._reading(f"read on from record {place} of") as connection:
            return self._layout.page_of(connection, place)


def _close_all(connections: list[Connection[TupleRow]]) -> None:
    while connections:
        connections.pop().close()
