"""Long questions about logs: how far each has read, and the wish to end it.

A question is named by its page. Its thread reads watched logs: each record that is read is noted,
and ends the question once it was canceled.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, Final, cast

from placet.actors.ports import EventLog
from placet.schemas.codec import Json
from placet.schemas.errors import PlacetError

KEY_CHARS_MAX: Final = 64
_LOOKED_AT: Final = 100
"""Records of a pass; fewer are a look."""

_KEPT_MAX: Final = 64
"""Questions that are known at a time; the oldest one is forgotten, and cannot be canceled."""


class CanceledError(PlacetError):
    """The error of a question that its page has canceled."""


class Work:
    """One question.

    Attributes:
        run: Name of the log that it reads now; empty before the first.
        record: Ordinal of the latest record that it has read.
        records: Number of records of that log.
        passes: How often it has read a log; a look at a few records does not count.
        is_canceled: It ends at the next record.
    """

    __slots__ = ("_read", "is_canceled", "passes", "record", "records", "run")

    def __init__(self) -> None:
        self.run = ""
        self.record = self.records = self.passes = self._read = 0
        self.is_canceled = False

    def watched(self, name: str, log: EventLog) -> EventLog:
        """Return a log whose reads are noted here."""
        return cast("EventLog", _WatchedLog(self, name, log))

    def begin(self, name: str, records: int) -> None:
        """Note the beginning of a pass over a log."""
        self.run, self.record, self.records, self._read = name, 0, records, 0

    def note(self, record: int) -> None:
        """Note a record that is read.

        Raises:
            CanceledError: The question was canceled.
        """
        if self.is_canceled:
            raise CanceledError("the comparison was canceled")
        self.record = record
        self._read += 1
        self.passes += self._read == _LOOKED_AT

    def as_dict(self) -> dict[str, Json]:
        """Return how far the question is, as plain JSON."""
        return {
            "run": self.run,
            "record": self.record,
            "records": self.records,
            "passes": self.passes,
        }


class Works:
    """The questions of a server, by the names that their pages gave."""

    def __init__(self) -> None:
        self._works: dict[str, Work] = {}
        self._lock = Lock()

    def find(self, key: str) -> Work | None:
        """Return a question; None if it is over, or not begun."""
        return self._works.get(key)

    def cancel(self, key: str) -> None:
        """End a question; one that has not begun ends at its first record."""
        self._add(key).is_canceled = True

    @contextmanager
    def started(self, key: str) -> Iterator[Work]:
        """Yield the question of a name, which is forgotten after the block; empty is of no page."""
        work = self._add(key) if key else Work()
        try:
            yield work
        finally:
            with self._lock:
                self._works.pop(key, None)

    def _add(self, key: str) -> Work:
        with self._lock:
            work = self._works.setdefault(key, Work())
            for old in list(self._works)[:-_KEPT_MAX]:
                del self._works[old]
        return work


class _WatchedLog:
    """A log that notes in a question which of its records are read."""

    def __init__(self, work: Work, name: str, log: EventLog) -> None:
        self._work = work
        self._name = name
        self._log = log
        self.count: Callable[[], int] = log.count

    def read(self, from_record: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield `(ordinal, record)` pairs, as the log does."""
        work = self._work
        work.begin(self._name, self.count())
        for ordinal, data in self._log.read(from_record):
            work.note(ordinal)
            yield ordinal, data

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # whatever the log has
        return getattr(self._log, name)
