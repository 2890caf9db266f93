"""Positions, moments, steps and searches on the time line of a log.

A place is a record, and inside a `SingleBlock` a batch of it: its moment is that of the world after
it.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from threading import Lock
from typing import Final, Literal, NamedTuple, TypeAlias, TypeVar

from placet.actors.ports import EventLog
from placet.history.batch_outcomes import outcome_of
from placet.history.column_rows import code_of, refused_count, row_of
from placet.history.timeline.fold import PlayedState, changed_in
from placet.history.timeline.frames import Bar, FrameFiles, Stretch, count_in
from placet.history.timeline.index import Index, agents_in, population_mark_of
from placet.history.timeline.tables import written_tables
from placet.schemas.codec import Json
from placet.schemas.errors import StoreError
from placet.schemas.log.column_summary import rows_of
from placet.schemas.log.expand import expanded
from placet.schemas.log.intents import decode_intents
from placet.schemas.log.record import (
    Admitted,
    Checkpoint,
    Columns,
    Record,
    Refused,
    Scheduled,
    Tick,
    agents_of,
)
from placet.stores.append_rules import OvertakenError
from placet.stores.snapshots.recovery import decode, read_on

T = TypeVar("T")
Unit: TypeAlias = Literal["record", "tick"]

LAST: Final = 2**31
"""As the batch of a place: the last one of the record."""
_BARS_MAX: Final = 400
_STEP_WORK_MAX: Final = 200_000
"""Records, batches and changes of one answer to `steps`; it ends early where they are more."""
_ROWS_A_CHANGE: Final = 4
"""Rows of a written table that count as one change: they are answered as arrays."""
_LOOK_BACK_MAX: Final = 4_096
"""Records among which `records_to` looks for those that changed something."""
_BATCHES: Final = Admitted | Refused | Scheduled


class Place(NamedTuple):
    """A place in a log: after a batch of a record.

    Attributes:
        record: Ordinal number of the record.
        batch: Position of the batch in a `SingleBlock`; 0 for other records, `LAST` for the end.
    """

    record: int
    batch: int = LAST


class NoPlaceError(StoreError):
    """The error of a place that a log does not have, or does not have any more.

    Attributes:
        first: The first place of the log.
        is_gone: The log had the place, and was compacted since.
    """

    def __init__(self, message: str, *, first: Place, is_gone: bool = False) -> None:
        super().__init__(message)
        self.first = first
        self.is_gone = is_gone


@dataclass(slots=True)
class Moment:
    """The world at a place.

    Attributes:
        place: The place.
        batches: Number of batches in its record, 1 for a record that is no group.
        seq: Sequence number of the world.
        now_ns: Simulated time, nanoseconds.
        ticks: Number of ticks before it.
        last: The record of the batch, or the record; None at the start of a compacted log.
        state: The state. It belongs to the time line, and is true until the query ends.
    """

    place: Place
    batches: int
    seq: int
    now_ns: int
    ticks: int
    last: Record | None
    state: PlayedState


@dataclass(slots=True)
class PlayedStep:
    """One step forward, as a player draws it.

    Attributes:
        place: The place after the step.
        seq: Sequence number of the world there.
        now_ns: Simulated time there, nanoseconds.
        ticks: Number of ticks before it.
        admitted: Number of admitted intents in the step.
        refused: Number of refused intents in the step, without held ones.
        moved: (collection, entity) -> the new value of its field `position`; None for an entity
            that was deleted or has no position any more. Rows of tables are not among them.
        cells: Likewise, the new value of its field `cell`.
        tables: Names of the tables that were written.
        collections: Names of the other collections that were written.
        records: `(place, record)` of the latest batches, at most `RECORDS_SHOWN`.
    """

    place: Place
    seq: int = 0
    now_ns: int = 0
    ticks: int = 0
    admitted: int = 0
    refused: int = 0
    moved: dict[tuple[str, str], Json] = field(default_factory=dict)
    cells: dict[tuple[str, str], Json] = field(default_factory=dict)
    tables: set[str] = field(default_factory=set)
    collections: set[str] = field(default_factory=set)
    records: list[tuple[Place, Record]] = field(default_factory=list)


RECORDS_SHOWN: Final = 24
"""Records of one step that are shown."""


class Query(NamedTuple):
    """The conditions of a search; a batch must fulfill all of them.

    Attributes:
        agent: An intent of this agent.
        kind: An intent of this kind.
        is_refused: The batch was refused, or notes a refusal of the agent; it was not held.
    """

    agent: str | None = None
    kind: str | None = None
    is_refused: bool = False

    def matches(self, record: Record) -> bool:
        """Return whether the record of a batch is looked for."""
        if isinstance(record, Columns):
            return self._matches_columns(record)
        if not isinstance(record, _BATCHES):
            return False
        noted = set[str]()
        if self.is_refused:
            outcome = outcome_of(record)
            noted = {one.agent for one in outcome.noted}
            if outcome.refused == 0:
                return False
        if self.agent is not None and self.agent not in (noted or agents_in(record)):
            return False
        if self.kind is None:
            return True
        agent = self.agent
        return any(
            kind == self.kind and agent in {None, name}
            for name, _, kind, _, _ in decode_intents(record.encoded)
        )

    def _matches_columns(self, record: Columns) -> bool:
        """Return whether a column batch has a row that is looked for."""
        if self.kind not in {None, record.kind}:
            return False
        if self.agent is None:
            return not self.is_refused or bool(refused_count(record))
        row = row_of(record, self.agent)
        return row is not None and (not self.is_refused or bool(code_of(record, row)))

    def may_be_in(self, stretch: Stretch, *, has_agent: bool) -> bool:
        """Return whether a stretch may have such a record, by its summary."""
        if self.agent is not None and not has_agent:
            marks = {self.agent, population_mark_of(self.agent)}
            if marks.isdisjoint(stretch.agents):
                return False
        return not self.is_refused or any(refused for _, _, refused in stretch.bars)


@dataclass(slots=True)
class _Cursor:
    """A state that moves forward: all records before `record`, and `batches` batches of that."""

    state: PlayedState
    record: int
    batches: int
    seq: int
    now_ns: int
    last: Record | None = None
    size: int = 1

    def is_before(self, place: Place) -> bool:
        """Return whether a place can be reached by going forward."""
        return (self.record, self.batches) <= (place.record, place.batch + 1)


class Timeline:
    """The time line of one log, for any number of readers. Methods block; threads may share it.

    Args:
        log: The log; it is only read, and may be written meanwhile.
        files: The folder of its key frames; None keeps them in memory.
        on_fault: Called once, with one sentence, if a key frame in the folder is forged or damaged.

    Attributes:
        log: The log.
        index: The key frames, and summaries of the records.
    """

    def __init__(
        self,
        log: EventLog,
        files: FrameFiles | None,
        on_fault: Callable[[str], None] = lambda _sentence: None,
    ) -> None:
        self.log = log
        self.index = Index(log, files, on_fault)
        self._lock = Lock()
        self._cursors: list[_Cursor | None] = [None, None]
        """The states of the latest moment, and of the latest moment ahead."""
        self._compactions = 0

    @property
    def first(self) -> Place:
        """The first place: the start of a compacted log, else after the first record."""
        start = self.index.start
        return Place(start.record - 1) if start.record else Place(0, 0)

    def look(self, place: Place, fn: Callable[[Moment], T], *, is_ahead: bool = False) -> T:
        """Call a function with the moment at a place, and return its result.

        O(key frame + the records between that and the place); nothing for a step forward.

        Args:
            place: The place.
            fn: The function.
            is_ahead: Keep this state beside that of the latest moment: steps are read in advance.

        Raises:
            NoPlaceError: The log has no such place, or none any more.
            StoreError: The log cannot be read.
        """
        with self._lock:
            for _ in range(3):
                try:
                    return fn(self._moment(place, int(is_ahead)))
                except OvertakenError:
                    self._cursors = [None, None]
                    self.index.catch_up()
                except (OSError, ValueError):  # of a key frame
                    self._cursors = [None, None]
                    self.index.forget()
            raise self._no_place(place)

    def require(self, place: Place) -> None:
        """Raise if the log has no such place, or none any more; else do nothing.

        Raises:
            NoPlaceError: The log has no such place.
        """
        if place.record >= self.log.count() or place.record < self.first.record:
            raise self._no_place(place)

    def at_seq(self, seq: int) -> Place:
        """Return the first place at which the world has reached a seq.

        Raises:
            NoPlaceError: The log ends before it.
        """
        if seq <= self.index.start.seq:
            return self.first
        for ordinal, data in self.log.read(self.log.find_seq(seq)):
            for at, record in enumerate(expanded(decode(data, ordinal))):
                if record.seq >= seq:
                    return Place(ordinal, at)
        raise NoPlaceError(
            f"{self.log.url} has no seq {seq}: it ends at seq {self.index.seq}", first=self.first
        )

    def at_tick(self, tick: int) -> Place:
        """Return the place after a number of ticks; 0 is before the first batch.

        Raises:
            NoPlaceError: The log has fewer ticks.
        """
        index = self.index
        if tick == 0:
            first = index.record if index.first_batch is None else index.first_batch
            return max(Place(first - 1), self.first)
        if tick > len(index.ticks):
            raise NoPlaceError(
                f"{self.log.url} has no tick {tick}: it has {len(index.ticks)} so far",
                first=self.first,
            )
        return Place(index.ticks[tick - 1], 0)

    def stepped(self, place: Place, by: Unit, count: int) -> Place:
        """Return the place so many steps on, or back if `count` is negative; at most the ends.

        Raises:
            NoPlaceError: The log does not have the place to step from.
        """
        if not self.first.record <= place.record < self.log.count():
            raise self._no_place(place)
        if by == "tick" and self.index.ticks:
            return self._stepped_by_tick(place, count)
        if count < 0:
            return self._back(place, -count)
        for at, _ in islice(self._places_after(place), count):
            place = at
        return place

    def steps(self, place: Place, by: Unit, count: int) -> list[PlayedStep]:
        """Return the next steps after a place, at most `count`; fewer at the end of the log."""
        steps: list[PlayedStep] = []
        step = PlayedStep(place)
        work = 0
        by_tick = by == "tick" and bool(self.index.ticks)
        ticks = self.ticks_before(place)
        for at, record in self._places_after(place):
            work += 1 + self._note(step, at, record)
            ticks += self._is_tick(at)
            step.ticks = ticks
            if by_tick and not self._is_tick(at) and at.record < self.index.record - 1:
                continue
            steps.append(step)
            if len(steps) >= count or work >= _STEP_WORK_MAX:
                break
            step = PlayedStep(at)
        return steps

    def records_to(self, place: Place, limit: int) -> list[tuple[Place, Record]]:
        """Return the latest `(place, record)` pairs up to a place, oldest first.

        Ticks that changed nothing, and checkpoints, are left out.
        """
        end, width = place.record + 1, 1
        lowest = max(self.index.start.record, end - _LOOK_BACK_MAX, 0)
        found: list[tuple[Place, Record]] = []
        while end > lowest and len(found) < limit:  # a record may be a group of thousands
            first = max(lowest, end - width)
            page = [
                (at, record)
                for at, record in self._between(first, end)
                if at <= place and not _is_silent(record)
            ]
            found = [*page, *found]
            end, width = first, 2 * width
        return found[-limit:]

    def find(self, place: Place, query: Query, *, is_backward: bool = False) -> Place | None:
        """Return the nearest place after, or before, a place whose batch is looked for; or None."""
        stretches = self.index.stretches()
        for first, end, stretch in reversed(stretches) if is_backward else stretches:
            is_tail = stretch is stretches[-1][2]
            is_past = first > place.record if is_backward else end <= place.record
            has_agent = is_tail and query.agent is not None and self.index.tail_has(query.agent)
            if is_past or not query.may_be_in(stretch, has_agent=has_agent):
                continue
            if is_backward:
                extent = first, min(end, place.record + 1)
            else:
                extent = max(first, place.record), end
            found = (
                at
                for at, record in self._between(*extent)
                if (at < place if is_backward else at > place) and query.matches(record)
            )
            nearest = max(found, default=None) if is_backward else next(found, None)
            if nearest is not None:
                return nearest
        return None

    def ticks_before(self, place: Place) -> int:
        """Return the number of ticks up to a place."""
        return bisect_right(self.index.ticks, place.record)

    def bars(self) -> tuple[int, list[tuple[int, int, int]]]:
        """Return the width of a bar in seqs, and `(number, admitted, refused)` of each bar.

        A bar begins at `number * width`; bars without intents are left out.
        """
        first, last = self.index.start.seq, self.index.seq
        stretches = [stretch for _, _, stretch in self.index.stretches()]
        width = max((stretch.bar_seqs for stretch in stretches), default=1)
        while (last - first) // width > _BARS_MAX:
            width *= 2
        bars: list[Bar] = []
        for stretch in stretches:
            for bar in list(stretch.bars):
                count_in(bars, width, bar)
        return width, [(seq // width, admitted, refused) for seq, admitted, refused in bars]

    def held(self) -> int:
        """Return the number of intents that were held for a person."""
        return sum(stretch.held for _, _, stretch in self.index.stretches())

    def codes(self) -> dict[str, int]:
        """Return the number of refused intents by `stage/code`; those of a batch by each code."""
        codes: Counter[str] = Counter()
        for _, _, stretch in self.index.stretches():
            codes.update(dict(stretch.codes))
        return codes

    def _moment(self, place: Place, kept: int) -> Moment:
        self.require(place)
        if self._compactions != self.index.compactions:
            self._compactions, self._cursors = self.index.compactions, [None, None]
        cursor = self._nearest(place, kept)
        for ordinal, data in read_on(self.log, cursor.record):
            if ordinal > place.record:
                break
            record = decode(data, ordinal)
            records = expanded(record)
            done = cursor.batches if ordinal == cursor.record else 0
            for each in records[done : place.batch + 1 if ordinal == place.record else None]:
                cursor.state.apply(each)
                cursor.seq, cursor.last = each.seq, each
                done += 1
            cursor.record, cursor.batches, cursor.size = ordinal, done, len(records)
            cursor.now_ns = max(cursor.now_ns, record.now_ns)
        self._cursors[kept] = cursor
        at = Place(cursor.record, cursor.batches - 1) if cursor.batches else self.first
        ticks = self.ticks_before(at)
        return Moment(at, cursor.size, cursor.seq, cursor.now_ns, ticks, cursor.last, cursor.state)

    def _nearest(self, place: Place, kept: int) -> _Cursor:
        """Return the latest state before a place; the kept one is taken away meanwhile."""
        cursor, self._cursors[kept] = self._cursors[kept], None
        if not self.index.frames:
            self.index.catch_up(records_max=0)
        frame = self.index.frame_before(place.record) or self.index.frame_before(place.record + 1)
        is_near = cursor is not None and cursor.is_before(place)
        if cursor and is_near and (frame is None or frame.head.record <= cursor.record + 1):
            return cursor
        if frame is None:
            raise self._no_place(place)
        head = frame.head
        return _Cursor(self.index.state_of(frame), head.record, 0, head.seq, head.now_ns)

    def _no_place(self, place: Place) -> NoPlaceError:
        first, start = self.first, self.index.start
        if place.record < first.record:
            message = (
                f"{self.log.url} was compacted: it begins at seq {start.seq}, record {start.record}"
            )
            return NoPlaceError(message, first=first, is_gone=True)
        last = self.log.count() - 1
        message = f"{self.log.url} has no record {place.record}: its last is {last}"
        return NoPlaceError(message, first=first)

    def _places_after(self, place: Place) -> Iterator[tuple[Place, Record]]:
        first = max(place.record, self.index.start.record)
        for at, record in self._between(first, None):
            if at > place:
                yield at, record

    def _between(self, first: int, end: int | None) -> Iterator[tuple[Place, Record]]:
        for ordinal, data in self.log.read(first):
            if end is not None and ordinal >= end:
                return
            for at, record in enumerate(expanded(decode(data, ordinal))):
                yield Place(ordinal, at), record

    def _stepped_by_tick(self, place: Place, count: int) -> Place:
        ticks = self.ticks_before(place)
        if count < 0 and not self._is_tick(place):
            ticks += 1  # out of the middle of a tick, to its start
        ticks += count
        if ticks > len(self.index.ticks):
            return max(place, Place(self.index.record - 1))
        return self.at_tick(ticks) if ticks > 0 else min(place, self.at_tick(0))

    def _back(self, place: Place, count: int) -> Place:
        record, batch = place
        if batch == LAST and record >= self.index.start.record:
            batch = self._size(record) - 1
        while count > batch and record > self.index.start.record:
            count -= batch + 1
            record -= 1
            batch = self._size(record) - 1
        return Place(record, batch - count) if count <= batch else self.first

    def _size(self, record: int) -> int:
        _, data = next(self.log.read(record))
        return len(expanded(decode(data, record)))

    def _note(self, step: PlayedStep, place: Place, record: Record) -> int:
        """Add a record to a step, and return the number of its changes."""
        step.place, step.seq = place, record.seq
        step.now_ns = max(step.now_ns, record.now_ns)
        if isinstance(record, _BATCHES | Columns):
            step.records.append((place, record))
            del step.records[:-RECORDS_SHOWN]
            self._count(step, record)
        tables, _ = self.index.tables()
        written = written_tables(record)
        entities = changed_in(record)
        for change in entities:
            if change.collection in tables:
                written.add(change.collection)
                continue
            step.collections.add(change.collection)
            for name, places in (("position", step.moved), ("cell", step.cells)):
                if change.fields is None or change.is_whole or name in change.fields:
                    place_now = None if change.fields is None else change.fields.get(name)
                    places[change.collection, change.entity] = place_now
        step.tables |= written
        return len(entities) + sum(tables[name].count for name in written) // _ROWS_A_CHANGE

    def _count(self, step: PlayedStep, record: Record) -> None:
        """Count the intents of a batch, or the rows of a column batch."""
        if isinstance(record, _BATCHES):
            outcome = outcome_of(record)
            step.admitted += outcome.admitted
            step.refused += outcome.refused
        elif isinstance(record, Columns):
            rows, refused = rows_of(record), refused_count(record)
            if rows is None:
                rows = self.index.tables()[1][record.population].count
            step.refused += refused
            step.admitted += rows - refused

    def _is_tick(self, place: Place) -> bool:
        ticks = self.ticks_before(place)
        return bool(ticks) and self.index.ticks[ticks - 1] == place.record


def _is_silent(record: Record) -> bool:
    """Return whether a record is a checkpoint, or a tick that changed nothing."""
    if isinstance(record, Checkpoint):
        return True
    is_bare = not (changed_in(record) or agents_of(record) or getattr(record, "written", None))
    return isinstance(record, Tick) and is_bare
