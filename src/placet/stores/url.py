"""Open the log that a URL or a path names: `memory://`, `sqlite:///town.db`, `town.db`.

One table maps the scheme of a URL to an opener. Other distributions add schemes by the entry points
`placet.stores`. An opener takes no fence, so a reader may open a log that a process writes.

The functions at the end return what some stores have besides the port, by an attribute of the log
(`placet.stores` lists them); a log without the attribute has the default.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias
from urllib.parse import parse_qsl

from placet.actors.ports import EventLog
from placet.schemas.errors import StoreError
from placet.schemas.limits import Limits
from placet.schemas.name_suggestions import did_you_mean
from placet.stores.files import unquoted
from placet.stores.memory import MemoryEventLog
from placet.stores.pack import PackEventLog
from placet.stores.postgres.address import SCHEMES, address_of, shown_url

if TYPE_CHECKING:
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


GROUP: Final = "placet.stores"
"""Entry points of installed stores: scheme -> an `Opener`."""

Opener: TypeAlias = Callable[[str, Limits], EventLog]
"""Returns the log of a URL as a reader; it opens nothing, and its `open` makes it a writer."""

_FILE_URL: Final = "sqlite:///"
KNOWN_STORES: Final = (
    "memory://, sqlite:///relative.db, sqlite:////absolute.db, a path ending in .db, or "
    "postgresql://user@host/database?world=town"
)


def url_text(store: object) -> str:
    """Return a store as text: a URL, or a path as `str` or `Path`.

    Raises:
        StoreError: It is neither.
    """
    text = os.fspath(store) if isinstance(store, os.PathLike) else store
    if not isinstance(text, str):
        raise _unknown(repr(store)[:80], f"a store is text or a Path, got {type(store).__name__}")
    return text


def open_event_log(url: str | os.PathLike[str], limits: Limits | None = None) -> EventLog:
    """Return the log of a URL or a path, as a reader; its `open` makes it a writer.

    Args:
        url: `memory://`; `sqlite:///` and a percent-encoded path, relative with three slashes and
            absolute with four, with `?synchronous=full|normal|off`; `postgresql://` as libpq reads
            it, with `?world=`, `synchronous_commit=` and `lease_s=`; a URL with the scheme of an
            installed store; or a plain path that ends in `.db` or names a file.
        limits: Limits, of which `log_bytes_max` bounds a log in memory.

    Raises:
        StoreError: The URL is invalid, or names an unknown kind of store.
    """
    url = url_text(url)
    scheme, separator, _ = url.partition("://")
    if not separator:
        return _open_path(url)
    # Built-in schemes are not entry points: to read those takes 15 ms, and no other distribution
    # may replace a built-in store.
    opener = _BUILT_IN.get(scheme, _open_installed)
    return opener(url, limits or Limits())


def _open_path(path: str) -> "SqliteEventLog":
    if not path.endswith(".db") and not ("\0" not in path and Path(path).is_file()):
        raise _unknown(path, "it is no URL, and no path of a log")
    return _sqlite_at(path, path, "full")


def _open_memory(url: str, limits: Limits) -> MemoryEventLog:
    rest = url.removeprefix("memory://")
    if rest:
        raise _unknown(url, f"memory:// takes nothing more, got {rest!r}")
    return MemoryEventLog(log_bytes_max=limits.log_bytes_max)


def _open_sqlite(url: str, _limits: Limits) -> "SqliteEventLog":
    rest = url.removeprefix("sqlite://")
    path, _, query = rest.partition("?")
    if not path.startswith("/"):
        raise _unknown(url, f"did you mean sqlite:///{rest}?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    synchronous = options.pop("synchronous", "full")
    if options:
        raise _unknown(url, f"the only option is synchronous, got {', '.join(sorted(options))}")
    return _sqlite_at(url, unquoted(path[1:]), synchronous)


def _open_postgres(url: str, _limits: Limits) -> EventLog:
    address = address_of(url)
    try:
        from placet.stores.postgres.log import PostgresEventLog  # noqa: PLC0415  # extra
    except ImportError as error:
        raise StoreError(
            f"cannot use store {address.url!r}: the driver of PostgreSQL is not there "
            f"({error}); install it with `pip install '.[postgres]'` in a clone of placet",
            store=address.url,
        ) from error
    return PostgresEventLog(address)


_BUILT_IN: Final[Mapping[str, Opener]] = MappingProxyType(
    {
        "memory": _open_memory,
        "sqlite": _open_sqlite,
        "pack": lambda url, _: PackEventLog(Path(unquoted(url.removeprefix("pack:///")))),
        **dict.fromkeys(SCHEMES, _open_postgres),
    }
)


def _open_installed(url: str, limits: Limits) -> EventLog:
    """Open the log of a store that an installed distribution provides.

    Raises:
        StoreError: No distribution provides the scheme, or its opener is broken.
    """
    from placet.plugins.entry_points import PluginBroken, plugins  # noqa: PLC0415  # the kernel

    scheme, installed = url.partition("://")[0], plugins(GROUP)
    plugin = installed.get(scheme)
    if plugin is None:
        nearest = did_you_mean(scheme, [*_BUILT_IN, *installed])
        adds = "a distribution adds one by the entry point placet.stores"
        raise _unknown(url, f"there is no store {scheme!r}; {nearest} ({adds})")
    shown = shown_url(url)
    try:
        opener = plugin.load()
    except PluginBroken as error:
        raise StoreError(f"cannot use store {shown!r}: {error}", store=shown) from error
    log = opener(url, limits) if callable(opener) else opener
    if not isinstance(log, EventLog):
        members = [*EventLog.__annotations__, *(name for name in vars(EventLog) if name[0] != "_")]
        lacking = ", ".join(name for name in members if not hasattr(log, name))
        raise StoreError(
            f"cannot use store {shown!r}: expected an EventLog from {plugin}, got "
            f"{type(log).__name__!r} without {lacking}",
            store=shown,
        )
    return log


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
    path: Path | None = getattr(log, "file", None)
    return path


def lasting_url_of(log: EventLog) -> str:
    """Return a URL by which another process can open a log; with an absolute path for a file."""
    url: str = getattr(log, "lasting_url", log.url)
    return url


def is_lasting(log: EventLog) -> bool:
    """Return whether a log outlives its process, that is, is not in memory."""
    return log.durability != "memory"


def environment_of(log: EventLog) -> dict[str, str]:
    """Return the environment variables that another process needs to open a log by its URL."""
    environment: dict[str, str] = getattr(log, "environment", {})
    return environment


def fence_of(log: EventLog) -> Fence | None:
    """Return the fence of a log whose right to write belongs to a session; None for other stores.

    In other stores, opening the log takes the right from its writer.
    """
    fence: Fence | None = getattr(log, "fence", None)
    return fence


def change_feed_of(log: EventLog) -> ChangeFeed | None:
    """Subscribe to notifications of appends to a log; None if readers of the store must poll.

    Raises:
        StoreError: The store cannot be reached.
    """
    subscribe: Callable[[], ChangeFeed] | None = getattr(log, "subscribe", None)
    return None if subscribe is None else subscribe()
