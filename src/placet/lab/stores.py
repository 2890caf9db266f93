"""Whether another process writes the log that a question reads."""

from placet.actors.ports import EventLog
from placet.stores.sqlite.heartbeat import Heartbeat
from placet.stores.url import fence_of, file_of
from placet.sweeps.errors import LabError


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
