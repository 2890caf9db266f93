"""Snapshots as rows beside a log in PostgreSQL: wherever the log can be read, so can they.

A snapshot is written in one transaction, in parts, so that neither side holds more than a part
beside the whole: it is there whole or not at all.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

import psycopg
from psycopg import Connection, sql
from psycopg.rows import TupleRow

from placet.schemas.errors import StoreError
from placet.schemas.log.snapshot import Snapshot, SnapshotPosition, encode_snapshot, snapshot_at
from placet.stores.postgres.address import PostgresAddress
from placet.stores.postgres.errors import meaning_of
from placet.stores.postgres.fence import connect

PART_BYTES: Final = 8 << 20

_LIST: Final = "SELECT DISTINCT records, seq FROM {} ORDER BY records DESC, seq DESC"
_READ: Final = "SELECT data FROM {} WHERE records = %s AND seq = %s ORDER BY part"
_WRITE: Final = "INSERT INTO {} VALUES (%s, %s, %s, %b)"
_REMOVE_ONE: Final = "DELETE FROM {} WHERE records = %s AND seq = %s"
_REMOVE: Final = """\
    DELETE FROM {} WHERE (records, seq) IN (SELECT * FROM unnest(%s::int8[], %s::int8[]))"""


class SnapshotRows:
    """The snapshots of one log in a PostgreSQL table.

    Each method opens its own session, because calls are rare and long.

    Args:
        address: Address of the log.

    Attributes:
        where: URL and table, for messages.
    """

    def __init__(self, address: PostgresAddress) -> None:
        self._address = address
        self._table = sql.Identifier(address.schema, "snapshots")
        self.where = f"{address.url} (table snapshots)"

    def places(self) -> list[SnapshotPosition]:
        """Return the positions of all snapshots, newest first.

        Raises:
            OSError: The server cannot be read.
        """
        with self._session() as connection:
            try:
                rows = connection.execute(sql.SQL(_LIST).format(self._table)).fetchall()
            except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
                return []  # no writer has opened the log yet
        return [SnapshotPosition(*row) for row in rows]

    def read(self, place: SnapshotPosition) -> Snapshot:
        """Read the snapshot at a position; check that it is undamaged and of that position.

        Raises:
            ValueError: The snapshot is damaged, or of another version.
            OSError: The snapshot cannot be read; `FileNotFoundError` if it was removed.
        """
        with self._session() as connection:
            statement = sql.SQL(_READ).format(self._table)
            parts = [data for (data,) in connection.execute(statement, place, binary=True)]
        if not parts:
            raise FileNotFoundError(f"there is no snapshot {place.name} in {self.where}")
        return snapshot_at(place, b"".join(parts), "row")

    def write(self, snapshot: Snapshot) -> int:
        """Write a snapshot durably; return its size in bytes.

        Raises:
            OSError: The write failed; no snapshot was stored.
        """
        data = memoryview(encode_snapshot(snapshot))
        place = SnapshotPosition(snapshot.records, snapshot.seq)
        write = sql.SQL(_WRITE).format(self._table)
        with self._session() as connection, connection.transaction():
            connection.execute(sql.SQL(_REMOVE_ONE).format(self._table), place)
            for part, begin in enumerate(range(0, len(data), PART_BYTES)):
                connection.execute(write, (*place, part, bytes(data[begin : begin + PART_BYTES])))
        return len(data)

    def remove(self, places: Iterable[SnapshotPosition]) -> None:
        """Remove the snapshots at positions; ignore those already removed.

        Raises:
            OSError: The server could not remove them.
        """
        gone = list(places)
        records, seqs = [place.records for place in gone], [place.seq for place in gone]
        with self._session() as connection:
            connection.execute(sql.SQL(_REMOVE).format(self._table), (records, seqs))

    @contextmanager
    def _session(self) -> Iterator[Connection[TupleRow]]:
        """Open a session, and report its errors as a disk would."""
        try:
            with connect(self._address, "snapshots") as connection:
                yield connection
        except psycopg.Error as error:
            came, remedy = meaning_of(error)
            raise OSError(f"{came} ({' '.join(str(error).split())}); {remedy}") from error
        except StoreError as error:
            raise OSError(str(error)) from error
