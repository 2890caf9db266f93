"""The layout of a log in a PostgreSQL schema: tables and statements. A group is one row.

    meta       one row: layout version, latest epoch, first record of a compacted log
    groups     one row per group, as in every store (`rows.py`), with an index by seq
    snapshots  the state after a record, in parts of a few megabytes

An append is one statement and one round trip: it locks the row that holds the epoch, and puts the
group in only if the epoch is the caller's and the group begins where the log ends. A process that
takes the fence updates the same row, so of the two one waits for the other.
"""

from typing import Final, LiteralString, cast

from psycopg import Connection, sql
from psycopg.rows import TupleRow

from placet.schemas.errors import StoreError
from placet.schemas.log.record import LogStart
from placet.stores.rows import Row, Tail

LAYOUT_VERSION: Final = 1
PAGE_GROUPS: Final = 256
PAGE_BYTES: Final = 1 << 20

_SCHEMA: Final = (
    """CREATE TABLE {schema}.meta (
        layout_version int NOT NULL,
        epoch bigint NOT NULL,
        first_record bigint NOT NULL
    )""",
    """CREATE TABLE {schema}.groups (
        first_record bigint PRIMARY KEY,
        count bigint NOT NULL,
        seq_before bigint NOT NULL,
        seq bigint NOT NULL,
        log_bytes bigint NOT NULL,
        crc32 bigint NOT NULL,
        blob bytea NOT NULL
    )""",
    # Records are packed already: to try to compress them costs more than it saves.
    "ALTER TABLE {schema}.groups ALTER COLUMN blob SET STORAGE EXTERNAL",
    "CREATE INDEX groups_by_seq ON {schema}.groups (seq, first_record)",
    """CREATE TABLE {schema}.snapshots (
        records bigint NOT NULL,
        seq bigint NOT NULL,
        part int NOT NULL,
        data bytea NOT NULL,
        PRIMARY KEY (records, seq, part)
    )""",
    "ALTER TABLE {schema}.snapshots ALTER COLUMN data SET STORAGE EXTERNAL",
    f"INSERT INTO {{schema}}.meta VALUES ({LAYOUT_VERSION}, 0, 0)",
)
_TABLES_OF: Final = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = %s"
_NAMESPACE: Final = "SELECT oid FROM pg_namespace WHERE nspname = %s"
_APPEND: Final = """\
    INSERT INTO {schema}.groups
    SELECT %s, %s, %s, %s, %s, %s, %b
    FROM (SELECT epoch FROM {schema}.meta FOR UPDATE) AS fence
    WHERE epoch = %s AND coalesce(
        (SELECT (first_record + count, seq) = (%s, %s)
         FROM {schema}.groups ORDER BY first_record DESC LIMIT 1),
        (0, 0) = (%s, %s))"""
_TAIL: Final = """\
    SELECT first_record + count, seq, log_bytes
    FROM {schema}.groups ORDER BY first_record DESC LIMIT 1"""
_PAGE: Final = """\
    WITH page AS MATERIALIZED (
        SELECT first_record, log_bytes - sum_before AS bytes FROM (
            SELECT first_record, log_bytes, min(log_bytes) OVER () AS sum_before
            FROM (SELECT first_record, log_bytes FROM {schema}.groups
                  WHERE first_record >= %s ORDER BY first_record LIMIT %s) AS next) AS summed)
    SELECT first_record, count, seq_before, seq, log_bytes, crc32, blob
    FROM page JOIN {schema}.groups USING (first_record)
    WHERE bytes <= %s ORDER BY first_record"""
_HOLDS_RECORD: Final = "SELECT max(first_record) FROM {schema}.groups WHERE first_record <= %s"
_REACHED_SEQ: Final = """\
    SELECT first_record FROM {schema}.groups WHERE seq >= %s ORDER BY seq, first_record LIMIT 1"""
_START: Final = """\
    SELECT meta.first_record, oldest.first_record, oldest.seq_before FROM {schema}.meta
    LEFT JOIN (SELECT first_record, seq_before FROM {schema}.groups
               ORDER BY first_record LIMIT 1) AS oldest ON true"""
_CUT: Final = """\
    SELECT max(first_record) FROM (
        SELECT first_record FROM {schema}.groups
        WHERE first_record <= %s ORDER BY first_record LIMIT %s) AS oldest"""


class Layout:
    """The SQL statements for the schema of one world.

    Built once, because the server prepares statements by their text.

    Args:
        schema: Name of the schema.
        store: URL of the log, for messages.
    """

    def __init__(self, schema: str, store: str) -> None:
        self.schema = schema
        self.store = store
        named = self._named
        self.append = named(_APPEND)
        self.append_and_tell = sql.SQL("{} RETURNING pg_notify({}, '')").format(
            self.append, sql.Literal(schema)
        )
        self.tail = named(_TAIL)
        self.page = named(_PAGE)
        self.holds_record = named(_HOLDS_RECORD)
        self.reached_seq = named(_REACHED_SEQ)
        self.start = named(_START)
        self.cut = named(_CUT)
        self.epoch = named("SELECT epoch FROM {schema}.meta")
        self.lock_epoch = named("SELECT FROM {schema}.meta FOR UPDATE")
        self.rewrite_epoch = named("UPDATE {schema}.meta SET epoch = epoch WHERE epoch = %s")
        self.raise_epoch = named("UPDATE {schema}.meta SET epoch = epoch + 1 RETURNING epoch")
        self.remove = named("DELETE FROM {schema}.groups WHERE first_record < %s")
        self.set_start = named("UPDATE {schema}.meta SET first_record = %s")

    def _named(self, statement: LiteralString) -> sql.Composed:
        return sql.SQL(statement).format(schema=sql.Identifier(self.schema))

    def make(self, connection: Connection[TupleRow]) -> None:
        """Create missing tables, and check existing ones; call it in a transaction.

        Raises:
            StoreError: The schema is another program's, or another release's.
        """
        namespace = connection.execute(_NAMESPACE, (self.schema,)).fetchone()
        if namespace is None:
            connection.execute(self._named("CREATE SCHEMA {schema}"))
        tables = set() if namespace is None else self._tables(connection, namespace)
        if not tables:
            for statement in _SCHEMA:
                connection.execute(self._named(statement))
        elif not tables >= {"meta", "groups", "snapshots"}:
            raise StoreError(
                f"cannot use {self.store}: expected a placet log in schema {self.schema}, got the "
                f"tables {', '.join(sorted(tables))}; give another ?world=",
                store=self.store,
            )
        self.require_version(connection)

    def require_version(self, connection: Connection[TupleRow]) -> None:
        """Raise if this release cannot read the tables; else do nothing.

        Raises:
            StoreError: The tables are of another version.
        """
        rows = connection.execute(self._named("SELECT layout_version FROM {schema}.meta"))
        versions = [version for (version,) in rows]
        if versions != [LAYOUT_VERSION]:
            raise StoreError(
                f"cannot use {self.store}: expected layout version {LAYOUT_VERSION}, got "
                f"{versions}; another release of placet has written it, so use that one",
                store=self.store,
            )

    def tail_of(self, connection: Connection[TupleRow]) -> Tail:
        """Return the end of the log: record count, seq and bytes. O(log n)."""
        row = connection.execute(self.tail).fetchone()
        return Tail(*row) if row else Tail()

    def epoch_of(self, connection: Connection[TupleRow]) -> int:
        """Return the latest epoch that any writer has taken."""
        return _only(connection.execute(self.epoch).fetchone())

    def start_of(self, connection: Connection[TupleRow]) -> LogStart:
        """Return the position of the log's first record. O(log n).

        Raises:
            StoreError: The recorded start and the stored rows contradict each other.
        """
        row = connection.execute(self.start).fetchone()
        assert row is not None, "meta has one row"
        recorded, oldest, seq_before = row
        if (oldest or 0) != recorded:
            raise StoreError(
                f"{self.store} is damaged: it should begin at record {recorded}, and its first "
                f"group begins at {oldest}; restore the schema from a copy",
                store=self.store,
            )
        return LogStart(recorded, seq_before or 0)

    def page_of(self, connection: Connection[TupleRow], place: int) -> list[Row]:
        """Return rows of groups from record `place` on, up to `PAGE_GROUPS` or `PAGE_BYTES`.

        At least one row, if there is one.
        """
        cursor = connection.execute(self.page, (place, PAGE_GROUPS, PAGE_BYTES), binary=True)
        return cast("list[Row]", cursor.fetchall())

    def holder_of_record(self, connection: Connection[TupleRow], record: int) -> int:
        """Return the first record of the group that contains a record; 0 if none does. O(log n)."""
        return _only(connection.execute(self.holds_record, (record,)).fetchone()) or 0

    def remove_groups(
        self, connection: Connection[TupleRow], before_record: int, groups_max: int
    ) -> bool:
        """Remove the oldest groups, at most `groups_max`, that lie before a record.

        Call it in a transaction.

        Returns:
            Whether more groups could be removed.
        """
        row = connection.execute(self.cut, (before_record, groups_max + 1)).fetchone()
        cut = None if row is None else row[0]
        if cut is None:
            return False
        connection.execute(self.remove, (cut,))
        connection.execute(self.set_start, (cut,))
        return bool(cut != self.holder_of_record(connection, before_record))

    def _tables(self, connection: Connection[TupleRow], namespace: TupleRow) -> set[str]:
        return {name for (name,) in connection.execute(_TABLES_OF, namespace)}


def _only(row: TupleRow | None) -> int:
    assert row is not None, "the statement gives one row"
    return cast("int", row[0])
