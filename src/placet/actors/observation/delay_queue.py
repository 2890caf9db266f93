"""What one observer has seen and is not shown yet: pure, and told the time.

Each look puts in what it saw, in parts that come out at times of their own. What comes out at once
of one look is one observation. It never comes before its time, and per entity never in another
order; the line itself orders nothing else.
"""

from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

import msgspec

from placet.schemas.view import Change, DeliveredEvent, Observation


class Part(NamedTuple):
    """Some of what one look saw, to be shown together.

    Attributes:
        due_ns: From when on, in simulated nanoseconds.
        changes: Of entities.
        events: What was heard.
    """

    due_ns: int
    changes: tuple[Change, ...]
    events: tuple[DeliveredEvent, ...]


class _Look:
    """What is left of one look."""

    __slots__ = ("before_seq", "changes", "observation", "parts")

    def __init__(self, observation: Observation, before_seq: int, parts: int) -> None:
        self.observation = observation
        self.before_seq = before_seq
        self.parts = parts
        self.changes = len(observation.changes)


class DelayQueue:
    """The line of one observer.

    Attributes:
        held: How many changes and events are in it.
    """

    __slots__ = ("_due", "_looks", "_numbers", "_shown_at", "_upto_seq", "_waiting", "held")

    def __init__(self) -> None:
        self._numbers = count()
        self._looks: dict[int, _Look] = {}
        self._waiting: list[tuple[int, int, int, Part]] = []
        self._due: list[tuple[int, int, Part]] = []
        self._upto_seq = -1
        self._shown_at = 0.0
        self.held = 0

    @property
    def due_ns(self) -> int | None:
        """When the next part is to be shown; None if none waits."""
        return self._waiting[0][0] if self._waiting else None

    def put(self, observation: Observation, before_seq: int, parts: Iterable[Part]) -> None:
        """Put in what one look saw, in parts; they are all of it.

        Args:
            observation: What it saw.
            before_seq: `view_seq` of the look before it.
            parts: When each part of it is to be shown.
        """
        number, together = next(self._numbers), list(parts)
        self._looks[number] = _Look(observation, before_seq, len(together))
        self._upto_seq = observation.view_seq
        for part in together:
            heappush(self._waiting, (part.due_ns, number, next(self._numbers), part))
            self.held += len(part.changes) + len(part.events)

    def take(self, now_ns: int) -> Observation | None:
        """Take out what is due of the oldest look of which anything is; None if nothing is."""
        while self._waiting and self._waiting[0][0] <= now_ns:
            _, number, order, part = heappop(self._waiting)
            heappush(self._due, (number, order, part))
        if not self._due:
            return None
        number, parts = self._due[0][0], []
        while self._due and self._due[0][0] == number:
            parts.append(heappop(self._due)[2])
        look = self._looks[number]
        changes = tuple([change for part in parts for change in part.changes])
        events = tuple([event for part in parts for event in part.events])
        look.parts -= len(parts)
        look.changes -= len(changes)
        self.held -= len(changes) + len(events)
        if not look.parts:
            del self._looks[number]
        self._shown_at = max(self._shown_at, look.observation.sim_time)
        return msgspec.structs.replace(
            look.observation,
            view_seq=self._shown_seq,
            sim_time=self._shown_at,
            changes=changes,
            events=events,
            deferred_count=look.observation.deferred_count + self._late(number),
        )

    @property
    def _shown_seq(self) -> int:
        """Up to where everything was shown: before the oldest look that is not wholly out."""
        oldest = next(iter(self._looks.values()), None)
        return self._upto_seq if oldest is None else oldest.before_seq

    def _late(self, number: int) -> int:
        """Count the changes that are not shown though they are no younger than what is."""
        late = 0
        for other, look in self._looks.items():
            if other > number:
                break
            late += look.changes
        return late
