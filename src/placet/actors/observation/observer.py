"""One agent's eyes: they compare what was shown with what may be seen now, when they look."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractContextManager
from functools import partial
from types import TracebackType
from typing import Literal, Protocol, Self, TypeAlias

from placet.actors.observation.dirty_set import DirtySet
from placet.actors.observation.interest import VisibleState
from placet.actors.observation.replica import Fields
from placet.kernel.kernel import Kernel
from placet.schemas.identity import Ref
from placet.schemas.limits import SECOND_NS, ObserverLimits
from placet.schemas.view import Change, Observation


class DeltaPacker:
    """The scores of one observer's changes.

    Args:
        bytes_max: How many bytes of encoded changes one observation holds; a single change that is
            larger is sent alone. Events, and snapshots, which are whole, are not counted.
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
        """Choose what is sent now; the rest grows. O(n log n) of what waits."""
        waiting = list(changes)
        scores = {ref: self._scores.get(ref, 0.0) + relevance(ref) for ref, _ in waiting}
        waiting.sort(key=lambda one: -scores[one[0]])
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
        """Forget the scores: all was sent."""
        self._scores.clear()


End = Literal["", "closed", "removed"]
"""Why there will be no more observations; empty while there may be."""

Begin: TypeAlias = Callable[[Callable[[Kernel], None]], Awaitable[None]]
"""Carries out something in the orchestrator's turn; returns once all it could see is durable."""


class Host(Protocol):
    """Who keeps the observers of a world."""

    async def admit(self, observer: "Observer", begin: Begin) -> VisibleState:
        """Take an observer in; give what it looks at, once that is durable."""

    def dismiss(self, observer: "Observer") -> None:
        """Let it go."""

    def rest(self) -> AbstractContextManager[None]:
        """Wait inside for something to see: that holds up nobody's time."""


class Observer:
    """One agent's eyes. Made by `ObserverHub.observer`, and awaited by one task at a time.

    Attributes:
        agent_id: Whose.
        view_seq: All that the agent may see, up to here, was shown to it.
        end: Why it is over; empty while it is not.
        dirty_set: What waits.
    """

    __slots__ = (
        "_begin",
        "_budget",
        "_host",
        "_known",
        "_news",
        "_open_scene",
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
        self._open_scene: VisibleState | None = None
        self._budget = None if bytes_max is None else DeltaPacker(bytes_max)
        self._known: dict[Ref, Fields] = {}
        self._news: asyncio.Future[None] | None = None
        self.agent_id = agent_id
        self._seen_seq = self.view_seq = -1
        self.end: End = ""
        self.dirty_set = DirtySet(limits.marks_max, limits.events_max)

    async def __aenter__(self) -> Self:
        self._open_scene = await self._host.admit(self, self._begin)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.finish("closed")
        self._host.dismiss(self)

    @property
    def _visible(self) -> VisibleState:
        assert self._open_scene is not None, "an observer is asked while it is open"
        return self._open_scene

    async def next(self) -> Observation | None:
        """Wait for something new to see, and give it; the first is a snapshot. None: it is over."""
        while not self.end:
            observation = None if self.dirty_set.is_empty else self.look()
            if observation is not None:
                return observation
            await self.news()
        return None

    def look(self) -> Observation | None:
        """Take what waits; None if nothing of it shows. Costs what was marked."""
        observation = self._see()
        self.view_seq = self._seen_seq
        return observation

    def _see(self) -> Observation | None:
        """Compare what was seen before with what may be seen now; None if nothing differs."""
        published, dirty_set = self._visible.published, self.dirty_set
        events, missed = dirty_set.take_events()
        is_snapshot = dirty_set.is_lost
        late: dict[Ref, int] = {}
        if is_snapshot:
            self._known.clear()
        found = self._compared(self._candidates())
        if self._budget is not None:
            late = self._held_back(self._budget, found, is_snapshot=is_snapshot)
        for ref, (now, _) in found.items():
            if now is None:
                del self._known[ref]
            else:
                self._known[ref] = now
        dirty_set.keep(late)
        self._seen_seq = min(late.values(), default=published.seq)
        changes = tuple([change for _, change in found.values() if change is not None])
        if not (is_snapshot or changes or events):
            return None
        return Observation(
            view_seq=self._seen_seq,
            sim_time=published.now_ns / SECOND_NS,
            agent_id=self.agent_id,
            kind="snapshot" if is_snapshot else "delta",
            changes=changes,
            events=events,
            events_dropped=missed,
            deferred_count=len(late),
        )

    async def news(self) -> None:
        """Wait until something was put into the inbox after this call, or it is over."""
        if self.end:
            return
        self._news = asyncio.get_running_loop().create_future()
        try:
            with self._host.rest():
                await self._news
        finally:
            self._news = None

    def wake(self) -> None:
        """Let the one who waits look."""
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def finish(self, end: End) -> None:
        """Say that it is over."""
        self.end = self.end or end
        self.wake()

    def _candidates(self) -> Iterable[Ref]:
        """Name what may look otherwise than it is known."""
        dirty_set = self.dirty_set
        if dirty_set.is_lost or dirty_set.is_all_marked:
            return {**self._known, **dict.fromkeys(self._visible.candidates_for(self.agent_id))}
        return dirty_set.marks

    def _compared(self, refs: Iterable[Ref]) -> dict[Ref, tuple[Fields | None, Change | None]]:
        """Compare what was known with what may be seen now; give what differs."""
        visible, known, agent_id = self._visible, self._known, self.agent_id
        row_of, seen = visible.published.row, visible.seen
        found: dict[Ref, tuple[Fields | None, Change | None]] = {}
        for ref in refs:
            before, row = known.get(ref), row_of(ref)
            now = None if row is None else seen(agent_id, ref, row)
            if now is before:
                continue
            if now is None or row is None:
                found[ref] = (None, visible.left(ref))
            else:
                found[ref] = (now, row.change(before, now))
        return found

    def _held_back(
        self,
        budget: DeltaPacker,
        found: dict[Ref, tuple[Fields | None, Change | None]],
        *,
        is_snapshot: bool,
    ) -> dict[Ref, int]:
        """Take out of what was found what does not fit; give it, and up to where it was shown."""
        if is_snapshot:
            budget.clear()
            return {}
        showing = [(ref, change) for ref, (_, change) in found.items() if change is not None]
        relevance = partial(self._visible.relevance, self.agent_id)
        chosen = budget.choose(showing, relevance)
        late = {}
        for ref, _ in showing:
            if ref not in chosen:
                del found[ref]
                late[ref] = self.dirty_set.marks.get(ref, self._seen_seq)
        return late
