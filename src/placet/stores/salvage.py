"""Saves what still holds of a damaged log into a new one; the damaged one is only read.

Records after the first damaged one are given up, sound or not, because their predecessor is
unknown.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from placet.actors.ports import EventLog
from placet.kernel.log.replay import Replayer
from placet.schemas.errors import LogFormatError, StoreError
from placet.schemas.log.record import LogAppend
from placet.stores.url import file_of

_APPEND_RECORDS = 256


@dataclass(slots=True)
class Salvage:
    """The result of copying the valid part of a damaged log.

    Attributes:
        past: The world, replayed from the valid records.
        why_not_more: Fault of the first invalid record; empty if the whole log is valid.
        waiting: Valid records that are not yet written to the copy.
    """

    past: Replayer = field(default_factory=Replayer)
    why_not_more: str = ""
    waiting: list[bytes] = field(default_factory=list)


def salvage(log: EventLog, into: EventLog) -> Salvage:
    """Copy the valid records at the start of a log, as far as chain and digests match. O(log).

    Args:
        log: The log; it is only read.
        into: An empty log; opened and closed here. A file that does not exist yet is there whole
            or not at all.

    Raises:
        StoreError: The log was compacted, so its first records cannot be copied; or the new log
            is not empty, or cannot be written.
    """
    start = log.start()
    if start.record:
        raise StoreError(
            f"cannot save {log.url}: it was compacted and begins at record {start.record}; "
            "restore the file from a copy",
            store=log.url,
        )
    path = file_of(into)
    if path is None or path.exists():
        return _copy(log, into)
    from placet.stores.sqlite.file import whole_log  # noqa: PLC0415  # few logs are damaged
    from placet.stores.sqlite.log import SqliteEventLog  # noqa: PLC0415  # as above

    try:
        with whole_log(path) as draft:
            return _copy(log, SqliteEventLog(draft))
    except OSError as error:
        message = f"cannot save into {into.url}: {error}; give a new path"
        raise StoreError(message, store=into.url) from error


def _copy(log: EventLog, into: EventLog) -> Salvage:
    epoch = into.open()
    try:
        if into.count():
            message = f"cannot save into {into.url}: it already has a log; give a new path"
            raise StoreError(message, store=into.url)
        saved = Salvage()
        seq = 0
        for data in _sound(log, saved):
            saved.waiting.append(data)
            if len(saved.waiting) == _APPEND_RECORDS:
                seq = _keep(into, epoch, saved, seq)
        _keep(into, epoch, saved, seq)
        return saved
    finally:
        into.close()


def _sound(log: EventLog, saved: Salvage) -> Iterator[bytes]:
    """Return the sound records, and the fault of the first damaged one."""
    try:
        for _, data in log.read():
            saved.past.apply(data)
            yield data
    except LogFormatError:
        raise
    except StoreError as error:
        saved.why_not_more = str(error)


def _keep(into: EventLog, epoch: int, saved: Salvage, seq_before: int) -> int:
    if saved.waiting:
        first = saved.past.journal.count - len(saved.waiting)
        seq = saved.past.ledger.seq
        into.append(LogAppend(first, seq_before, seq, tuple(saved.waiting)), epoch)
        saved.waiting.clear()
        return seq
    return seq_before
