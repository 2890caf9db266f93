"""Resolve a store to the log that a question reads."""

from placet.actors.ports import EventLog
from placet.lab.errors import LabError
from placet.runtime.stores.files import quoted
from placet.runtime.stores.pack import pack_at
from placet.runtime.stores.sqlite.heartbeat import Heartbeat
from placet.runtime.stores.url import file_of, open_event_log


def log_of(store: str | EventLog) -> EventLog:
    """Return a log for reading: of a path, a packed file, or a URL.

    Raises:
        StoreError: The URL names no store.
    """
    if not isinstance(store, str):
        return store
    packed = pack_at(store)
    if packed is not None:
        return packed
    return open_event_log(store if "://" in store else f"sqlite:///{quoted(store)}")


def require_unwritten(log: EventLog) -> None:
    """Raise if another process writes a log, because its last tick is not known then.

    Raises:
        LabError: A live process writes it.
    """
    path = file_of(log)
    if path is None:
        return
    heartbeat = Heartbeat(path)
    writer = heartbeat.read()
    if writer is not None and heartbeat.is_alive(writer):
        raise LabError(
            f"{log.url} is written by {writer}, since {writer.since}: wait until the run ends, or "
            "stop it, and ask again; a copy made by `placet pack` can be asked at once"
        )
