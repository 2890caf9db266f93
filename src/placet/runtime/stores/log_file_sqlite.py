"""What a log's file is as a file: left whole, in use or not, and as large as it must be.

None of it looks at what is in the file, and none of it needs the fence.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

from placet.runtime.stores.faults_sqlite import primary_code, sqlite_faults

_IN_USE = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def leave_wal(connection: sqlite3.Connection) -> bool:
    """Fold the `-wal` file in, so that the log is one file that can be read from anywhere.

    A database left in WAL mode makes its readers create files beside it, which a read-only
    medium refuses. While somebody else has it open, it stays in WAL mode; that is no harm.

    Returns:
        Whether nobody else has it open.
    """
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        connection.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.OperationalError as error:
        if primary_code(error) not in _IN_USE:
            raise
        return False
    return True


def is_in_use(path: Path, store: str) -> bool:
    """Tell whether somebody has a log's file open: a live writer, or a reader beside one.

    What a writer that was killed has left is folded in on the way.

    Raises:
        StoreError: The file cannot be opened.
    """
    with sqlite_faults("open", store), closing(_connect(path)) as connection:
        return not leave_wal(connection)


def vacuum(path: Path, store: str) -> None:
    """Give the system back the space of what was removed. O(file), and needs as much again.

    Raises:
        StoreError: The disk refused, or somebody is writing.
    """
    with sqlite_faults("shrink", store), closing(_connect(path)) as connection:
        connection.execute("VACUUM")


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None)
