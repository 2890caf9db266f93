"""A log's file as a file: left in one piece, in use or not, and no larger than needed.

Nothing here reads the content of the file, and nothing needs the fence.
"""

import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from placet.stores.files import draft_beside, keep_draft
from placet.stores.sqlite.errors import primary_code, sqlite_faults

_IN_USE = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


@contextmanager
def whole_log(target: Path) -> Iterator[Path]:
    """Yield the path of a log to make, which becomes `target` when the block ends without an error.

    The block closes the log. Nothing of it is left if the block raises.

    Raises:
        FileExistsError: The name is taken.
        OSError: The disk refused.
    """
    draft = draft_beside(target)
    try:
        yield draft
        keep_draft(draft, target, is_new=True)
    finally:
        for suffix in ("", "-wal", "-shm", "-journal", ".writer"):
            draft.with_name(f"{draft.name}{suffix}").unlink(missing_ok=True)


def leave_wal(connection: sqlite3.Connection) -> bool:
    """Merge the `-wal` file of a log into it, so that the log is one file.

    A database in WAL mode makes its readers create files beside it, which a read-only medium
    refuses. While another process has it open, it stays in WAL mode, which is harmless.

    Returns:
        Whether it was merged; False if another process has the log open.
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
    """Return whether any process has the file of a log open.

    Files left by a killed writer are not touched: they may be on a read-only medium.

    Raises:
        StoreError: The file cannot be read.
    """
    with sqlite_faults("ask who uses", store):
        if sys.platform == "win32":  # which has other locks: taking the log out of WAL asks them
            with closing(_connect(path)) as connection:
                return not leave_wal(connection)
        from placet.stores.sqlite.locks import is_locked  # noqa: PLC0415  # as its name says

        return is_locked(path)


def connect_bare(path: Path) -> sqlite3.Connection:
    """Open a read-only connection, without locks, to a log for which `is_bare` is true.

    SQLite keeps its `-shm` data in memory then.

    Raises:
        sqlite3.Error: The file cannot be opened.
    """
    uri = f"{path.absolute().as_uri()}?mode=ro&vfs=unix-none"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None)
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    return connection


def is_bare(path: Path) -> bool:
    """Return whether a log has a `-wal` and no `-shm` file, in a folder that cannot be written.

    That is so for a copy on a read-only medium. SQLite needs a `-shm` file even to read.
    """
    wal, shm = (path.with_name(f"{path.name}{suffix}") for suffix in ("-wal", "-shm"))
    if not wal.exists() or shm.exists():
        return False
    is_effective = os.access in os.supports_effective_ids
    return not os.access(path.parent, os.W_OK, effective_ids=is_effective)


def vacuum(path: Path, store: str) -> None:
    """Shrink the file of a log by the space of removed rows, if there are any. O(file).

    It needs free disk space of the size of the file.

    Raises:
        StoreError: The disk is full or failed, or another process is writing.
    """
    with sqlite_faults("shrink", store), closing(_connect(path)) as connection:
        if connection.execute("PRAGMA freelist_count").fetchone()[0]:
            connection.execute("VACUUM")


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None)
