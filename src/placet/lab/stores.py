"""Resolve a store to the log that a question reads."""

from pathlib import Path
from typing import TypeAlias

from placet.actors.ports import EventLog
from placet.lab.log import Log
from placet.stores.reading import log_to_read
from placet.stores.sqlite.heartbeat import Heartbeat
from placet.stores.url import fence_of, file_of
from placet.sweeps.errors import LabError

Store: TypeAlias = str | Path | Log | EventLog
"""A path or URL of a log, or the open log."""


def log_of(store: Store) -> EventLog:
    """Return a log for reading.

    Raises:
        StoreError: The URL names no store, or the store is in memory.
    """
    if isinstance(store, Log):
        return log_to_read(store.url)
    return log_to_read(str(store)) if isinstance(store, str | Path) else store


def require_unwritten(log: EventLog) -> None:
    """Raise if another process writes a log, because its last tick is not known then.

    Raises:
        LabError: A live process writes it.
        StoreError: The store cannot be reached.
    """
    writer = _writer_of(log)
    if writer is not None:
        raise LabError(
            f"{log.url} is written by {writer}: wait until the run ends, or stop it, and ask "
            "again; a copy made by `placet pack` can be asked at once"
        )


def _writer_of(log: EventLog) -> str | None:
    path = file_of(log)
    if path is None:
        fence = fence_of(log)
        return None if fence is None else fence.holder()
    heartbeat = Heartbeat(path)
    writer = heartbeat.read()
    return f"{writer}, since {writer.since}" if writer and heartbeat.is_alive(writer) else None
