"""Translates PostgreSQL errors for the operator: one table, one function.

The store's code never inspects a driver's error; it states its operation, and this module says what
happened and what to do. The operation matters only for a lost connection: an unanswered commit may
be in the log or not, and is never repeated.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg

from placet.schemas.errors import StoreError
from placet.stores.append_rules import NoWorldError

_RETRY: Final = (
    "; what was acknowledged is in the log: a server opens it again by itself, restart others"
)
_REACH: Final = (
    "the server cannot be reached, or it refused the login",
    "check that it runs, its address, the user and the password",
)
_LOST: Final = (
    "the connection was lost, and an unanswered write may be in the log or not",
    f"the log tells which{_RETRY}",
)

# SQLSTATE, or its first two characters -> (fault, remedy).
_MEANINGS: Final[dict[str, tuple[str, str]]] = {
    "08": _LOST,
    "57P01": _LOST,
    "57P02": _LOST,
    "57P03": ("the server is starting or stopping", "wait until it is up"),
    "57P05": _LOST,
    "53100": ("the server's disk is full", f"free some space there{_RETRY}"),
    "53200": ("the server is out of memory", f"give it more{_RETRY}"),
    "53300": ("the server takes no more connections", "raise its max_connections, or close some"),
    "25006": (
        "the server is a read-only standby, or its database is set read-only",
        "give the address of the primary, or add target_session_attrs=read-write",
    ),
    "42501": ("permission was denied", "grant the role CREATE on the database, or the schema"),
    "28": ("the server refused the login", "check the user and the password"),
    "3D000": ("there is no such database", "make it with createdb, or check its name"),
    "3F000": ("there is no such world in the database", "check its name in ?world="),
    "42P01": ("there is no such world in the database", "check its name in ?world="),
    "57014": ("the server canceled it", f"raise its statement_timeout for this role{_RETRY}"),
    "55P03": ("another session holds it locked", "stop that session, or wait until it is done"),
    "58": ("the server's disk failed", f"check the disk and the server's log{_RETRY}"),
    "XX001": ("the server found its own data damaged", "restore the database from a copy"),
    "XX002": ("the server found an index damaged", "REINDEX the schema, then look again"),
}
_UNREAD: Final = ("libpq cannot read the URL", "correct what the reason in parentheses names")
_NO_WORLD: Final = ("3F000", "42P01")
_UNKNOWN: Final = ("the server gave an error", "see the reason in parentheses")


@contextmanager
def postgres_faults(doing: str, store: str) -> Iterator[None]:
    """Convert a driver error inside a `with` block to a `StoreError` that says what to do.

    Args:
        doing: The operation, for the message, such as `open`.
        store: URL of the log.

    Raises:
        StoreError: The block raised a `psycopg.Error`.
    """
    try:
        yield
    except psycopg.Error as error:
        came, remedy = meaning_of(error)
        reason = " ".join(str(error).split())
        message = f"cannot {doing} {store}: {came} ({reason}); {remedy}"
        kind = NoWorldError if error.sqlstate in _NO_WORLD else StoreError
        raise kind(message, store=store) from error


def meaning_of(error: psycopg.Error) -> tuple[str, str]:
    """Return a description of a driver error, and the remedy."""
    state = error.sqlstate
    if state is not None:
        return _MEANINGS.get(state) or _MEANINGS.get(state[:2]) or _UNKNOWN
    if isinstance(error, ConnectionRefused):
        return _REACH
    if isinstance(error, psycopg.ProgrammingError):
        return _UNREAD
    return _LOST if isinstance(error, psycopg.OperationalError) else _UNKNOWN


def is_lost(error: BaseException | None) -> bool:
    """Return whether an error means that the connection was lost.

    Then the outcome of the last statement is unknown.
    """
    return isinstance(error, psycopg.Error) and meaning_of(error) is _LOST


class ConnectionRefused(psycopg.OperationalError):
    """The error of a connection that could not be opened."""
