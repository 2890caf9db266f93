"""From the name of a store to the store: `memory://`, `sqlite:///town.db`, or a path.

A name is all that a user gives; nothing is opened here, so a reader may ask for a log without
taking its fence.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeGuard
from urllib.parse import parse_qsl

from placet.actors.ports import EventLog
from placet.schemas.errors import StoreError
from placet.schemas.limits import Limits
from placet.stores.files import quoted, unquoted
from placet.stores.memory import MemoryEventLog
from placet.stores.postgres.address import SCHEMES, PostgresAddress, address_of, shown_url

if TYPE_CHECKING:
    from placet.stores.postgres.log import PostgresEventLog
    from placet.stores.sqlite.log import SqliteEventLog


class Fence(Protocol):
    """The exclusive right of one process to write a log, until the process gives it up or ends."""

    def try_take(self) -> bool:
        """Acquire the right if no process has it; return whether this process has it now.

        Raises:
            StoreError: The store cannot be reached, or cannot be written.
        """

    def release(self) -> None:
        """Release the right; harmless if called twice."""

    def holder(self) -> str | None:
        """Return the session that holds this fence, for messages; None if there is none. Blocking.

        Raises:
            StoreError: The store cannot be reached.
        """


class ChangeFeed(Protocol):
    """A subscription that notifies a reader of a log of appends, by a file descriptor to poll.

    Attributes:
        look_ms: Maximum milliseconds to wait for a notification; then read the log anyway.
    """

    look_ms: int

    def fileno(self) -> int:
        """Return the file descriptor, which becomes readable when a notification arrives."""

    def drain(self) -> bool:
        """Consume the pending notifications; return False if no more will come."""

    def close(self) -> None:
        """End the subscription."""


_FILE_URL: Final = "sqlite:///"
KNOWN_STORES: Final = (
    "memory://, sqlite:///relative.db, sqlite:////absolute.db, a path ending in .db, or "
    "postgresql://user@host/database?world=town"
)


def open_event_log(url: str, limits: Limits | None = None) -> EventLog:
    """Return the log of a URL or a path, as a reader; its `open` makes it a writer.

    Args:
        url: `memory://`; `sqlite:///` and a percent-encoded path, relative with three slashes and
            absolute with four, with `?synchronous=full|normal|off`; `postgresql://` as libpq reads
            it, with `?world=`, `synchronous_commit=` and `lease_s=`; or a plain path that ends in
            `.db` or names a file.
        limits: Limits, of which `log_bytes_max` bounds a log in memory.

    Raises:
        StoreError: The URL is invalid, or names an unknown kind of store.
    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        return _open_path(url)
    if scheme == "memory":
        return _open_memory(url, rest, limits or Limits())
    if scheme == "sqlite":
        return _open_sqlite(url, rest)
    if scheme in SCHEMES:
        return _open_postgres(url)
    raise _unknown(url, f"there is no store {scheme!r}")


def _open_path(path: str) -> "SqliteEventLog":
    if not path.endswith(".db") and not ("\0" not in path and Path(path).is_file()):
        raise _unknown(path, "it is no URL, and no path of a log")
    return _sqlite_at(path, path, "full")


def _open_memory(url: str, rest: str, limits: Limits) -> MemoryEventLog:
    if rest:
        raise _unknown(url, f"memory:// takes nothing more, got {rest!r}")
    return MemoryEventLog(log_bytes_max=limits.log_bytes_max)


def _open_sqlite(url: str, rest: str) -> "SqliteEventLog":
    path, _, query = rest.partition("?")
    if not path.startswith("/"):
        raise _unknown(url, f"did you mean sqlite:///{rest}?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    synchronous = options.pop("synchronous", "full")
    if options:
        raise _unknown(url, f"the only option is synchronous, got {', '.join(sorted(options))}")
    return _sqlite_at(url, unquoted(path[1:]), synchronous)


def _open_postgres(url: str) -> EventLog:
    address = address_of(url)
    try:
        from placet.stores.postgres.log import PostgresEventLog  # noqa: PLC0415  # extra
    except ImportError as error:
        raise StoreError(
            f"cannot use store {address.url!r}: the driver of PostgreSQL is not there "
            f"({error}); install it with `pip install 'placet[postgres]'`",
            store=address.url,
        ) from error
    return PostgresEventLog(address)


def _sqlite_at(url: str, path: str, synchronous: str) -> "SqliteEventLog":
    if not path or "\0" in path:
        raise _unknown(url, "the path is empty or holds a NUL")
    if path == ":memory:":
        raise _unknown(url, "a log in memory is memory://")
    from placet.stores.sqlite.log import SqliteEventLog  # noqa: PLC0415  # 4 ms

    return SqliteEventLog(path, synchronous=synchronous)


def _unknown(url: str, came: str) -> StoreError:
    shown = shown_url(url)
    return StoreError(f"cannot use store {shown!r}: expected {KNOWN_STORES}; {came}", store=shown)


def file_of(log: EventLog) -> Path | None:
    """Return the path in a log's URL, as it was passed; None if the log is in no file."""
    if not log.url.startswith(_FILE_URL):
        return None
    return Path(unquoted(log.url.removeprefix(_FILE_URL).partition("?")[0]))


def whereabouts_of(log: EventLog) -> Path | None:
    """Return the absolute path of the file that a log was opened from; None if it is in no file.

    Unlike `file_of`, it stays right if the process changes its folder or a link changes.
    """
    return log.file if _is_sqlite(log) else None


def lasting_url_of(log: EventLog) -> str:
    """Return a URL by which another process can open a log; with an absolute path for a file."""
    if not _is_sqlite(log):
        return log.url
    _, mark, options = log.url.partition("?")
    return f"{_FILE_URL}{quoted(log.file)}{mark}{options}"


def is_lasting(log: EventLog) -> bool:
    """Return whether a log outlives its process, that is, is not in memory."""
    return not log.url.startswith("memory:")


def postgres_address_of(log: EventLog) -> PostgresAddress | None:
    """Return the PostgreSQL address of a log; None if it is not in PostgreSQL."""
    return log.address if _is_postgres(log) else None


def environment_of(log: EventLog) -> dict[str, str]:
    """Return the environment variables that another process needs to open a log by its URL."""
    return log.address.environment if _is_postgres(log) else {}


def fence_of(log: EventLog) -> Fence | None:
    """Return the fence of a log whose right to write belongs to a session; None for other stores.

    In other stores, opening the log takes the right from its writer.
    """
    return log.fence if _is_postgres(log) else None


def change_feed_of(log: EventLog) -> ChangeFeed | None:
    """Subscribe to notifications of appends to a log; None if readers of the store must poll.

    Raises:
        StoreError: The store cannot be reached.
    """
    if not _is_postgres(log):
        return None
    from placet.stores.postgres.notify import PostgresChangeFeed  # noqa: PLC0415  # an extra

    return PostgresChangeFeed(log.address)


def _is_sqlite(log: EventLog) -> "TypeGuard[SqliteEventLog]":
    return log.url.startswith(_FILE_URL)


def _is_postgres(log: EventLog) -> "TypeGuard[PostgresEventLog]":
    return log.url.startswith(f"{SCHEMES[0]}:")
