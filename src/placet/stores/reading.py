"""Open the log of an existing store to read it: a file, a packed log, or a database."""

from pathlib import Path
from typing import Protocol, TypeAlias, cast

from placet.actors.ports import EventLog
from placet.schemas.errors import StoreError
from placet.stores.files import quoted
from placet.stores.pack import pack_at
from placet.stores.url import file_of, is_lasting, open_event_log


class NamesLog(Protocol):
    """An object that names a log by its URL, such as `placet.Log`."""

    @property
    def url(self) -> str:
        """URL of the store."""


Store: TypeAlias = str | Path | NamesLog | EventLog
"""A path or URL of a log, a `placet.Log`, or the open log."""


def as_log(store: Store) -> EventLog:
    """Return the log of a path, a URL, a `placet.Log`, or an open log, for reading.

    Raises:
        StoreError: The URL names no store, or the store is in memory or a directory.
        TypeError: It is something else.
    """
    if isinstance(store, str | Path):
        return log_to_read(str(store))
    if hasattr(store, "read") and hasattr(store, "start"):
        return cast("EventLog", store)
    url = getattr(store, "url", None)
    if isinstance(url, str):
        return log_to_read(url)
    raise TypeError(
        "expected a log: a path such as town.db, a URL, a placet.Log or an open log, got "
        f"{store!r:.80}"
    )


def log_to_read(store: str) -> EventLog:
    """Return the log of an existing store, for reading only. No file is created or changed.

    Args:
        store: A path, which may have any ending, or a URL.

    Raises:
        StoreError: The URL names no store, or the store is in memory or a directory.
    """
    packed = pack_at(store)
    if packed is not None:
        return packed
    # A name without a scheme is a path, whatever its ending: the log says if it is not there.
    log = open_event_log(store if "://" in store else f"sqlite:///{quoted(store)}")
    path = file_of(log)
    if path is not None and path.is_dir():
        raise StoreError(
            f"cannot read {store}: it is a directory; give the path of a log in it", store=log.url
        )
    if not is_lasting(log):
        raise StoreError(
            f"cannot read {store}: a log in memory ends with its process; give the path of a log, "
            "such as town.db",
            store=log.url,
        )
    return log
