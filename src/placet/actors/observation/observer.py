"""One agent's observer.

When it is read, it compares the entities last shown to the agent with those visible now.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractContextManager
from functools import partial
from types import TracebackType
from typing import Literal, Protocol, Self, TypeAlias

from placet.actors.observation.interest import VisibleState
from placet.actors.observation.replica import Fields
from placet.kernel.kernel import Kernel
from placet.schemas.identity import Ref
from placet.schemas.limits import SECOND_NS, ObserverLimits
from placet.schemas.view import Change, DeliveredEvent, Observation


class DirtySet:
    """The input of one observer: entities changed since its last observation, undelivered events.

    Its memory is bounded, however rarely the observer is read. For an entity only the fact that it
    changed is recorded, so the latest value wins; events keep their order. If entities or events
    exceed their bound, the next observation is a full snapshot, so the observer misses no change of
    state. `hub.py` fills it and wakes the observer.

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


class DeltaPacker:
    """A selection of the changes that fit into one observation, by accumulated relevance.

    Each deferred change adds its relevance to its score whenever an observation is made, and the
    highest scores are sent. So near changes are sent at once, far changes later, and none is lost.

    Args:
        bytes_max: Maximum bytes of encoded changes in one observation; a single change that is
            larger is sent alone. Events and snapshots are not limited.

    Source: priority accumulator, G. Fiedler, "State Synchronization" (gafferongames.com, 2015).
    """

    __slots__ = ("_scores", "bytes_max")

    def __init__(self, bytes_max: int) -> None:
        if bytes_max < 1:
            raise ValueError(f"bytes_max must be at least 1, got {bytes_max!r}")
        self.bytes_max = bytes_max
        self._scores: dict[Ref, float] = {}

    def choose(
        self, changes: Iterable[tuple[Ref, Change]], relevance: Callable[[Ref], float]
    ) -> set[Ref]:
        """Return the entities to send now; raise the scores of the others. O(n log n).

        Args:
            changes: The pending changes by entity.
            relevance: Returns the relevance of an entity, 0 to 1.
        """
        waiting = list(changes)
        scores = {ref: self._scores.get(ref, 0.0) + relevance(ref) for ref, _ in waiting}
        waiting.sort(key=lambda item: -scores[item[0]])
        chosen: set[Ref] = set()
        left = self.bytes_max
        for ref, change in waiting:
            left -= len(change.encoded)
            if chosen and left < 0:
                break
            chosen.add(ref)
        self._scores = {ref: score for ref, score in scores.items() if ref not in chosen}
        return chosen

    def clear(self) -> None:
        """Drop all scores, after everything was sent."""
        self._scores.clear()


End = Literal["", "closed", "removed"]
"""Why an observer ended; empty while it is open."""

Begin: TypeAlias = Callable[[Callable[[Kernel], None]], Awaitable[None]]
"""Run a function in the orchestrator's turn; return once all it could see is durable."""


class Host(Protocol):
    """The interface of an observer to its hub."""

    async def attach(self, observer: "Observer", begin: Begin) -> VisibleState:
        """Register an observer and return the visible state that it reads, once it is durable."""

    def detach(self, observer: "Observer") -> None:
        """Unregister an observer."""

    def require_home(self) -> None:
        """Check that the caller runs in the event loop of the world, where it is woken."""

    def idle(self) -> AbstractContextManager[None]:
        """Return the context of a wait for observations: simulated time may advance meanwhile."""


class Observer:
    """The observer of one agent: returns a snapshot of its view, then changes of the view.

    Created by `ObserverHub.observer`; awaited by one task at a time.

    Attributes:
        agent_id: The observing agent.
        view_seq: The agent was shown everything it may see, up to this seq; -1 before the first.
        end: Why it ended, `closed` or `removed`; empty while it is open.
        dirty_set: Pending changes and events.
    """

    __slots__ = (
        "_begin",
        "_changed",
        "_host",
        "_known",
        "_open_state",
        "_packer",
        "_seen_seq",
        "agent_id",
        "dirty_set",
        "end",
        "view_seq",
    )

    def __init__(
        self,
        host: Host,
        agent_id: str,
        begin: Begin,
        limits: ObserverLimits,
        bytes_max: int | None,
    ) -> None:
        self._host = host
        self._begin = begin
        self._open_state: VisibleState | None = None
        self._packer = None if bytes_max is None else DeltaPacker(bytes_max)
        # The fields that the agent was shown last, of each entity that it sees: a delta is computed
        # against them, so that marks that come together cost one change.
        self._known: dict[Ref, Fields] = {}
        # Not None iff a task waits in `wait_changed`; one task reads an observer.
        self._changed: asyncio.Future[None] | None = None
        self.agent_id = agent_id
        # Never behind `view_seq`: the seq of the delta in work, which becomes `view_seq` when the
        # delta is returned.
        self._seen_seq = self.view_seq = -1
        self.end: End = ""
        self.dirty_set = DirtySet(limits.marks_max, limits.events_max)

    async def __aenter__(self) -> Self:
        self._open_state = await self._host.attach(self, self._begin)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.finish("closed")
        self._host.detach(self)

    @property
    def _visible(self) -> VisibleState:
        assert self._open_state is not None, "an observer is read while it is open"
        return self._open_state

    async def next(self) -> Observation | None:
        """Wait for a change and return the observation; the first is a snapshot.

        None once it has ended.
        """
        while not self.end:
            self._host.require_home()
            observation = None if self.dirty_set.is_empty else self.look()
            if observation is not None:
                return observation
            await self.wait_changed()
        return None

    def look(self) -> Observation | None:
        """Return the pending changes without waiting; None if none is visible.

        O(marked entities).
        """
        observation = self._observe()
        self.view_seq = self._seen_seq
        return observation

    def _observe(self) -> Observation | None:
        """Build the observation of all differences since the last one; None if nothing differs."""
        published, dirty_set = self._visible.published, self.dirty_set
        events, dropped = dirty_set.take_events()
        is_snapshot = dirty_set.is_lost
        deferred: dict[Ref, int] = {}
        if is_snapshot:
            self._known.clear()
        diffs = self._diff(self._candidates())
        if self._packer is not None:
            deferred = self._defer_excess(self._packer, diffs, is_snapshot=is_snapshot)
        for ref, (now, _) in diffs.items():
            if now is None:
                del self._known[ref]
            else:
                self._known[ref] = now
        dirty_set.replace(deferred)
        self._seen_seq = min(deferred.values(), default=published.seq)
        changes = tuple([change for _, change in diffs.values() if change is not None])
        if not (is_snapshot or changes or events):
            return None
        return Observation(
            view_seq=self._seen_seq,
            sim_time=published.now_ns / SECOND_NS,
            agent_id=self.agent_id,
            kind="snapshot" if is_snapshot else "delta",
            changes=changes,
            events=events,
            events_dropped=dropped,
            deferred_count=len(deferred),
        )

    async def wait_changed(self) -> None:
        """Wait until the dirty set grows after this call, or the observer has ended."""
        if self.end:
            return
        self._host.require_home()
        self._changed = asyncio.get_running_loop().create_future()
        try:
            with self._host.idle():
                await self._changed
        finally:
            self._changed = None

    def wake(self) -> None:
        """Wake the task that waits for a change."""
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    def finish(self, end: End) -> None:
        """End the observer with a reason, `closed` or `removed`; the first reason is kept."""
        self.end = self.end or end
        self.wake()

    def _candidates(self) -> Iterable[Ref]:
        """Return the entities whose visible fields may differ from the known ones."""
        dirty_set = self.dirty_set
        if dirty_set.is_lost or dirty_set.is_all_marked:
            return {**self._known, **dict.fromkeys(self._visible.candidates_for(self.agent_id))}
        visible = self._visible
        tables = [ref for ref in dirty_set.marks if ref.entity is None and visible.is_table(ref)]
        return self._with_rows(tables) if tables else dirty_set.marks

    def _with_rows(self, tables: list[Ref]) -> Iterable[Ref]:
        """Return the marked entities, and of marked tables the rows that may differ."""
        marks = self.dirty_set.marks
        refs = {ref: None for ref in marks if ref not in tables}
        for table in tables:
            name = table.collection
            rows = self._visible.rows_to_compare(name, self.agent_id, marks[table], self._known)
            refs.update(dict.fromkeys(rows))
        return refs

    def _diff(self, refs: Iterable[Ref]) -> dict[Ref, tuple[Fields | None, Change | None]]:
        """Return, for each entity that differs, the fields visible now and the change to send.

        By name: the order of the marks depends on entities that the agent may not see.
        """
        visible, known, agent_id = self._visible, self._known, self.agent_id
        row_of, seen = visible.published.row, visible.seen
        diffs: dict[Ref, tuple[Fields | None, Change | None]] = {}
        for ref in refs:
            before, row = known.get(ref), row_of(ref)
            now = None if row is None else seen(agent_id, ref, row)
            if now is before:
                continue
            if now is None or row is None:
                diffs[ref] = (None, visible.removal(ref))
            else:
                change = row.change(before, now)
                if change is not None and not visible.may_name_author(agent_id, ref, row):
                    change = row.anonymous(change)
                diffs[ref] = (now, change)
        return {ref: diffs[ref] for ref in sorted(diffs)}

    def _defer_excess(
        self,
        packer: DeltaPacker,
        diffs: dict[Ref, tuple[Fields | None, Change | None]],
        *,
        is_snapshot: bool,
    ) -> dict[Ref, int]:
        """Remove the changes over the byte budget; return them with the seqs they were shown at."""
        if is_snapshot:
            packer.clear()
            return {}
        changes = [(ref, change) for ref, (_, change) in diffs.items() if change is not None]
        relevance = partial(self._visible.relevance, self.agent_id)
        chosen = packer.choose(changes, relevance)
        deferred = {}
        for ref, _ in changes:
            if ref not in chosen:
                del diffs[ref]
                deferred[ref] = self.dirty_set.marks.get(ref, self._seen_seq)
        return deferred
