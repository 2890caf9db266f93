"""Wall times of records: computed from the latest time that a program noted before them."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from placet.actors.ports import EventLog
from placet.kernel.plugin.noted_times import NOTE_TIME, notes_time
from placet.schemas.codec import Json
from placet.schemas.errors import PlacetError, StoreError
from placet.schemas.log.expand import expanded
from placet.schemas.log.record import Admitted, Record, intents_of
from placet.stores.snapshots.recovery import decode

_US: Final = 1_000
_NOTE: Final = f".{NOTE_TIME}".encode()


class NotedTime:
    """A wall time and the simulated time at which it was noted.

    Args:
        payload: Payload of an intent of a kind `<domain>.note_time`.
        now_ns: Simulated time of its record, nanoseconds.

    Raises:
        ValueError: The text is no time.
    """

    __slots__ = ("_now_ns", "at")

    def __init__(self, payload: Mapping[str, Json], now_ns: int) -> None:
        self.at = datetime.fromisoformat(payload["at"])
        self._now_ns = now_ns

    def wall_time(self, now_ns: int) -> datetime:
        """Return the wall time at a later simulated time, nanoseconds."""
        return self.at + timedelta(microseconds=(now_ns - self._now_ns) // _US)


class WallTimes:
    """The wall times of a log: of each record after a noted time. O(log) to make.

    A log that is damaged has the times before the damage, of which its other readers tell.

    Args:
        log: The log; it is only read.
    """

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._ordinals: list[int] = []
        self._noted: list[NotedTime] = []
        with suppress(StoreError):
            for ordinal, data in log.read(log.start().record):
                if _NOTE in data:
                    self.note(ordinal, expanded(decode(data, ordinal)))

    def __bool__(self) -> bool:
        return bool(self._noted)

    def note(self, ordinal: int, records: Iterable[Record]) -> None:
        """Add the times that a record at the end of the log notes."""
        for record in records:
            if isinstance(record, Admitted) and _NOTE in record.encoded:
                for intent in intents_of(record):
                    if notes_time(intent["kind"]):
                        self._ordinals.append(ordinal)
                        self._noted.append(NotedTime(intent["payload"], record.now_ns))

    def of(self, ordinal: int, record: Record) -> datetime | None:
        """Return the wall time of a record; None before the first noted time."""
        at = bisect_right(self._ordinals, ordinal)
        return self._noted[at - 1].wall_time(record.now_ns) if at else None

    def first_from(self, when: datetime) -> int:
        """Return the ordinal number of the first record at a wall time or later. O(log).

        Raises:
            PlacetError: The log has no wall times.
            StoreError: The log cannot be read.
        """
        if not self._noted:
            raise PlacetError(
                f"{self._log.url} has no wall times, because no program noted one (a gate does); "
                "select by seq"
            )
        # The record that notes a later time is not before `when`, nor is any after it.
        at = bisect_left([noted.at for noted in self._noted], when)
        start = self._ordinals[at - 1] if at else self._log.start().record
        for ordinal, data in self._log.read(start):
            wall_time = self.of(ordinal, expanded(decode(data, ordinal))[-1])
            if wall_time is not None and wall_time >= when:
                return ordinal
        return self._log.count()
