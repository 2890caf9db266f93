"""Counts the records that a question reads, for the charge of its caller."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import local
from typing import Any, cast

from placet.actors.ports import EventLog


class ReadCount:
    """The records that one question has read.

    Attributes:
        records: Number of records.
        size: Their bytes, as they are encoded.
    """

    __slots__ = ("records", "size")

    def __init__(self) -> None:
        self.records = 0
        self.size = 0


class _Counts(local):
    """The count of the question that the present thread answers; None for no question."""

    count: ReadCount | None = None


_PRESENT = _Counts()


@contextmanager
def counting(count: ReadCount) -> Iterator[None]:
    """Add the records of counted logs that the present thread reads to a count."""
    _PRESENT.count = count
    try:
        yield
    finally:
        _PRESENT.count = None


class _CountedLog:
    """A log that counts the records that are read of it."""

    def __init__(self, log: EventLog) -> None:
        self._log = log

    def read(self, from_record: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield `(ordinal, record)` pairs, as the log does."""
        count = _PRESENT.count or ReadCount()
        for ordinal, data in self._log.read(from_record):
            count.records += 1
            count.size += len(data)
            yield ordinal, data

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # whatever the log has
        return getattr(self._log, name)


def counted(log: EventLog) -> EventLog:
    """Return a log that counts its records as they are read."""
    return cast("EventLog", _CountedLog(log))
