"""The tables of a log that are the same in every database: `meta`, one row, and `groups`.

    meta    layout version, latest epoch, first record of a compacted log
    groups  one row per append (`rows.py`), with an index by seq

A database derives its layout: the declarations, the statement that appends, and the page of a
reader differ, because SQLite proves every row against its index, and PostgreSQL appends by one
statement in one round trip.
"""

from abc import abstractmethod
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

from placet.schemas.errors import StoreError
from placet.schemas.log.record import LogStart
from placet.stores.base_log import BaseEventLog
from placet.stores.rows import Tail

PAGE_APPENDS: Final = 256
PAGE_BYTES: Final = 1 << 20
INTEGER_MAX: Final = 2**63 - 1
"""The largest number that a column holds; no log reaches it."""

_TAIL: Final = """\
    SELECT first_record + count, seq, log_bytes
    FROM {schema}.groups ORDER BY first_record DESC LIMIT 1"""
_HOLDS_RECORD: Final = "SELECT max(first_record) FROM {schema}.groups WHERE first_record <= {mark}"
_REACHED_SEQ: Final = """\
    SELECT first_record FROM {schema}.groups
    WHERE seq >= {mark} ORDER BY seq, first_record LIMIT 1"""
_START: Final = """\
    SELECT meta.first_record, oldest.first_record, oldest.seq_before FROM {schema}.meta
    LEFT JOIN (SELECT first_record, seq_before FROM {schema}.groups
               ORDER BY first_record LIMIT 1) AS oldest ON true"""
_CUT: Final = """\
    SELECT max(first_record) FROM (
        SELECT first_record FROM {schema}.groups
        WHERE first_record <= {mark} ORDER BY first_record LIMIT {mark}) AS oldest"""


class Connection(Protocol):
    """A connection to a database, of any driver."""

    @property
    def execute(self) -> Any:  # noqa: ANN401  # drivers annotate statements and rows differently
        """Function that runs a statement with values, and returns a cursor."""


class LogTables:
    """Statements about the tables of one log, built once, because databases cache them by text.

    Args:
        store: URL of the log, for messages.
        schema: Name of the schema, quoted as in a statement.
        mark: Placeholder of a value.
        home: Noun of the thing to restore from a copy, such as `file`.
    """

    def __init__(self, store: str, *, schema: str, mark: str, home: str) -> None:
        self.store: Final = store
        self._names: Final = {"schema": schema, "mark": mark}
        self._home: Final = home
        self._tail: Final = self.named(_TAIL)
        self._epoch: Final = self.named("SELECT epoch FROM {schema}.meta")
        self._holds_record: Final = self.named(_HOLDS_RECORD)

    def named(self, statement: str) -> str:
        """Return a statement with the names of this log's schema."""
        return statement.format_map(self._names)

    def tail_of(self, connection: Connection) -> Tail:
        """Return the end of the log: record count, seq and bytes. O(log n)."""
        row = connection.execute(self._tail).fetchone()
        return Tail(*row) if row else Tail()

    def epoch_of(self, connection: Connection) -> int:
        """Return the latest epoch that any writer has taken."""
        epoch: int = connection.execute(self._epoch).fetchone()[0]
        return epoch

    def start_of(self, connection: Connection) -> LogStart:
        """Return the position of the log's first record. O(log n).

        Raises:
            StoreError: The recorded start and the stored rows contradict each other.
        """
        recorded, oldest, seq_before = connection.execute(self.named(_START)).fetchone()
        if (oldest or 0) != recorded:
            raise StoreError(
                f"{self.store} is damaged: it should begin at record {recorded}, and its first "
                f"append begins at {oldest}; restore the {self._home} from a copy",
                store=self.store,
            )
        return LogStart(recorded, seq_before or 0)

    def holder_of_record(self, connection: Connection, record: int) -> int:
        """Return the first record of the append with a record, or of the nearest one before it.

        0 if the record was compacted away, or the log is empty. O(log n).
        """
        place = (min(record, INTEGER_MAX),)
        first: int | None = connection.execute(self._holds_record, place).fetchone()[0]
        return first or 0

    def first_at_seq(self, connection: Connection, seq: int) -> int | None:
        """Return the first record of the first append that reached a seq, by the index; else None.

        O(log n).
        """
        row = connection.execute(self.named(_REACHED_SEQ), (min(seq, INTEGER_MAX),)).fetchone()
        return None if row is None else row[0]

    def remove_appends(self, connection: Connection, before_record: int, appends_max: int) -> bool:
        """Remove at most `appends_max` of the oldest appends before a record; keep the last.

        Call it inside a transaction.

        Returns:
            Whether more appends could be removed.
        """
        sliced = (before_record, appends_max + 1)
        (cut,) = connection.execute(self.named(_CUT), sliced).fetchone()
        if cut is not None:
            remove = self.named("DELETE FROM {schema}.groups WHERE first_record < {mark}")
            connection.execute(remove, (cut,))
            self.begin_at(connection, cut)
        return cut is not None and cut != self.holder_of_record(connection, before_record)

    def begin_at(self, connection: Connection, record: int) -> None:
        """Set the ordinal of the log's first record; call it inside a transaction."""
        statement = self.named("UPDATE {schema}.meta SET first_record = {mark}")
        connection.execute(statement, (record,))

    def require_version_is(self, version: object, expected: int) -> None:
        """Raise if this release cannot read the tables; else do nothing.

        Raises:
            StoreError: The tables are of another version.
        """
        if version != expected:
            raise StoreError(
                f"cannot use {self.store}: expected layout version {expected}, got {version!r}; "
                "another release of placet has written it, so use that one",
                store=self.store,
            )


class TableEventLog(BaseEventLog):
    """An `EventLog` in the tables of a database; each reader has a separate connection."""

    _tables: LogTables

    @abstractmethod
    def _reading(self) -> AbstractContextManager[Connection]:
        """Yield a connection to read with, and convert the errors of the database."""

    def find_seq(self, seq: int) -> int:
        """Return the ordinal of the first record of the append that reached a seq. O(log n).

        `count()` if no append has reached it.

        Raises:
            StoreError: The log cannot be read.
        """
        with self._reading() as connection:
            first = self._tables.first_at_seq(connection, seq)
            return self._tables.tail_of(connection).record_count if first is None else first

    def start(self) -> LogStart:
        """Return the position of the log's first record. O(log n).

        Raises:
            StoreError: The log cannot be read, or an append is lost at its front.
        """
        with self._reading() as connection:
            return self._tables.start_of(connection)

    def _read_tail(self) -> Tail:
        with self._reading() as connection:
            return self._tables.tail_of(connection)
