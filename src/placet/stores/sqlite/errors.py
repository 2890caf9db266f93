"""Translates SQLite errors for the operator: one table, one function.

The store's code never inspects a SQLite error; it states its operation, and this module says what
happened and what to do.
"""

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from placet.schemas.errors import StoreError

_RETRY: Final = (
    "; what was acknowledged is in the log: a server opens it again by itself, restart others"
)

# Primary result code -> (fault, remedy).
_MEANINGS: Final[dict[int, tuple[str, str]]] = {
    sqlite3.SQLITE_NOTADB: (
        "the file is not a SQLite database",
        "give the path of a placet log, or a path where there is no file yet",
    ),
    sqlite3.SQLITE_CORRUPT: (
        "the file is damaged",
        "restore it from a copy; `placet log` reads as far as the damage",
    ),
    sqlite3.SQLITE_FULL: ("the disk is full", f"free some space{_RETRY}"),
    sqlite3.SQLITE_READONLY: (
        "the file or its directory is read-only",
        "make both writable, or copy the log to where you may write",
    ),
    sqlite3.SQLITE_PERM: ("permission was denied", "check who owns the file and its directory"),
    sqlite3.SQLITE_CANTOPEN: (
        "the file cannot be opened or made",
        "check that the directory exists and may be read and written",
    ),
    sqlite3.SQLITE_BUSY: (
        "another process holds it locked",
        "stop that process, or wait until it is done",
    ),
    sqlite3.SQLITE_LOCKED: ("it is locked", "stop the other user of it, or wait"),
    sqlite3.SQLITE_IOERR: ("the disk failed", f"check the disk and the system's log{_RETRY}"),
}
_CODE_OF_ERRNO: Final = {
    errno.ENOSPC: sqlite3.SQLITE_FULL,
    errno.EDQUOT: sqlite3.SQLITE_FULL,
    errno.EROFS: sqlite3.SQLITE_READONLY,
    errno.EIO: sqlite3.SQLITE_IOERR,
}
_UNKNOWN: Final = ("the system gave an error", "see the reason in parentheses")


@contextmanager
def sqlite_faults(doing: str, store: str) -> Iterator[None]:
    """Convert an error of SQLite or the system inside a `with` block to a `StoreError`.

    The message says what to do.

    Args:
        doing: The operation, for the message, such as `open`.
        store: URL of the log.

    Raises:
        StoreError: The block raised a `sqlite3.Error`, an `OSError` or a `UnicodeError`.
    """
    try:
        yield
    except (sqlite3.Error, OSError, UnicodeError) as error:
        came, remedy = _MEANINGS.get(primary_code(error), _UNKNOWN)
        message = f"cannot {doing} {store}: {came} ({error}); {remedy}"
        raise StoreError(message, store=store) from error


def primary_code(error: sqlite3.Error | OSError | UnicodeError) -> int:
    """Return the primary SQLite result code of an error; 0 if it has none."""
    if isinstance(error, UnicodeError):  # SQLite's message quotes a damaged name
        return sqlite3.SQLITE_CORRUPT
    if isinstance(error, OSError):
        is_denied = isinstance(error, PermissionError)
        return sqlite3.SQLITE_PERM if is_denied else _CODE_OF_ERRNO.get(error.errno or 0, 0)
    # Without the mask, SQLITE_IOERR_FSYNC and thirty more would need a row each.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
