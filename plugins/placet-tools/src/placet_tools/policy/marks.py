"""Marks of earlier calls, for the rules about the order of calls.

A mark has the name of its marking and the values of some fields: "a lookup of order A7 is done".

    started: {count}, and the times of the latest calls where a window is asked for
    done:  {key, values}: the latest call that is done, and the parts of its output that rules read

    summed: the total of a field, `totals.py`

They are written in the batch of the call, or of its outcome, so two calls of one plan see each
other. A call that fails or is undone was started, and stays counted, but a total gets its value
back; an undone call is not done any more, and takes its mark away. A marking keeps its newest
`MARKS_MAX` marks.
"""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from hashlib import blake2b
from typing import Final, NamedTuple, Protocol

from placet.kernel.state.draft import Draft
from placet.schemas.codec import Json, canonical
from placet_tools.policy.expressions import AGENT
from placet_tools.policy.rules import Marking
from placet_tools.policy.totals import added, given_back, value_of
from placet_tools.records import Records

MARKS_MAX: Final = 100_000
"""Marks of one marking that the state keeps; beyond it the oldest is dropped."""

VALUE_BYTES_MAX: Final = 1_024
"""Bytes of a part of an output, as JSON, that a mark keeps; a larger one is left out."""

COUNTED: Final = "counted"
"""State of a marking whose marks are those of all calls in the log."""

COUNTING: Final = "counting"
"""State of a marking whose earlier calls are being read from the log."""


class MarkedCall(NamedTuple):
    """A call that leaves marks.

    Attributes:
        key: Key of the call.
        arguments: Its arguments.
        agent: Its agent.
    """

    key: str
    arguments: Mapping[str, Json]
    agent: str


class MarkStore(Protocol):
    """The marks of a state."""

    def is_counted(self, marking: Marking) -> bool:
        """Return whether the marks are those of all calls so far."""

    def get(self, name: str) -> Mapping[str, Json] | None:
        """Return the fields of a mark; None if there is none."""

    def put(self, marking: Marking, name: str, fields: Mapping[str, Json]) -> None:
        """Make a mark, or write fields of one."""

    def drop(self, marking: Marking, name: str) -> None:
        """Delete a mark, if it is there."""


class DraftMarks:
    """The marks of the state that a rule changes.

    The places of a marking are a ring: the mark that gets the place of an older one replaces it.
    """

    __slots__ = ("_draft", "_records")

    def __init__(self, draft: Draft, records: Records) -> None:
        self._draft = draft
        self._records = records

    def is_counted(self, marking: Marking) -> bool:
        """Return whether the marks are those of all calls so far."""
        state = self._draft.get(self._records.markings, marking.id, "state")
        return bool(state == COUNTED)

    def get(self, name: str) -> Mapping[str, Json] | None:
        """Return the fields of a mark; None if there is none."""
        return self._draft.entity(self._records.marks, name)

    def put(self, marking: Marking, name: str, fields: Mapping[str, Json]) -> None:
        """Make a mark, or write fields of one; nothing of a marking that the state does not have.

        Such a marking is of a new policy, and its calls are counted before it decides.
        """
        draft, records = self._draft, self._records
        made = draft.get(records.markings, marking.id, "made")
        if made is None:
            return
        if draft.exists(records.marks, name):
            for field, value in fields.items():
                draft.put(records.marks, name, field, value)
            return
        place = f"{marking.id}:{made % MARKS_MAX}"
        if draft.exists(records.mark_places, place):
            self._drop_at(place)
            draft.put(records.mark_places, place, "mark", name)
        else:
            draft.create(records.mark_places, place, {"mark": name})
        draft.create(records.marks, name, {"place": place, **fields})
        draft.put(records.markings, marking.id, "made", made + 1)

    def drop(self, marking: Marking, name: str) -> None:
        """Delete a mark, if it is there; its place stays taken until the ring comes to it."""
        if self._draft.exists(self._records.marks, name):
            self._draft.delete(self._records.marks, name)

    def drop_latest(self, marking_id: str, count: int) -> bool:
        """Delete the newest marks of a marking; return whether all are deleted."""
        draft, records = self._draft, self._records
        made = draft.get(records.markings, marking_id, "made", 0)
        draft.charge(min(made, count))
        for number in range(made - 1, made - 1 - min(made, count), -1):
            place = f"{marking_id}:{number % MARKS_MAX}"
            if not draft.exists(records.mark_places, place):  # the ring went round
                return True
            self._drop_at(place)
            draft.delete(records.mark_places, place)
            draft.put(records.markings, marking_id, "made", number)
        return bool(made <= count)

    def _drop_at(self, place: str) -> None:
        """Delete the mark of a place, if it was not dropped and made anew at another place."""
        draft, marks = self._draft, self._records.marks
        name = draft.get(self._records.mark_places, place, "mark")
        if draft.get(marks, name, "place") == place:
            draft.delete(marks, name)


class MemoryMarks:
    """Marks in memory, such as the marks that are counted from a log.

    Attributes:
        by_marking: Id of a marking -> its marks by name, the oldest first.
    """

    def __init__(self) -> None:
        self.by_marking: dict[str, dict[str, dict[str, Json]]] = {}

    def is_counted(self, marking: Marking) -> bool:
        """Return true: the caller has counted the calls."""
        return True

    def get(self, name: str) -> Mapping[str, Json] | None:
        """Return the fields of a mark; None if there is none."""
        return self.by_marking.get(_marking_of(name), {}).get(name)

    def put(self, marking: Marking, name: str, fields: Mapping[str, Json]) -> None:
        """Make a mark, or write fields of one."""
        marks = self.by_marking.setdefault(marking.id, {})
        marks.setdefault(name, {}).update(fields)
        if len(marks) > MARKS_MAX:
            del marks[next(iter(marks))]

    def drop(self, marking: Marking, name: str) -> None:
        """Delete a mark, if it is there."""
        self.by_marking.get(marking.id, {}).pop(name, None)


class OverlaidMarks:
    """Marks over other marks, which a dry run does not change."""

    def __init__(self, below: MarkStore) -> None:
        self._below = below
        self._written: dict[str, Mapping[str, Json] | None] = {}

    def is_counted(self, marking: Marking) -> bool:
        """Return whether the marks below are those of all calls so far."""
        return self._below.is_counted(marking)

    def get(self, name: str) -> Mapping[str, Json] | None:
        """Return the fields of a mark; None if there is none."""
        return self._written[name] if name in self._written else self._below.get(name)

    def put(self, marking: Marking, name: str, fields: Mapping[str, Json]) -> None:
        """Make a mark, or write fields of one, here alone."""
        self._written[name] = {**(self.get(name) or {}), **fields}

    def drop(self, marking: Marking, name: str) -> None:
        """Hide a mark."""
        self._written[name] = None


def mark_name(marking: Marking, call: MarkedCall) -> str:
    """Return the name of the mark that a call has, by the values of the marking's fields."""
    values = [
        call.agent if field == AGENT else _plain(call.arguments.get(field)) for field in marking.by
    ]
    digest = blake2b(canonical(values), digest_size=16).hexdigest()
    return f"{marking.id}:{digest}"


def note_started(
    markings: Iterable[Marking], marks: MarkStore, call: MarkedCall, now_ns: int
) -> None:
    """Count a call that begins.

    Args:
        markings: The markings of its tool.
        marks: The marks.
        call: The call.
        now_ns: Simulated time, nanoseconds; read by markings with a window alone.
    """
    for marking in markings:
        if marking.event != "started":
            continue
        name = mark_name(marking, call)
        if marking.summed:
            value = value_of(call.arguments.get(marking.summed)) or Fraction(0)
            fields = added(marking, marks.get(name), value, call.key, now_ns)
            marks.put(marking, name, fields)
            continue
        count = (marks.get(name) or {}).get("count", 0)
        times = {str(count % marking.window): now_ns} if marking.window else {}
        marks.put(marking, name, {"count": count + 1, **times})


def note_done(
    markings: Iterable[Marking], marks: MarkStore, call: MarkedCall, output: Json
) -> None:
    """Note that a call is done, with the parts of its output that rules read."""
    for marking in markings:
        if marking.event == "done":
            values = dict(_values_at(output, marking.paths))
            marks.put(marking, mark_name(marking, call), {"key": call.key, "values": values})


def note_failed(markings: Iterable[Marking], marks: MarkStore, call: MarkedCall) -> None:
    """Take the value of a call that failed, or was undone, from the totals."""
    for marking in markings:
        name = mark_name(marking, call)
        mark = marks.get(name) if marking.summed else None
        if mark is not None:
            value = value_of(call.arguments.get(marking.summed)) or Fraction(0)
            if fields := given_back(marking, mark, value, call.key):
                marks.put(marking, name, fields)


def note_undone(markings: Sequence[Marking], marks: MarkStore, call: MarkedCall) -> None:
    """Take away the mark of a call that is undone, if no later call has made it its own."""
    note_failed(markings, marks, call)
    for marking in markings:
        if marking.event == "done":
            name = mark_name(marking, call)
            if (marks.get(name) or {}).get("key") == call.key:
                marks.drop(marking, name)


def _values_at(output: Json, paths: Iterable[str]) -> Iterable[tuple[str, Json]]:
    """Yield the values of an output at paths; a missing or too large value is left out."""
    for path in paths:
        value = output
        for name in path.split("."):
            if not isinstance(value, Mapping) or name not in value:
                break
            value = value[name]
        else:
            if len(canonical(value)) <= VALUE_BYTES_MAX:
                yield path, value


def _plain(value: Json) -> Json:
    """Return a value in the form in which equal numbers of two tools are equal."""
    is_whole = isinstance(value, float) and value.is_integer()
    return int(value) if is_whole else value


def _marking_of(name: str) -> str:
    return name.partition(":")[0]
