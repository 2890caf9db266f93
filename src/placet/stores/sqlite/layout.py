"""How a log lies in a SQLite file: the tables, one row for an append, and whose file it is.

Nothing read from the file is trusted. The chain of hashes (`schemas/log/record.py`) binds every
record but the last, so each row carries a checksum over all of itself, the end of the log is asked
of the table and of the index, and the tables must be declared as they were made: a flipped bit in a
declaration would otherwise turn a long log into an empty one. Where a compacted log begins is
written down too, so that a lost append at the front differs from a removed one.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Final

from placet.schemas.errors import StoreError
from placet.schemas.log.record import LogAppend
from placet.stores.log_tables import PAGE_APPENDS, PAGE_BYTES, Connection, LogTables
from placet.stores.rows import Row, Tail, damaged, records_of, row_of

LAYOUT_VERSION: Final = 2
APPLICATION_ID: Final = int.from_bytes(b"plac", "big")
"""In the file's header, so that we never write into somebody else's database."""

CHECKS_MAX: Final = 2**31
"""The file's header counts the checks of `write_check`, modulo this."""

_META: Final = """\
CREATE TABLE meta (
    layout_version INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    first_record INTEGER NOT NULL  -- of the oldest group; what came before it was compacted
)"""
_GROUPS: Final = """\
CREATE TABLE groups (
    first_record INTEGER PRIMARY KEY,
    count INTEGER NOT NULL,
    seq_before INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    log_bytes INTEGER NOT NULL,  -- up to and with this group: never summed over a long log
    crc32 INTEGER NOT NULL,
    blob BLOB NOT NULL  -- a msgpack array of the records, each a byte string
)"""
_GROUPS_BY_SEQ: Final = "CREATE INDEX groups_by_seq ON groups (seq)"
_SCHEMA: Final = (
    _META,
    _GROUPS,
    _GROUPS_BY_SEQ,
    f"INSERT INTO meta VALUES ({LAYOUT_VERSION}, 0, 0)",
    f"PRAGMA application_id = {APPLICATION_ID}",
)
_INSERT: Final = "INSERT INTO groups VALUES (?, ?, ?, ?, ?, ?, ?)"
_PAGE: Final = (
    "SELECT first_record, count, seq_before, seq, log_bytes, crc32, blob FROM groups"
    " WHERE first_record >= ? ORDER BY first_record LIMIT ?"
)
# One statement, so that both halves see the same moment.
_TWO_ENDS: Final = """\
    SELECT
        (SELECT max(first_record) FROM groups NOT INDEXED),
        (SELECT first_record FROM groups INDEXED BY groups_by_seq
         ORDER BY seq DESC, first_record DESC LIMIT 1)"""
# Likewise: another process may make the tables between two statements.
_OWNER: Final = """\
    SELECT (SELECT application_id FROM pragma_application_id),
           (SELECT count(*) FROM sqlite_master)"""


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Run a `with` block as a write transaction of the file: commit, or roll back if it raises."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # SQLite rolls back by itself after some errors; the first error is the one that matters.
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def create_file(connection: sqlite3.Connection) -> None:
    """Write the tables of an empty log into an empty draft, which the caller makes durable."""
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute("PRAGMA synchronous = OFF")
    with transaction(connection):
        create_tables(connection)


def create_tables(connection: sqlite3.Connection) -> None:
    """Create the tables of an empty log; call it inside a transaction."""
    for statement in _SCHEMA:
        connection.execute(statement)


def write_check(connection: sqlite3.Connection) -> None:
    """Write to the file without changing a row, as a check; call it inside a transaction.

    It changes the file's header. Setting a row to its present value would not be a check, because
    SQLite does not write an unchanged page.
    """
    (count,) = connection.execute("PRAGMA user_version").fetchone()
    connection.execute(f"PRAGMA user_version = {(count + 1) % CHECKS_MAX}")


class SqliteTables(LogTables):
    """The tables of one log in a SQLite file.

    Args:
        store: URL of the log, for messages.
    """

    def __init__(self, store: str) -> None:
        super().__init__(store, schema="main", mark="?", home="file")

    def is_placet_log(self, connection: sqlite3.Connection) -> bool:
        """Return whether a database is a placet log; False if it is empty.

        Raises:
            StoreError: The file belongs to another program.
        """
        mark, table_count = connection.execute(_OWNER).fetchone()
        if mark == APPLICATION_ID and table_count:
            return True
        if mark or table_count:
            raise self._foreign("a SQLite database of another program")
        return False

    def require_layout(self, connection: sqlite3.Connection) -> None:
        """Raise if this release cannot read the file; else do nothing.

        Raises:
            StoreError: The file is of another version, or damaged.
        """
        declared = {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master")}
        if not any(
            isinstance(sql, str) and sql.startswith("CREATE TABLE meta (") for sql in declared
        ):
            raise self._foreign("a file without the table that names its version")
        row = connection.execute("SELECT * FROM meta").fetchone()
        version = row[0] if row else None
        self.require_version_is(version, LAYOUT_VERSION)
        if declared != {_META, _GROUPS, _GROUPS_BY_SEQ}:
            raise StoreError(
                f"{self.store} is damaged: its tables are not declared as they were made; "
                "restore the file from a copy",
                store=self.store,
            )

    def take_epoch(self, connection: sqlite3.Connection) -> int:
        """Increment the epoch and return it; call it inside a transaction."""
        connection.execute("UPDATE meta SET epoch = epoch + 1")
        return self.epoch_of(connection)

    def insert_append(self, connection: sqlite3.Connection, append: LogAppend, tail: Tail) -> Tail:
        """Insert an append's row at `tail` in a transaction, and return the new tail."""
        row, tail = row_of(append, tail)
        connection.execute(_INSERT, row)
        return tail

    def first_at_seq(self, connection: Connection, seq: int) -> int | None:
        """Return the first record of the first append that reached a seq; None if none has.

        O(log n).

        Raises:
            StoreError: The index and the table contradict each other.
        """
        place = super().first_at_seq(connection, seq)
        if place is None:
            self._require_end(connection)
            return None
        for append in self._rows(connection, place, appends_max=1):
            records_of(append, place, self.store)
            _, _, seq_before, reached_seq, *_ = append
            if reached_seq >= seq and (
                seq_before < seq or place == self.start_of(connection).record
            ):
                return place
        raise damaged(self.store, place, "is not where the index has it")

    def read_page(self, connection: sqlite3.Connection, place: int) -> list[Row]:
        """Return rows of appends from record `place` on, up to `PAGE_APPENDS` or `PAGE_BYTES`.

        Returns:
            Rows in order; none at the end of the log.

        Raises:
            StoreError: An append is lost: the index has a later end than the table.
        """
        rows = self._rows(connection, place)
        if rows or self._require_end(connection) < place:
            return rows
        rows = self._rows(connection, place)  # the writer has appended in between
        if not rows:
            raise damaged(self.store, place, "cannot be found")
        return rows

    def _require_end(self, connection: Connection) -> int:
        """Return the first record of the last append, -1 in an empty log. O(log n).

        Raises:
            StoreError: The table and the index contradict each other: an append is lost.
        """
        by_table, by_index = connection.execute(_TWO_ENDS).fetchone()
        if by_table != by_index:
            raise StoreError(
                f"{self.store} is damaged: the last append begins at record "
                f"{by_table} by its table and at {by_index} by its index; restore it from a copy",
                store=self.store,
            )
        return -1 if by_table is None else by_table

    def _rows(
        self, connection: Connection, place: int, *, appends_max: int = PAGE_APPENDS
    ) -> list[Row]:
        rows: list[Row] = []
        size_bytes = 0
        # Closing the cursor ends the read transaction: a slow caller holds nothing.
        with closing(connection.execute(_PAGE, (place, appends_max))) as cursor:
            for row in cursor:
                rows.append(row)
                size_bytes += len(row[-1]) if isinstance(row[-1], bytes) else 0
                if size_bytes >= PAGE_BYTES:
                    break
        return rows

    def _foreign(self, came: str) -> StoreError:
        """Build the error for a file that is not a placet log; `came` describes its content."""
        message = f"cannot use {self.store}: expected a placet log, got {came}; give another path"
        return StoreError(message, store=self.store)
