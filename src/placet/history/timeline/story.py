"""The story of an agent, or of one request of it: the records of a log about it, in order.

    joined and left · its batches · the outcomes of their effects, with the persons who settled a
    doubt · the requests for approval of its intents, with the decisions · the refusals that a
    program noted

One pass over the log finds them, and continues when the log has grown. A page of the story then
costs its records.
"""

from collections.abc import Mapping
from threading import Lock
from typing import Final, NamedTuple

from placet.actors.ports import EventLog
from placet.history.agent_records import AgentRecords
from placet.history.column_rows import code_of, row_of
from placet.history.timeline.moments import event_of, noted_json
from placet.history.timeline.timeline import Place
from placet.kernel.arrays.row_codes import OK, refusal_of
from placet.kernel.plugin.approved import AMEND, ASK, DECIDE, SETTLE
from placet.kernel.plugin.noted_refusals import NotedRefusal
from placet.schemas.codec import Json
from placet.schemas.log.expand import expanded
from placet.schemas.log.record import (
    Admitted,
    Columns,
    Record,
    agents_of,
    intents_of,
)
from placet.stores.snapshots.recovery import decode

WORK_AT_ONCE: Final = 50_000
"""Records, and batches of groups, that one call of `read_on` reads."""

ENTRIES_MAX: Final = 50_000
"""Entries that are kept; the oldest are left out then."""

_APPROVALS: Final = frozenset({AMEND, ASK, DECIDE, SETTLE})


class StoryEntry(NamedTuple):
    """A record of a story.

    Attributes:
        place: Its place in the log.
        is_failure: It is a refusal, a failed effect or one in doubt, a denial, or a suspension.
        effect: Kind of the effect of which it is the outcome; empty for other records.
    """

    place: Place
    is_failure: bool
    effect: str = ""


class Story:
    """The records of a log about one agent. Methods block; threads may share it.

    Args:
        log: The log; it is only read.
        agent: The agent.
        request: Id of one of its requests, or its key; empty for all of the agent.

    Attributes:
        record: Number of records read.
        left_out: Number of older entries that are not kept.
    """

    def __init__(self, log: EventLog, agent: str, request: str = "") -> None:
        self._log, self._agent, self._request = log, agent, request
        self._lock = Lock()
        self._begin()

    def _begin(self) -> None:
        self.record = self.left_out = 0
        self._entries: list[StoryEntry] = []
        self._about = AgentRecords(self._agent, self._request)

    @property
    def total(self) -> int:
        """Number of entries, left out ones included."""
        return self.left_out + len(self._entries)

    @property
    def failures(self) -> int:
        """Number of the kept entries that are failures. O(entries)."""
        return sum(entry.is_failure for entry in self._entries)

    def read_on(self, work_max: int = WORK_AT_ONCE) -> bool:
        """Read about so many further records and batches; return whether the log's end was reached.

        Raises:
            StoreError: The log cannot be read.
        """
        with self._lock:
            start, end = self._log.start().record, self._log.count()
            if end < self.record or start > self.record:  # begun again, or compacted
                self._begin()
                self.record = start
            work = 0
            for ordinal, data in self._log.read(self.record):
                if work >= work_max or ordinal >= end:
                    break
                work += 1
                if self._about.may_be_about(data):
                    records = expanded(decode(data, ordinal))
                    work += len(records)
                    for batch, record in enumerate(records):
                        self._note(Place(ordinal, batch), record)
                self.record = ordinal + 1
            over = max(0, len(self._entries) - ENTRIES_MAX)
            del self._entries[:over]
            self.left_out += over
            return self.record >= self._log.count()

    def page(
        self, start: int | None, limit: int, *, is_backward: bool, failures: bool
    ) -> tuple[list[dict[str, Json]], int | None]:
        """Return the events of a page, in the order of reading, and the number to continue at.

        Args:
            start: Number of the first entry to look at, from 0; None is the first, or the last.
            limit: Largest number of events.
            is_backward: The newest is first.
            failures: Failures alone.

        Raises:
            StoreError: The log cannot be read.
        """
        with self._lock:
            entries, first = list(self._entries), self.left_out
        lowest = self._log.start().record
        step = -1 if is_backward else 1
        number = (first + len(entries) - 1 if is_backward else first) if start is None else start
        number = max(number, first) if step > 0 else min(number, first + len(entries) - 1)
        events: list[dict[str, Json]] = []
        while first <= number < first + len(entries):
            entry = entries[number - first]
            if entry.place.record >= lowest and (entry.is_failure or not failures):
                if len(events) == limit:
                    return events, number
                events.append(self._event(entry))
            number += step
        return events, None

    def _note(self, place: Place, record: Record) -> None:
        found = self._about.found(record)
        if found is not None:
            is_failure, effect = found
            self._entries.append(StoryEntry(place, is_failure, effect))

    def _event(self, entry: StoryEntry) -> dict[str, Json]:
        """Return an entry as an event of the player, with its failure, effect and codes."""
        _, data = next(self._log.read(entry.place.record))
        record = expanded(decode(data, entry.place.record))[entry.place.batch]
        event = event_of(entry.place, record, self._is_listed)
        event["is_failure"] = entry.is_failure
        if entry.effect:
            event["effect_kind"] = entry.effect
        became = [change for change in agents_of(record) if change.agent_id == self._agent]
        if became:
            event["became"] = "removed" if became[-1].is_removed else "registered"
        if isinstance(record, Columns):
            row = row_of(record, self._agent)
            code = OK if row is None else code_of(record, row)
            stage, name, message = refusal_of(record.reasons, code) if code else (None, "", "")
            event["row"] = row
            event["refusals"] = [] if stage is None else [[None, stage.value, name, message]]
        if isinstance(record, Admitted) and "noted" in event:
            calls = [call for intent in intents_of(record) for call in self._about.noted(intent)]
            event["noted"] = [noted_json(NotedRefusal(self._agent, call)) for call in calls]
        return event

    def _is_listed(self, intent: Mapping[str, Json]) -> bool:
        return intent["kind"] in _APPROVALS or self._about.is_own(intent)
