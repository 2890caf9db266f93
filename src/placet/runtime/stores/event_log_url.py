"""From the name of a store to the store: `memory://`, `sqlite:///town.db`, or a path.

A name is all that a user gives; nothing is opened here, so a reader may ask for a log without
taking its fence.
"""

from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, unquote

from placet.actors.ports import EventLog
from placet.runtime.stores.event_log_memory import MemoryEventLog
from placet.runtime.stores.event_log_sqlite import SqliteEventLog
from placet.schemas.errors import StoreError
from placet.schemas.limits import Limits

_FILE_URL: Final = "sqlite:///"
KNOWN_STORES: Final = (
    "memory://, sqlite:///relative.db, sqlite:////absolute.db, or a path ending in .db"
)


def open_event_log(url: str, limits: Limits | None = None) -> EventLog:
    """Give the log that a URL or a path names. Its `open` makes a writer of it.

    Args:
        url: `memory://`; `sqlite:///` and a percent-encoded path, relative with three slashes and
            absolute with four, with `?synchronous=full|normal|off`; or a plain path that ends in
            `.db` or names a file.
        limits: For `log_bytes_max`, which bounds the log in memory.

    Raises:
        StoreError: It names no store that this release knows.
    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        return _open_path(url)
    if scheme == "memory":
        return _open_memory(url, rest, limits or Limits())
    if scheme == "sqlite":
        return _open_sqlite(url, rest)
    if scheme in {"postgres", "postgresql"}:
        raise _unknown(url, "PostgreSQL is not in this release, it comes in a later one")
    raise _unknown(url, f"there is no store {scheme!r}")


def _open_path(path: str) -> SqliteEventLog:
    if not path.endswith(".db") and not ("\0" not in path and Path(path).is_file()):
        raise _unknown(path, "it is no URL, and no path of a log")
    return _sqlite_at(path, path, "full")


def _open_memory(url: str, rest: str, limits: Limits) -> MemoryEventLog:
    if rest:
        raise _unknown(url, f"memory:// takes nothing more, got {rest!r}")
    return MemoryEventLog(log_bytes_max=limits.log_bytes_max)


def _open_sqlite(url: str, rest: str) -> SqliteEventLog:
    path, _, query = rest.partition("?")
    if not path.startswith("/"):
        raise _unknown(url, f"did you mean sqlite:///{rest}?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    synchronous = options.pop("synchronous", "full")
    if options:
        raise _unknown(url, f"the only option is synchronous, got {', '.join(sorted(options))}")
    return _sqlite_at(url, unquote(path[1:]), synchronous)


def _sqlite_at(url: str, path: str, synchronous: str) -> SqliteEventLog:
    if not path or "\0" in path:
        raise _unknown(url, "the path is empty or holds a NUL")
    if path == ":memory:":
        raise _unknown(url, "a log in memory is memory://")
    return SqliteEventLog(path, synchronous=synchronous)


def _unknown(url: str, came: str) -> StoreError:
    return StoreError(f"cannot use store {url!r}: expected {KNOWN_STORES}; {came}", store=url)


def file_of(log: EventLog) -> Path | None:
    """Say in which file a log is; None if it is in none."""
    if not log.url.startswith(_FILE_URL):
        return None
    return Path(unquote(log.url.removeprefix(_FILE_URL).partition("?")[0]))
