"""The pending input of one observer, bounded in memory however rarely the observer is read.

For an entity only the fact that it changed is recorded, so the latest value wins; events keep their
order. If entities or events exceed their bound, the next observation is a full snapshot, so the
observer misses no change of state. This module is pure: `hub.py` fills it and wakes the observer.
"""

from collections import deque
from collections.abc import Iterable

from placet.schemas.identity import Ref
from placet.schemas.view import DeliveredEvent


class DirtySet:
    """The input of one observer: entities changed since its last observation, undelivered events.

    Attributes:
        marks: Changed entities, oldest first, with the seq up to which the observer has seen each.
        is_all_marked: Every entity that the observer knows or may see may have changed.
        is_lost: The marks exceeded their bound; the next observation is a snapshot. True at first.
        events: Events not yet delivered, oldest first.
        events_dropped: Number of events dropped before these, because they exceeded the bound.
        overflows: How often `is_lost` became true after the first snapshot.

    Args:
        marks_max: Maximum number of marked entities.
        events_max: Maximum number of events.
    """

    def __init__(self, marks_max: int, events_max: int) -> None:
        self._marks_max = marks_max
        self.marks: dict[Ref, int] = {}
        self.is_all_marked = False
        self.is_lost = True
        self.events: deque[DeliveredEvent] = deque(maxlen=events_max)
        self.events_dropped = 0
        self.overflows = 0

    def mark(self, refs: Iterable[Ref], seq: int) -> None:
        """Record that entities changed; `seq` is the world's seq before the change."""
        if self.is_lost:
            return
        marks = self.marks
        for ref in refs:
            if ref not in marks:
                marks[ref] = seq
        if len(marks) > self._marks_max:
            self.overflow()

    def mark_all(self) -> None:
        """Record that every entity may have changed."""
        self.is_all_marked = not self.is_lost

    def overflow(self) -> None:
        """Drop all marks; the next observation will be a snapshot."""
        if not self.is_lost:
            self.overflows += 1
        self.is_lost, self.is_all_marked = True, False
        self.marks.clear()

    def replace(self, deferred: dict[Ref, int]) -> None:
        """Set the marks to the changes that an observation deferred, after it was made.

        `deferred`: entity -> seq up to which the observer has seen it.
        """
        self.marks = deferred
        self.is_lost = self.is_all_marked = False

    def add_event(self, event: DeliveredEvent) -> None:
        """Append an event; if the bound is reached, drop the oldest and force a snapshot."""
        if len(self.events) == self.events.maxlen:
            self.events_dropped += 1
            self.overflow()
        self.events.append(event)

    def take_events(self) -> tuple[tuple[DeliveredEvent, ...], int]:
        """Remove and return the events, with the number of events dropped before them."""
        events = tuple(self.events), self.events_dropped
        self.events.clear()
        self.events_dropped = 0
        return events

    @property
    def is_empty(self) -> bool:
        """Whether no change and no event is pending."""
        return not (self.marks or self.is_lost or self.is_all_marked or self.events)
