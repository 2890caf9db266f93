"""The dedup windows of all agents, bounded together: the least recently used lose entries first."""

from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final, Protocol

from placet.kernel.ledger.dedup_window import (
    DEQUE_LENGTH_MIN,
    DedupEntry,
    ListEntry,
    RangeEntry,
    Window,
)
from placet.kernel.ledger.undo import Undo
from placet.schemas.limits import Limits

_NONE: Final[Mapping[str, ListEntry]] = MappingProxyType({})


class WindowOwner(Protocol):
    """The part of an agent that the dedup stage reads and writes.

    Attributes:
        agent_id: Its name.
        window: Its dedup window; None before its first answer.
    """

    agent_id: str
    window: Window | None


class DedupWindows:
    """The dedup windows of all agents: together they hold at most `dedup_entries_max` req_ids.

    Attributes:
        count: Number of req_ids in all windows.
        recency: The windows that hold an entry by agent, least recently used first.
        undo: Receives how each change is undone: by a call, or by `take_back` for an agent; None
            keeps nothing.
    """

    __slots__ = ("_displaced", "_uses", "count", "recency", "undo")

    def __init__(self) -> None:
        self.count = 0
        self.recency: OrderedDict[str, Window] = OrderedDict()
        self.undo: list[Undo | WindowOwner] | None = None
        self._uses = 0
        self._displaced: dict[str, Window] = {}

    def load(self, agent_id: str, window: Window) -> None:
        """Add a window that is used later than those before; its ids are counted already."""
        self._number(window.answers[-1])
        self.recency[agent_id] = window

    def _number(self, entry: DedupEntry) -> None:
        if isinstance(entry, ListEntry):
            self._uses = entry.use = self._uses + 1

    def remember(self, agent: WindowOwner, entry: DedupEntry, limits: Limits) -> None:
        """Add an entry to an agent's window, creating the window, and evict beyond all bounds."""
        window, undo = agent.window, self.undo
        if window is None:
            window = agent.window = Window()
            if undo is not None:
                undo.append((setattr, agent, "window", None))
        note = None
        if undo is not None:
            superseded = window.superseded_by(entry)
            undo.append((self.take_back, agent, superseded))
            note = partial(self._note_eviction, undo, agent.agent_id)
        self._number(entry)
        self.count += window.remember(
            entry,
            limits.window_ids_max,
            limits.window_age_ns_max,
            limits.window_sequences_max,
            note,
        )
        try:
            self.recency.move_to_end(agent.agent_id)
        except KeyError:  # its first answer, or its first since it was forgotten
            self.recency[agent.agent_id] = window
        if self.count > limits.dedup_entries_max:
            self._evict(limits)

    def remembering(
        self, now_ns: int, limits: Limits
    ) -> Callable[[WindowOwner, Window | None, RangeEntry], None]:
        """Return a function that adds the entry of one id of a batch decided at `now_ns`.

        It is called for each intent of a group, so values common to all are looked up here.
        """
        recency, move_to_end = self.recency, self.recency.move_to_end
        ids_max, sequences_max = limits.window_ids_max, limits.window_sequences_max
        oldest_ns, entries_max = now_ns - limits.window_age_ns_max, limits.dedup_entries_max
        undo = self.undo

        def remember_above(agent: WindowOwner, window: Window | None, entry: RangeEntry) -> None:
            """Add an entry as `remember` does; `Window.is_above` was true for its id."""
            if window is None or window.ids:
                self.remember(agent, entry, limits)
                return
            if undo is not None:
                undo.append(agent)
            name = entry.name
            ranges = window.ranges.get(name)
            if ranges is None:
                window.ranges[name] = [entry]
            else:
                entry.name = ranges[-1].name  # one string for all
                ranges.append(entry)
                if len(ranges) == DEQUE_LENGTH_MIN:
                    window.ranges[name] = deque(ranges)
            answers = window.answers
            answers.append(entry)
            window.count += 1
            self.count += 1
            if window.count > ids_max or answers[0].now_ns < oldest_ns:
                note = None
                if undo is not None:
                    note = partial(self._note_eviction, undo, agent.agent_id)
                self.count -= window.evict(oldest_ns, ids_max, sequences_max, note)
            try:
                move_to_end(agent.agent_id)
            except KeyError:  # its first since it was forgotten
                recency[agent.agent_id] = window
            if self.count > entries_max:
                self._evict(limits)

        return remember_above

    def remove(self, agent_id: str, window: Window) -> None:
        """Remove the window of an agent that was removed."""
        self.count -= window.count
        self.recency.pop(agent_id, None)
        if self.undo is not None:
            self.undo.append((self._put_back_window, agent_id, window))

    def _evict(self, limits: Limits) -> None:
        """Evict entries of the least recently used agents.

        The most recent agent keeps its newest entry.
        """
        while self.count > limits.dedup_entries_max:
            agent_id, window = next(iter(self.recency.items()))
            if len(self.recency) == 1 and len(window.answers) == 1:
                return
            before, undo = window.count, self.undo
            note = None if undo is None else partial(self._note_eviction, undo, agent_id)
            window.forget_oldest(limits.window_sequences_max, note)
            self.count -= before - window.count
            if not window.answers:
                del self.recency[agent_id]

    # undo

    def sort_recency(self) -> None:
        """Sort the windows whose uses were undone into `recency`; call it after the last of them.

        O(windows used later than the earliest of them).
        """
        recency, displaced = self.recency, self._displaced
        used = [window.used for agent_id, window in displaced.items() if agent_id in recency]
        if used:
            lowest, later = min(used), []
            for agent_id, window in reversed(recency.items()):
                if window.used < lowest:
                    break
                later.append((window.used, agent_id))
            for _, agent_id in sorted(later):
                recency.move_to_end(agent_id)
        displaced.clear()

    def take_back(self, agent: WindowOwner, superseded: Mapping[str, ListEntry] = _NONE) -> None:
        """Undo the latest `remember` for an agent."""
        window = agent.window
        assert window is not None, "it remembers what is undone"
        self.count -= window.take_back(superseded)
        if window.answers:
            self._displaced[agent.agent_id] = window
        else:
            self.recency.pop(agent.agent_id, None)

    def _note_eviction(self, undo: list[Undo | WindowOwner], agent_id: str, window: Window) -> None:
        undo.append((self._put_back, agent_id, window, *window.oldest()))

    def _put_back(
        self,
        agent_id: str,
        window: Window,
        entry: DedupEntry,
        own: list[str],
        forgotten: dict[str, int],
    ) -> None:
        """Undo an eviction."""
        window.put_back(entry, own, forgotten)
        self.count += entry.count
        self._displace(agent_id, window)

    def _put_back_window(self, agent_id: str, window: Window) -> None:
        """Undo `remove`."""
        self.count += window.count
        if window.answers:
            self._displace(agent_id, window)

    def _displace(self, agent_id: str, window: Window) -> None:
        """Make a window the latest of `recency` until `sort_recency`."""
        self.recency[agent_id] = self._displaced[agent_id] = window
