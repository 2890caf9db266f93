"""How a log lies in a SQLite file: the tables, one row for a group, and whose file it is.

Nothing read from the file is trusted. The chain of hashes (`schemas/log/record.py`) binds every
record but the last, so each row carries a checksum over all of itself, the end of the log is asked
of the table and of the index, and the tables must be declared as they were made: a flipped bit in a
declaration would otherwise turn a long log into an empty one. Where a compacted log begins is
written down too, so that a group lost at the front is told from one that was removed.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Final

from placet.schemas.errors import StoreError
from placet.schemas.log.record import LogGroup, LogStart
from placet.stores.rows import Row, Tail, damaged, records_of, row_of

LAYOUT_VERSION: Final = 2
APPLICATION_ID: Final = int.from_bytes(b"plac", "big")
"""In the file's header, so that we never write into somebody else's database."""

CHECKS_MAX: Final = 2**31
"""The file's header counts the checks of `write_check`, modulo this."""

INTEGER_MAX: Final = 2**63 - 1
"""The largest number that a column holds: what is asked for beyond it is beyond every log."""

PAGE_BYTES: Final = 1 << 20
PAGE_GROUPS: Final = 256

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
_TAIL: Final = (
    "SELECT first_record + count, seq, log_bytes FROM groups ORDER BY first_record DESC LIMIT 1"
)
_PAGE: Final = (
    "SELECT first_record, count, seq_before, seq, log_bytes, crc32, blob FROM groups"
    " WHERE first_record >= ? ORDER BY first_record LIMIT ?"
)
_HOLDS_RECORD: Final = "SELECT max(first_record) FROM groups WHERE first_record <= ?"
_REACHED_SEQ: Final = (
    "SELECT first_record FROM groups WHERE seq >= ? ORDER BY seq, first_record LIMIT 1"
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
_START: Final = """\
    SELECT (SELECT first_record FROM meta), groups.first_record, groups.seq_before
    FROM meta LEFT JOIN groups ON groups.first_record = (SELECT min(first_record) FROM groups)"""
_CUT: Final = """\
    SELECT max(first_record) FROM (
        SELECT first_record FROM groups WHERE first_record <= ? ORDER BY first_record LIMIT ?)"""


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


def is_placet_log(connection: sqlite3.Connection, store: str) -> bool:
    """Return whether a database is a placet log; False if it is empty.

    Raises:
        StoreError: The file belongs to another program.
    """
    mark, table_count = connection.execute(_OWNER).fetchone()
    if mark == APPLICATION_ID and table_count:
        return True
    if mark or table_count:
        raise foreign(store, "a SQLite database of another program")
    return False


def foreign(store: str, came: str) -> StoreError:
    """Build the error for a file that is not a placet log; `came` describes its content."""
    message = f"cannot use {store}: expected a placet log, got {came}; give another path"
    return StoreError(message, store=store)


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


def require_layout(connection: sqlite3.Connection, store: str) -> None:
    """Raise if this release cannot read the file; else do nothing.

    Raises:
        StoreError: The file is of another version, or damaged.
    """
    declared = {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master")}
    if not any(isinstance(sql, str) and sql.startswith("CREATE TABLE meta (") for sql in declared):
        raise foreign(store, "a file without the table that names its version")
    row = connection.execute("SELECT * FROM meta").fetchone()
    version = row[0] if row else None
    if version != LAYOUT_VERSION:
        raise StoreError(
            f"cannot use {store}: expected layout version {LAYOUT_VERSION}, got {version!r}; "
            "another release of placet has written it, so use that one",
            store=store,
        )
    if declared != {_META, _GROUPS, _GROUPS_BY_SEQ}:
        raise StoreError(
            f"{store} is damaged: its tables are not declared as they were made; "
            "restore the file from a copy",
            store=store,
        )


def take_epoch(connection: sqlite3.Connection) -> int:
    """Increment the epoch and return it; call it inside a transaction."""
    connection.execute("UPDATE meta SET epoch = epoch + 1")
    return epoch_of(connection)


def epoch_of(connection: sqlite3.Connection) -> int:
    """Return the latest epoch that any writer has taken."""
    epoch: int = connection.execute("SELECT epoch FROM meta").fetchone()[0]
    return epoch


def write_check(connection: sqlite3.Connection) -> None:
    """Write to the file without changing a row, as a check; call it inside a transaction.

    It changes the file's header. Setting a row to its present value would not be a check, because
    SQLite does not write an unchanged page.
    """
    (count,) = connection.execute("PRAGMA user_version").fetchone()
    connection.execute(f"PRAGMA user_version = {(count + 1) % CHECKS_MAX}")


def tail_of(connection: sqlite3.Connection) -> Tail:
    """Return the end of the log: record count, seq and bytes. O(log n)."""
    row = connection.execute(_TAIL).fetchone()
    return Tail(*row) if row else Tail()


def start_of(connection: sqlite3.Connection, store: str) -> LogStart:
    """Return the position of the log's first record. O(log n).

    Raises:
        StoreError: The recorded start and the stored rows contradict each other.
    """
    recorded, oldest, seq_before = connection.execute(_START).fetchone()
    if (oldest or 0) != recorded:
        raise StoreError(
            f"{store} is damaged: it should begin at record {recorded}, and its first group begins "
            f"at {oldest}; restore the file from a copy",
            store=store,
        )
    return LogStart(recorded, seq_before or 0)


def remove_groups(connection: sqlite3.Connection, before_record: int, groups_max: int) -> bool:
    """Remove the oldest groups, at most `groups_max`, that lie before a record; keep the last.

    Call it inside a transaction.

    Returns:
        Whether more groups could be removed.
    """
    (cut,) = connection.execute(_CUT, (before_record, groups_max + 1)).fetchone()
    if cut is not None:
        connection.execute("DELETE FROM groups WHERE first_record < ?", (cut,))
        connection.execute("UPDATE meta SET first_record = ?", (cut,))
    return cut is not None and cut != holder_of_record(connection, before_record)


def insert_group(connection: sqlite3.Connection, group: LogGroup, tail: Tail) -> Tail:
    """Append a group at `tail` and return the new tail; call it inside a transaction."""
    row, tail = row_of(group, tail)
    connection.execute(_INSERT, row)
    return tail


def begin_at(connection: sqlite3.Connection, record: int) -> None:
    """Set the first ordinal of an empty log; call it inside a transaction."""
    connection.execute("UPDATE meta SET first_record = ?", (record,))


def holder_of_record(connection: sqlite3.Connection, record: int) -> int:
    """Return the first record of the group that contains a record, or of the nearest before it.

    0 if the record was compacted away, or the log is empty.
    """
    first: int | None = connection.execute(_HOLDS_RECORD, (min(record, INTEGER_MAX),)).fetchone()[0]
    return first or 0


def holder_of_seq(connection: sqlite3.Connection, seq: int, store: str) -> int | None:
    """Return the first record of the first group that reached a seq; None if none has. O(log n).

    Raises:
        StoreError: The index and the table contradict each other.
    """
    row: tuple[int] | None = connection.execute(_REACHED_SEQ, (min(seq, INTEGER_MAX),)).fetchone()
    if row is None:
        require_end(connection, store)
        return None
    (place,) = row
    for group in _rows(connection, place, groups_max=1):
        records_of(group, place, store)
        _, _, seq_before, reached_seq, *_ = group
        if reached_seq >= seq and (seq_before < seq or place == start_of(connection, store).record):
            return place
    raise damaged(store, place, "is not where the index has it")


def read_page(connection: sqlite3.Connection, place: int, store: str) -> list[Row]:
    """Return rows of groups from record `place` on, up to `PAGE_GROUPS` or `PAGE_BYTES`.

    Returns:
        Rows in order; none at the end of the log.

    Raises:
        StoreError: A group is lost: the index has a later end than the table.
    """
    rows = _rows(connection, place)
    if rows or require_end(connection, store) < place:
        return rows
    rows = _rows(connection, place)  # the writer has appended in between
    if not rows:
        raise damaged(store, place, "cannot be found")
    return rows


def require_end(connection: sqlite3.Connection, store: str) -> int:
    """Return the first record of the last group, -1 in an empty log. O(log n).

    Raises:
        StoreError: The table and the index contradict each other: a group is lost.
    """
    by_table, by_index = connection.execute(_TWO_ENDS).fetchone()
    if by_table != by_index:
        raise StoreError(
            f"{store} is damaged: the last group begins at record {by_table} by its table and at "
            f"{by_index} by its index; restore the file from a copy",
            store=store,
        )
    return -1 if by_table is None else by_table


def _rows(
    connection: sqlite3.Connection, place: int, *, groups_max: int = PAGE_GROUPS
) -> list[Row]:
    rows: list[Row] = []
    size_bytes = 0
    # Closing the cursor ends the read transaction: a slow caller holds nothing.
    with closing(connection.execute(_PAGE, (place, groups_max))) as cursor:
        for row in cursor:
            rows.append(row)
            size_bytes += len(row[-1]) if isinstance(row[-1], bytes) else 0
            if size_bytes >= PAGE_BYTES:
                break
    return rows
