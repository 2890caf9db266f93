"""The story of an agent, or of one request of it: the records of a log about it, in order.

    joined and left · its batches · the outcomes of their effects · the requests for approval of its
    intents, with the decisions · the refusals that a program noted

One pass over the log finds them, and continues when the log has grown. A page of the story then
costs its records.
"""

from collections.abc import Iterator, Mapping
from threading import Lock
from typing import Final, NamedTuple

from placet.actors.ports import EventLog
from placet.history.batch_outcomes import is_held
from placet.history.column_rows import code_of, row_of
from placet.history.timeline.moments import event_of, noted_json
from placet.history.timeline.timeline import Place
from placet.kernel.arrays.row_codes import OK, refusal_of
from placet.kernel.plugin.approved import AMEND, ASK, DECIDE, key_of
from placet.kernel.plugin.noted_refusals import NotedRefusal, noted_refusals
from placet.schemas.batch import sequence_form
from placet.schemas.codec import Json, canonical
from placet.schemas.log.expand import expanded
from placet.schemas.log.record import (
    Admitted,
    AgentChanged,
    Columns,
    EffectChanged,
    Record,
    Refused,
    Scheduled,
    Settled,
    SettlementFailed,
    TableMade,
    agents_of,
    intents_of,
)
from placet.stores.snapshots.recovery import decode

WORK_AT_ONCE: Final = 50_000
"""Records, and batches of groups, that one call of `read_on` reads."""

ENTRIES_MAX: Final = 50_000
"""Entries that are kept; the oldest are left out then."""

_SEARCHED_MAX: Final = 16
"""Open effects and requests whose names are searched for in a record before it is decoded."""

_APPROVALS: Final = frozenset({AMEND, ASK, DECIDE})
_NOT_DONE: Final = frozenset({"deny", "expire", "stale"})
_ENDED: Final = "session.end"
_FAILED: Final = frozenset({"refused", "failed"})


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
        form = sequence_form(agent)
        self._names = [canonical(agent), *([] if form is None else [canonical(form[0])])]
        self._lock = Lock()
        self._begin()

    def _begin(self) -> None:
        self.record = self.left_out = 0
        self._entries: list[StoryEntry] = []
        self._effects: dict[tuple[int, int], str] = {}
        self._requests: set[str] = set()

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
                if self._may_be_about(data):
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

    def _may_be_about(self, data: bytes) -> bool:
        """Return whether a record may be of the story; a search in its bytes is cheap."""
        if any(name in data for name in self._names):
            return True
        if len(self._effects) + len(self._requests) > _SEARCHED_MAX:
            return True
        seqs = {seq for seq, _ in self._effects}
        return any(canonical(one) in data for one in (*seqs, *self._requests))

    def _note(self, place: Place, record: Record) -> None:
        found = self._found(record)
        if found is not None:
            is_failure, effect = found
            self._entries.append(StoryEntry(place, is_failure, effect))

    def _found(self, record: Record) -> tuple[bool, str] | None:
        """Return whether a record is a failure, and its effect; None if it is not of the story."""
        match record:
            case Admitted() | Refused() | Scheduled():
                return self._of_batch(record)
            case SettlementFailed() | Settled() | EffectChanged():
                return self._of_effect(record)
            case Columns():
                row = row_of(record, self._agent)
                is_wanted = row is not None and self._request in {"", record.req_id}
                return (bool(code_of(record, row)), "") if is_wanted and row is not None else None
            case _ if self._request:
                return None
            case AgentChanged():
                is_own = record.agent_id == self._agent
                return (record.what == "suspended", "") if is_own else None
            case TableMade() if record.members is not None:
                form = sequence_form(self._agent)
                is_member = form is not None and form[0] == record.stem and form[1] < record.count
                return (False, "") if is_member else None
            case _:
                return (False, "") if self._is_changed(record) else None

    def _of_effect(self, record: Settled | EffectChanged) -> tuple[bool, str] | None:
        at = record.effect_seq, record.effect_index
        kind = self._effects.get(at)
        if kind is None:
            return None
        if isinstance(record, EffectChanged):
            return record.what == "in_doubt", kind
        if not isinstance(record, SettlementFailed):
            del self._effects[at]
        return isinstance(record, SettlementFailed) or not record.succeeded, kind

    def _of_batch(self, record: Admitted | Refused | Scheduled) -> tuple[bool, str] | None:
        if not self._requests and not any(name in record.encoded for name in self._names):
            is_born = not self._request and self._is_changed(record)
            return (False, "") if is_born else None
        intents = intents_of(record)
        own = [place for place, intent in enumerate(intents) if self._is_own(intent)]
        others = [self._of_other(intent) for intent in intents]
        is_about = any(other is not None for other in others)
        is_born = not self._request and self._is_changed(record)
        if not (own or is_about or is_born):
            return None
        if isinstance(record, Admitted) and own:
            seqs = {_seq_at(record, place) for place in own}
            for index, (seq, kind, _, agent) in enumerate(record.effects):
                if seq in seqs or (agent == self._agent and not self._request):
                    self._effects[seq, index] = kind
        is_refused = bool(own) and isinstance(record, Refused) and not is_held(record)
        is_failed = any(_ends_badly(intents[place]) for place in own)
        return is_refused or is_failed or any(other is True for other in others), ""

    def _is_changed(self, record: Record) -> bool:
        """Return whether a record registered or removed the agent."""
        return any(change.agent_id == self._agent for change in agents_of(record))

    def _is_own(self, intent: Mapping[str, Json]) -> bool:
        if intent["agent_id"] != self._agent:
            return False
        return self._request in {"", intent["req_id"], key_of(intent["req_id"])}

    def _of_other(self, intent: Mapping[str, Json]) -> bool | None:
        """Return whether an intent about the agent is a failure; None if it is not about it."""
        kind, payload = intent["kind"], intent["payload"]
        if kind in {ASK, AMEND}:
            held = payload if kind == ASK else payload["request"]
            is_known = kind == AMEND and payload["id"] in self._requests
            if not (is_known or any(self._is_held_for(one) for one in held["intents"])):
                return None
            self._requests.add(held["id"])
            return False
        if kind == DECIDE:
            return payload["decision"] in _NOT_DONE if payload["id"] in self._requests else None
        return True if any(self._noted(intent)) else None

    def _is_held_for(self, one: Mapping[str, Json]) -> bool:
        return one["agent"] == self._agent and self._request in {"", one["key"]}

    def _noted(self, intent: Mapping[str, Json]) -> Iterator[Mapping[str, Json]]:
        """Yield the calls of the agent whose refusal an intent notes."""
        keys = {"", key_of(self._request), self._request} if self._request else {""}
        for agent, call in noted_refusals([intent]):
            if agent == self._agent and (not self._request or call["key"] in keys):
                yield call

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
            calls = [call for intent in intents_of(record) for call in self._noted(intent)]
            event["noted"] = [noted_json(NotedRefusal(self._agent, call)) for call in calls]
        return event

    def _is_listed(self, intent: Mapping[str, Json]) -> bool:
        return intent["kind"] in _APPROVALS or self._is_own(intent)


def _seq_at(record: Admitted, position: int) -> int:
    """Return the seq of an intent of an admitted batch."""
    rank = position if record.order is None else record.order.index(position)
    return record.seq - len(record.contexts) + 1 + rank


def _ends_badly(intent: Mapping[str, Json]) -> bool:
    """Return whether an intent records the end of a plan that was not applied."""
    return intent["kind"] == _ENDED and intent["payload"].get("outcome") in _FAILED
