"""A log in PostgreSQL, for worlds that outlive the machine they run on.

One row is one append, and one append is one statement in one round trip. Who may write is settled
twice: by a lock that lasts as long as its session is alive (`fence.py`), and by the epoch
that is checked inside the statement that appends. A connection that is lost in a commit leaves a
question that only the log can answer: nothing is sent again, the world stops, and recovery reads.

Each reader has its own session, runs one statement at a time, and takes no lock.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from select import select
from typing import Final
from weakref import finalize

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

from placet.schemas.errors import StoreError
from placet.schemas.log.record import LogAppend
from placet.stores.append_rules import (
    require_epoch,
    require_follows,
)
from placet.stores.log_tables import TableEventLog
from placet.stores.postgres.address import PostgresAddress
from placet.stores.postgres.errors import is_lost, postgres_faults
from placet.stores.postgres.fence import PostgresFence, connect
from placet.stores.postgres.layout import PostgresTables
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


class PostgresEventLog(TableEventLog):
    """An `EventLog` in PostgreSQL; a handle whose `open` was not called is a reader.

    Args:
        address: Address of the log.

    Attributes:
        durability: `full` is as durable as a commit of the server, and waits for synchronous
            standbys if there are any; `local` does not wait for them; `off` may lose the last half
            second when the server loses power, but never the order of the rest. Also `off` if the
            server itself runs with `fsync` off.
        url: URL of the log, without a password.
        address: Address of the log.
        fence: The exclusive right to write the log.
    """

    def __init__(self, address: PostgresAddress) -> None:
        super().__init__(address.url, DURABILITY_OF[address.synchronous_commit])
        self.address = address
        self.fence = PostgresFence(address)
        self._tables: PostgresTables = PostgresTables(address.schema, address.url)
        self._idle: list[Connection[TupleRow]] = []
        """Sessions of readers that run no statement; at most one."""
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

    def read(self, from_record: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield `(ordinal, record)` pairs in order, from ordinal `from_record` on.

        Records appended meanwhile are included.

        Of a compacted log, the remaining records are returned, and a reader before the cut gets an
        error. Holds one page in memory (a megabyte or one append), and no lock between two
        records.

        Raises:
            StoreError: The server cannot be reached, there is no such world, or a row is damaged;
                the message names the record from which on nothing can be trusted.
        """
        with self._reading() as connection:
            start = self._tables.start_of(connection)
            place = max(start.record, self._tables.holder_of_record(connection, from_record))
        yield from read_rows(self._page, place, self.start, from_record, self.url)

    def _acquire(self, *, take_over: bool) -> tuple[int, Tail]:
        connection = self.fence.take(take_over=take_over)
        try:
            with postgres_faults("open", self.url), connection.transaction():
                self._tables.make(connection)
                row = connection.execute(self._tables.raise_epoch).fetchone()
                assert row is not None, "meta has one row"
                if connection.execute("SHOW fsync").fetchone() == ("off",):
                    self.durability = "off"
                return row[0], self._tables.tail_of(connection)
        except BaseException:
            self.fence.release()
            raise

    def _release(self) -> None:
        self.fence.release()
        _close_all(self._idle)

    def _write_check(self, epoch: int) -> None:
        with self._writing("write", epoch) as connection:
            done = connection.execute(self._tables.rewrite_epoch, (epoch,))
        if done.rowcount != 1:
            self._require_unfenced(epoch)

    def _remove(self, before_record: int, epoch: int, appends_max: int) -> bool:
        """Compact. The server's vacuum makes the space available to later rows."""
        doing = f"compact before record {before_record} of"
        with self._writing(doing, epoch) as connection, connection.transaction():
            connection.execute(self._tables.lock_epoch)
            require_epoch(epoch, latest=self._tables.epoch_of(connection), store=self.url)
            return self._tables.remove_appends(connection, before_record, appends_max)

    def _write(self, append: LogAppend, epoch: int) -> Tail:
        first, before = append.first_record, append.seq_before
        if not append.follows(self._tail.record_count, self._tail.seq):
            self._refuse(append, epoch)
        row, tail = row_of(append, self._tail)
        tables = self._tables
        statement = tables.append_and_tell if self.fence.is_followed else tables.append
        values = (*row, epoch, first, before, first, before)
        with self._writing(f"append record {first} to", epoch) as connection:
            done = connection.execute(statement, values, prepare=True)
        if done.rowcount != 1:
            self._refuse(append, epoch)
        return tail

    def _refuse(self, append: LogAppend, epoch: int) -> None:
        """Raise the reason why an append was not taken.

        Raises:
            StoreError: Always: the writer is fenced, or the append does not follow.
        """
        with postgres_faults(f"append record {append.first_record} to", self.url):
            latest = self._tables.epoch_of(self._session)
            tail = self._tables.tail_of(self._session)
        require_epoch(epoch, latest=latest, store=self.url)
        require_follows(append, count=tail.record_count, seq=tail.seq, store=self.url)
        raise damaged(self.url, append.first_record, "is not where the epoch says that it may be")

    @property
    def _session(self) -> Connection[TupleRow]:
        """The writer's session."""
        assert self.fence.connection is not None, "an open log holds its fence"
        return self.fence.connection

    @contextmanager
    def _writing(self, doing: str, epoch: int) -> Iterator[Connection[TupleRow]]:
        """Yield the writer's session; if it is lost, find out whether another writer ended it.

        Raises:
            StoreError: The server refused, was lost, or another writer has taken the fence.
        """
        try:
            with postgres_faults(doing, self.url):
                yield self._session
        except StoreError as error:
            if is_lost(error.__cause__):
                self._require_unfenced(epoch)
            raise

    def _require_unfenced(self, epoch: int) -> None:
        try:
            with connect(
                self.address, "look", connect_timeout=_DIAGNOSIS_SECONDS_MAX
            ) as connection:
                latest = self._tables.epoch_of(connection)
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
            self._tables.require_version(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _page(self, place: int) -> list[Row]:
        with self._reading(f"read on from record {place} of") as connection:
            return self._tables.page_of(connection, place)


def _close_all(connections: list[Connection[TupleRow]]) -> None:
    while connections:
        connections.pop().close()
