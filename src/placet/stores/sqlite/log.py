"""A log in one SQLite file: the embedded default.

One row is one append, because a durable commit costs the same whatever its size. The fence and the
end of the log are checked inside the transaction that appends, so a writer that was paused for an
hour cannot insert an append. Readers have separate connections, and hold no lock between two
records. They never create or change a file, except for SQLite's recovery after a process was
killed while it opened, closed or shrank the log.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final
from weakref import finalize

from placet.schemas.errors import StoreError
from placet.schemas.log.record import LogAppend
from placet.stores.append_rules import NoWorldError, in_use, require_epoch, require_follows
from placet.stores.files import behind_link, quoted, whole_file
from placet.stores.log_tables import TableEventLog
from placet.stores.rows import Row, Tail, read_rows
from placet.stores.sqlite.errors import sqlite_faults
from placet.stores.sqlite.file import connect_bare, is_bare, leave_wal
from placet.stores.sqlite.heartbeat import Heartbeat, Writer
from placet.stores.sqlite.layout import (
    SqliteTables,
    create_file,
    create_tables,
    transaction,
    write_check,
)
from placet.stores.sqlite.wal import damage_of

SYNCHRONOUS_LEVELS: Final = ("full", "normal", "off")
LOCK_SECONDS_MAX: Final = 5.0


class SqliteEventLog(TableEventLog):
    """An `EventLog` in a SQLite file; a handle whose `open` was not called is a reader.

    Attributes:
        durability: `full` survives a power loss; `normal` survives a crash of the process, and may
            lose the last appends with the power; `off` leaves even their order to the system.
        file: Absolute path of the file, with links resolved when the handle was created.
    """

    def __init__(self, path: str | Path, *, synchronous: str = "full") -> None:
        level = synchronous.lower()
        super().__init__(f"sqlite:///{quoted(path)}", level)
        if level not in SYNCHRONOUS_LEVELS:
            raise StoreError(
                f"cannot use {self.url}: synchronous must be one of "
                f"{', '.join(SYNCHRONOUS_LEVELS)}, got {synchronous!r}",
                store=self.url,
            )
        if level != SYNCHRONOUS_LEVELS[0]:
            self.url += f"?synchronous={level}"
        self._path = Path(path).absolute()
        self.file = behind_link(self._path)
        self._tables: SqliteTables = SqliteTables(self.url)
        self._connection: sqlite3.Connection | None = None
        """The writer's connection; None iff `_epoch` is None."""
        self._is_wal_sound = False
        """True once this handle has checked the `-wal` file; a live writer keeps it sound."""
        self._heartbeat = Heartbeat(self.file)
        finalize(self, self._heartbeat.end)  # a handle that is dropped writes nothing more

    @property
    def lasting_url(self) -> str:
        """URL of the log with the absolute path of its file, for another process."""
        _, mark, options = self.url.partition("?")
        return f"sqlite:///{quoted(self.file)}{mark}{options}"

    def begin(self, append: LogAppend, epoch: int) -> None:
        """Write the first append of a log that starts at a later record than 0.

        The earlier records are in a snapshot.

        Raises:
            StoreError: As for `append`, or the log is not empty.
        """
        with self._lock:
            self._require_writer(epoch)
            doing = f"begin at record {append.first_record}"
            with self._transaction(doing, epoch) as connection:
                empty = self._tables.tail_of(connection)
                require_follows(
                    append._replace(first_record=0, seq_before=0),
                    count=empty.record_count,
                    seq=empty.seq,
                    store=self.url,
                )
                self._tables.begin_at(connection, append.first_record)
                start = Tail(append.first_record, append.seq_before, 0)
                self._tail = self._tables.insert_append(connection, append, start)

    def read(self, from_record: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield `(ordinal, record)` pairs in order, from ordinal `from_record` on.

        Records appended meanwhile are included.

        Of a compacted log, the remaining records are returned, and a reader before the cut gets an
        error. Holds one page in memory (a megabyte or one append), and no lock between two
        records.

        Raises:
            StoreError: The file is missing, cannot be read, or is damaged; the message names the
                record from which on nothing can be trusted.
        """
        # One connection for all pages: to open a file costs more than to read a page of it.
        with closing(self._connect_reader()) as connection:
            with sqlite_faults("read", self.url):
                start = self._tables.start_of(connection)
                place = max(start.record, self._tables.holder_of_record(connection, from_record))
            page = partial(self._page, connection)
            yield from read_rows(page, place, self.start, from_record, self.url)

    def _acquire(self, *, take_over: bool) -> tuple[int, Tail]:
        with sqlite_faults("open", self.url):
            self._require_place()
            dead = None if take_over else self._require_no_writer()
            if not self.file.exists():
                self._create()
            connection = self._connect("rw")
            try:
                held = self._take_fence(connection, dead, take_over)
            except BaseException:
                self._heartbeat.end()
                connection.close()
                raise
        self._connection = connection
        return held

    def _release(self) -> None:
        connection, self._connection = self._connection, None
        self._heartbeat.end()
        if connection is None:
            return
        with closing(connection), sqlite_faults("close", self.url):
            if self._failure is None:
                leave_wal(connection)

    def _write(self, append: LogAppend, epoch: int) -> Tail:
        doing = f"append record {append.first_record} to"
        with self._ending_heartbeat(), self._transaction(doing, epoch) as connection:
            tail = self._tables.tail_of(connection)
            require_follows(append, count=tail.record_count, seq=tail.seq, store=self.url)
            return self._tables.insert_append(connection, append, tail)

    def _write_check(self, epoch: int) -> None:
        with self._ending_heartbeat(), self._transaction("write", epoch) as connection:
            write_check(connection)

    def _remove(self, before_record: int, epoch: int, appends_max: int) -> bool:
        """Compact. The file does not shrink, later rows take the space; `vacuum` shrinks it."""
        doing = f"compact before record {before_record} of"
        with self._transaction(doing, epoch) as connection:
            return self._tables.remove_appends(connection, before_record, appends_max)

    @contextmanager
    def _transaction(self, doing: str, epoch: int) -> Iterator[sqlite3.Connection]:
        """Run a block as a transaction of the latest writer."""
        assert self._connection is not None, "require_writer refuses a closed log"
        with sqlite_faults(doing, self.url), transaction(self._connection):
            require_epoch(epoch, latest=self._tables.epoch_of(self._connection), store=self.url)
            yield self._connection

    @contextmanager
    def _ending_heartbeat(self) -> Iterator[None]:
        """End the heartbeat if the block fails: this handle writes nothing more."""
        try:
            yield
        except StoreError:
            self._heartbeat.end()
            raise

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with closing(self._connect_reader()) as connection, sqlite_faults("read", self.url):
            yield connection

    def _require_place(self) -> None:
        """Return what SQLite would only call "unable to open database file"."""
        problem = None
        if self.file.is_dir():
            problem = f"{self.file} is a directory; give the path of a file in it"
        elif not self.file.parent.is_dir():
            problem = f"there is no directory {self.file.parent}; make it first"
        elif self.file.exists() and not self.file.is_file():
            problem = self._no_file()
        if problem:
            raise StoreError(f"cannot open {self.url}: {problem}", store=self.url)

    def _create(self) -> None:
        """Make the file of an empty log: with all its tables, or not at all.

        Raises:
            StoreError: A link has the name, or files of a log that is gone are beside it.
        """
        problem = None
        if self._path.is_symlink():
            problem = f"{self._path} is a link to {self.file}, which is not there; remove the link"
        elif self._beside("-wal").exists() and not self.file.exists():  # and no writer made it now
            wal = self._beside("-wal")
            problem = f"{wal} is of a log that is gone; restore the log, or remove the file"
        if problem:
            raise StoreError(f"cannot make {self.url}: {problem}", store=self.url)
        is_lasting = self.durability != SYNCHRONOUS_LEVELS[-1]
        with (
            suppress(FileExistsError),  # another process made it meanwhile; the fence decides
            whole_file(self.file, is_new=True, is_lasting=is_lasting) as draft,
            closing(sqlite3.connect(draft, isolation_level=None)) as connection,
        ):
            create_file(connection)

    def _no_file(self) -> str:
        if self.file.exists():
            return f"{self.file} is no regular file; give the path of a log"
        return (
            f"there is no file {self.file}; check the path, or make a log with `placet run --store`"
        )

    def _beside(self, suffix: str) -> Path:
        return self.file.with_name(f"{self.file.name}{suffix}")

    def _connect(self, mode: str) -> sqlite3.Connection:
        if mode != "ro" or not self._is_wal_sound:
            self._require_sound_wal()
        if mode == "ro" and is_bare(self.file):
            return connect_bare(self.file)
        if mode == "ro" and self._beside("-journal").exists():
            mode = "rw"  # SQLite rolls an unfinished transaction back first
        return sqlite3.connect(
            f"{self.file.as_uri()}?mode={mode}",
            uri=True,
            timeout=LOCK_SECONDS_MAX,
            isolation_level=None,  # transactions are spelled out
            check_same_thread=False,  # the committer's thread is not the one that opened; we lock
        )

    def _require_sound_wal(self) -> None:
        """Stop before SQLite discards the frames behind a damaged one; see `wal.py`."""
        is_full = self.durability == SYNCHRONOUS_LEVELS[0]
        damage = damage_of(self._beside("-wal")) if is_full else None
        if damage is not None:
            raise StoreError(
                f"{self.url} is damaged: byte {damage.offset} of its -wal file: {damage.what}. "
                "The appends from there on cannot be read; restore both files from a copy, or give "
                "those appends up by opening it with ?synchronous=normal",
                store=self.url,
            )
        self._is_wal_sound = True

    def _connect_reader(self) -> sqlite3.Connection:
        with sqlite_faults("read", self.url):
            if not self.file.is_file():
                kind = StoreError if self.file.exists() else NoWorldError
                raise kind(f"cannot read {self.url}: {self._no_file()}", store=self.url)
            connection = self._connect("ro")
            try:
                if not self._tables.is_placet_log(connection):
                    raise NoWorldError(
                        f"cannot read {self.url}: expected a placet log, got an empty file, which "
                        "a killed process may have left; open it for writing, or give another path",
                        store=self.url,
                    )
                self._tables.require_layout(connection)
            except BaseException:
                connection.close()
                raise
        return connection

    def _require_no_writer(self, dead: Writer | None = None) -> Writer | None:
        """Check that no live process writes the log; return the dead one that did, None if none.

        Args:
            dead: A writer that is known to be dead.

        Raises:
            InUseError: A live process writes the log.
        """
        writer = self._heartbeat.read()  # once: another process may begin to write meanwhile
        if writer is not None and writer != dead and self._heartbeat.is_alive(writer):
            raise in_use(self.url, str(writer), writer.since, is_own=writer.is_own)
        return writer

    def _take_fence(
        self, connection: sqlite3.Connection, dead: Writer | None, take_over: bool
    ) -> tuple[int, Tail]:
        # Before the first write, because the file may be another program's.
        self._tables.is_placet_log(connection)
        mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        if mode != "wal":
            message = f"cannot open {self.url}: expected a file system that supports SQLite's WAL"
            message += f", got journal mode {mode!r}; use a local disk"
            raise StoreError(message, store=self.url)
        connection.execute(f"PRAGMA synchronous = {self.durability}")
        with transaction(connection):
            if not self._tables.is_placet_log(connection):
                create_tables(connection)
            self._tables.require_layout(connection)
            if not take_over:
                self._require_no_writer(dead)  # of two that open at once, the second sees the first
            self._heartbeat.begin()
            return self._tables.take_epoch(connection), self._tables.tail_of(connection)

    def _page(self, connection: sqlite3.Connection, place: int) -> list[Row]:
        with sqlite_faults(f"read on from record {place} of", self.url):
            return self._tables.read_page(connection, place)
