"""What waits for one observer: bounded, and the same size however long it does not look.

Of an entity it is only noted *that* it changed, so the latest value wins; what was heard stays in
order. What does not fit becomes one snapshot: the observer is told everything anew, and misses no
change. It is pure: who waits for it, and who fills it, is in `hub.py`.
"""

from collections import deque
from collections.abc import Iterable

from placet.schemas.identity import Ref
from placet.schemas.view import DeliveredEvent


class DirtySet:
    """Marks on entities, and events.

    Attributes:
        marks: What may look otherwise, and up to which seq it is as it was shown; oldest first.
        is_all_marked: All that it knows or may see may have changed.
        is_lost: The marks did not fit; the next observation is a snapshot. So is the first.
        events: What was heard, oldest first.
        events_dropped: How many were heard before these and did not fit.
        overflows: How often it became lost.

    Args:
        marks_max: How many entities it marks.
        events_max: How many events it keeps.
    """

    __slots__ = (
        "_marks_max",
        "events",
        "events_dropped",
        "is_all_marked",
        "is_lost",
        "marks",
        "overflows",
    )

    def __init__(self, marks_max: int, events_max: int) -> None:
        self._marks_max = marks_max
        self.marks: dict[Ref, int] = {}
        self.is_all_marked = False
        self.is_lost = True
        self.events: deque[DeliveredEvent] = deque(maxlen=events_max)
        self.events_dropped = 0
        self.overflows = 0

    def mark(self, refs: Iterable[Ref], seq: int) -> None:
        """Note that entities may look otherwise since a seq."""
        if self.is_lost:
            return
        marks = self.marks
        for ref in refs:
            if ref not in marks:
                marks[ref] = seq
        if len(marks) > self._marks_max:
            self.lose()

    def mark_all(self) -> None:
        """Note that everything may look otherwise."""
        self.is_all_marked = not self.is_lost

    def lose(self) -> None:
        """Forget the marks: the next observation is a snapshot."""
        if not self.is_lost:
            self.overflows += 1
        self.is_lost, self.is_all_marked = True, False
        self.marks.clear()

    def keep(self, late: dict[Ref, int]) -> None:
        """Take note that all that was marked has been looked at, and that some of it is late."""
        self.marks = late
        self.is_lost = self.is_all_marked = False

    def tell(self, event: DeliveredEvent) -> None:
        """Put an event behind the others."""
        if len(self.events) == self.events.maxlen:
            self.events_dropped += 1
            self.lose()
        self.events.append(event)

    def take_events(self) -> tuple[tuple[DeliveredEvent, ...], int]:
        """Take out the events, and the count of those that are missing before them."""
        taken = tuple(self.events), self.events_dropped
        self.events.clear()
        self.events_dropped = 0
        return taken

    @property
    def is_empty(self) -> bool:
        """Nothing waits."""
        return not (self.marks or self.is_lost or self.is_all_marked or self.events)
