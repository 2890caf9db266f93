"""The layout of a log in a PostgreSQL schema, which has a third table.

    snapshots  the state after a record, in parts of a few megabytes

An append is one statement and one round trip: it locks the row that holds the epoch, and puts the
append in only if the epoch is the caller's and the append begins where the log ends. A process that
takes the fence updates the same row, so of the two one waits for the other.
"""

from typing import Final, cast

from psycopg import Connection
from psycopg.rows import TupleRow

from placet.schemas.errors import StoreError
from placet.stores.log_tables import PAGE_APPENDS, PAGE_BYTES, LogTables
from placet.stores.rows import Row

LAYOUT_VERSION: Final = 1

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
_PAGE: Final = """\
    WITH page AS MATERIALIZED (
        SELECT first_record, log_bytes - sum_before AS bytes FROM (
            SELECT first_record, log_bytes, min(log_bytes) OVER () AS sum_before
            FROM (SELECT first_record, log_bytes FROM {schema}.groups
                  WHERE first_record >= %s ORDER BY first_record LIMIT %s) AS next) AS summed)
    SELECT first_record, count, seq_before, seq, log_bytes, crc32, blob
    FROM page JOIN {schema}.groups USING (first_record)
    WHERE bytes <= %s ORDER BY first_record"""


class PostgresTables(LogTables):
    """The tables of one log in the schema of its world.

    Args:
        schema: Name of the schema.
        store: URL of the log, for messages.
    """

    def __init__(self, schema: str, store: str) -> None:
        # `address_of` refuses a world whose name has a quote, a brace or a percent sign.
        super().__init__(store, schema=f'"{schema}"', mark="%s", home="schema")
        self.schema = schema
        self.append = self._query(_APPEND)
        self.append_and_tell = self.append + f" RETURNING pg_notify('{schema}', '')".encode()
        self._page = self._query(_PAGE)
        self.lock_epoch = self._query("SELECT FROM {schema}.meta FOR UPDATE")
        self.rewrite_epoch = self._query(
            "UPDATE {schema}.meta SET epoch = epoch WHERE epoch = {mark}"
        )
        self.raise_epoch = self._query("UPDATE {schema}.meta SET epoch = epoch + 1 RETURNING epoch")

    def _query(self, statement: str) -> bytes:
        return self.named(statement).encode()  # the driver takes a composed statement as bytes

    def make(self, connection: Connection[TupleRow]) -> None:
        """Create missing tables, and check existing ones; call it in a transaction.

        Raises:
            StoreError: The schema is another program's, or another release's.
        """
        namespace = connection.execute(_NAMESPACE, (self.schema,)).fetchone()
        if namespace is None:
            connection.execute(self._query("CREATE SCHEMA {schema}"))
        tables = set() if namespace is None else self._tables(connection, namespace)
        if not tables:
            for statement in _SCHEMA:
                connection.execute(self._query(statement))
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
        rows = connection.execute(self._query("SELECT layout_version FROM {schema}.meta"))
        versions = [version for (version,) in rows]
        self.require_version_is(versions[0] if len(versions) == 1 else versions, LAYOUT_VERSION)

    def page_of(self, connection: Connection[TupleRow], place: int) -> list[Row]:
        """Return rows of appends from record `place` on, up to `PAGE_APPENDS` or `PAGE_BYTES`.

        At least one row, if there is one.
        """
        cursor = connection.execute(self._page, (place, PAGE_APPENDS, PAGE_BYTES), binary=True)
        return cast("list[Row]", cursor.fetchall())

    def _tables(self, connection: Connection[TupleRow], namespace: TupleRow) -> set[str]:
        return {name for (name,) in connection.execute(_TABLES_OF, namespace)}
