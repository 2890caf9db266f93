"""Dedup windows: the remembered verdicts of each agent's requests, found by req_id.

The windows of all agents are bounded together: the least recently used lose entries first.

Entries leave whole, oldest first, bounded by count and by age. Windows are most of the memory of a
busy world. So consecutive ids of one sequence (`name:7` to `name:9`), which agent handles make,
are a `RangeEntry`: two numbers instead of strings, a fifth of the size of a `ListEntry`, and found
by bisection. Neither kind of entry is tracked by the garbage collector.
"""

from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, MutableSequence, Sequence
from functools import partial
from operator import attrgetter
from types import MappingProxyType
from typing import ClassVar, Final, Protocol, TypeAlias

import msgspec

from placet.kernel.ledger.undo import Undo
from placet.schemas.batch import Span, only_sequence, sequence_form, sequences_of
from placet.schemas.codec import Json
from placet.schemas.limits import Limits

MIXED: Final = -1
"""Value of `highest` where the ids are of several sequences, or of none."""

PLAIN: Final = b""
"""`detail` of an admitted batch of one agent whose ids have consecutive seqs."""

_LOWEST: Final = attrgetter("lowest")

DEQUE_LENGTH_MIN: Final = 1_024
"""Ranges of one sequence move from a list to a deque at this count: a deque removes its first item
in O(1), but with one item it takes ten times the memory of a list.
"""


class ListEntry(msgspec.Struct, gc=False, eq=False):
    """An entry of a dedup window: a remembered verdict and the list of its req_ids.

    Attributes:
        fingerprint: Fingerprint of the batch.
        now_ns: Simulated time of the verdict, nanoseconds.
        seq: First seq of an admitted batch; the world's seq for every other verdict.
        detail: The rest of the verdict, encoded; `unpack` decodes it.
        highest: Highest number of an admitted batch's ids if all are of one sequence, so that
            the ids are parsed once; else `MIXED`.
        ids: The agent's req_ids, in the submitted order.
        use: Number of its window's use; orders the entries of one seq.
    """

    fingerprint: int
    now_ns: int
    seq: int
    detail: bytes
    highest: int
    ids: tuple[str, ...]
    use: int = 0

    @property
    def count(self) -> int:
        """Number of req_ids."""
        return len(self.ids)


class RangeEntry(msgspec.Struct, gc=False, eq=False):
    """An entry of a dedup window for an admitted batch whose req_ids count up by one.

    Its req_ids are `name:lowest` to `name:highest`, and their seqs are consecutive.

    Attributes:
        fingerprint: Fingerprint of the batch.
        now_ns: Simulated time of the verdict, nanoseconds.
        seq: Seq of the first id.
        name: Name of the sequence.
        lowest: First number.
        highest: Last number.
    """

    fingerprint: int
    now_ns: int
    seq: int
    name: str
    lowest: int
    highest: int

    detail: ClassVar[bytes] = PLAIN
    use: ClassVar[int] = 0

    @property
    def count(self) -> int:
        """Number of req_ids."""
        return self.highest - self.lowest + 1

    @property
    def ids(self) -> tuple[str, ...]:
        """The req_ids, in the submitted order. O(count)."""
        name = self.name
        return tuple([f"{name}:{number}" for number in range(self.lowest, self.highest + 1)])

    def with_ids(self) -> ListEntry:
        """Return the same verdict as a `ListEntry`."""
        return ListEntry(self.fingerprint, self.now_ns, self.seq, PLAIN, self.highest, self.ids)


DedupEntry: TypeAlias = ListEntry | RangeEntry
"""The remembered verdict on one batch."""


def admitted(
    fingerprint: int, now_ns: int, first_seq: int, ids: Sequence[str], span: Span | None = None
) -> DedupEntry:
    """Build the dedup-window entry of an admitted batch of one agent, with consecutive seqs.

    Args:
        fingerprint: Fingerprint of the batch.
        now_ns: Simulated time of the admission, nanoseconds.
        first_seq: Seq of the first id.
        ids: Its req_ids.
        span: Their span, if all are of one sequence.
    """
    if span is None:
        return ListEntry(fingerprint, now_ns, first_seq, PLAIN, MIXED, tuple(ids))
    if span.is_run:
        return RangeEntry(fingerprint, now_ns, first_seq, span.name, span.lowest, span.highest)
    return ListEntry(fingerprint, now_ns, first_seq, PLAIN, span.highest, tuple(ids))


def dump_entry(entry: DedupEntry) -> list[Json]:
    """Return an entry as plain values for a snapshot; both types of entry have the same form."""
    return [entry.fingerprint, entry.now_ns, entry.seq, entry.detail, entry.highest, *entry.ids]


def load_entry(dumped: Sequence[Json]) -> DedupEntry:
    """Rebuild an entry of a dedup window from the output of `dump_entry`."""
    fingerprint, now_ns, seq, detail, highest, *ids = dumped
    span = only_sequence(ids) if detail == PLAIN and highest != MIXED and ids else None
    if span is not None and span.is_run:
        return RangeEntry(fingerprint, now_ns, seq, span.name, span.lowest, span.highest)
    return ListEntry(fingerprint, now_ns, seq, detail, highest, tuple(ids))


class Window:
    """The dedup window of one agent, bounded by count and by age.

    Attributes:
        entries: The entries, oldest first.
        count: Number of req_ids in all entries.
        forgotten: Sequence name -> highest number that was evicted, for ids `name:<n>`.
        ids: Latest `ListEntry` of each id in one.
        ranges: The `RangeEntry`s of each sequence. Each is above those before it, so that they can
            be bisected and leave in this order; a range that is not is stored as a `ListEntry`.
    """

    __slots__ = ("count", "entries", "forgotten", "ids", "ranges")

    def __init__(self) -> None:
        self.ids: dict[str, ListEntry] = {}
        self.ranges: dict[str, MutableSequence[RangeEntry]] = {}
        self.entries: deque[DedupEntry] = deque()
        self.count = 0
        self.forgotten: dict[str, int] = {}

    def remember(
        self,
        entry: DedupEntry,
        ids_max: int,
        age_ns_max: int,
        sequences_max: int,
        note: "NoteEviction | None" = None,
    ) -> int:
        """Add an entry and evict those beyond the bounds; return by how much `count` grew.

        The latest `ids_max` ids stay. Entries leave whole, so some older ids may stay too.
        """
        before = self.count
        self._add(entry)
        oldest_ns = entry.now_ns - age_ns_max
        if self.count > ids_max or self.entries[0].now_ns < oldest_ns:
            self.evict(oldest_ns, ids_max, sequences_max, note)
        return self.count - before

    def evict(
        self, oldest_ns: int, ids_max: int, sequences_max: int, note: "NoteEviction | None" = None
    ) -> int:
        """Evict the entries beyond the bounds; return the number of their ids."""
        before, oldest = self.count, self.entries[0]
        while self.count - oldest.count >= ids_max or oldest.now_ns < oldest_ns:
            self.forget_oldest(sequences_max, note)
            oldest = self.entries[0]
        return before - self.count

    def forget_oldest(self, sequences_max: int, note: "NoteEviction | None" = None) -> None:
        """Evict the oldest entry; keep the highest number of each of its sequences.

        Args:
            sequences_max: Bound of `forgotten`.
            note: Called with the window before the eviction; None calls nothing.
        """
        if note is not None:
            note(self)
        entry = self.entries.popleft()
        self.count -= entry.count
        forgotten = self.forgotten
        for name, highest in self._remove(entry):
            if highest > forgotten.get(name, -1):
                forgotten[name] = highest
        while len(forgotten) > sequences_max:
            del forgotten[next(iter(forgotten))]

    def find(self, req_id: str) -> DedupEntry | None:
        """Return the latest entry of a req_id; None if it is not remembered."""
        entry = self.ids.get(req_id)
        if entry is not None or not self.ranges:
            return entry
        sequence = sequence_form(req_id)
        if sequence is None or sequence[0] not in self.ranges:
            return None
        ranges, number = self.ranges[sequence[0]], sequence[1]
        position = bisect_right(ranges, number, key=_LOWEST)
        return ranges[position - 1] if position and number <= ranges[position - 1].highest else None

    def is_new(self, req_ids: Sequence[str], span: Span | None = None) -> bool:
        """Return whether no id is remembered and none can have been evicted; called once per batch.

        Args:
            req_ids: Ids of one batch.
            span: Their span, if all are known to be of one sequence.
        """
        ids, ranges, forgotten = self.ids, self.ranges, self.forgotten
        if ids and (req_ids[0] in ids or (len(req_ids) > 1 and not ids.keys().isdisjoint(req_ids))):
            return False
        if not ranges and not forgotten:
            return True
        may_be_known = False
        for name, lowest, _, _ in sequences_of(req_ids) if span is None else (span,):
            if lowest <= forgotten.get(name, -1):
                return False
            own = ranges.get(name)
            if own is not None and lowest <= own[-1].highest:
                may_be_known = True
        return not (may_be_known and any(map(self.find, req_ids)))

    def is_above(self, req_id: str, sequence: tuple[str, int] | None) -> bool:
        """Return whether an id is new at first sight: unknown, and above all of its sequence.

        Args:
            req_id: The id.
            sequence: Its `sequence_form`.
        """
        if req_id in self.ids:
            return False
        if sequence is None:
            return True
        name, number = sequence
        ranges = self.ranges.get(name)
        if ranges is not None and number <= ranges[-1].highest:
            return False
        return number > self.forgotten.get(name, -1)

    def is_too_old(self, req_id: str) -> bool:
        """Return whether an unknown id of a sequence must have been evicted."""
        name, _, digits = req_id.rpartition(":")
        high = self.forgotten.get(name)
        if high is None or not digits.isdecimal() or int(digits) > high:
            return False
        return sequence_form(req_id) is not None

    def dump(self) -> list[Json]:
        """Return the window as plain values; the first of `forgotten` is the next to be evicted."""
        return [[*map(dump_entry, self.entries)], list(self.forgotten.items())]

    @classmethod
    def load(cls, dumped: list[Json]) -> "Window":
        """Rebuild a window from the output of `dump`."""
        window = cls()
        entries, forgotten = dumped
        for values in entries:
            window._add(load_entry(values))
        window.forgotten = dict(forgotten)
        return window

    # undo

    @property
    def used(self) -> tuple[int, int]:
        """The latest use of the window, which has an entry; later uses are greater."""
        latest = self.entries[-1]
        return latest.seq, latest.use

    def superseded_by(self, entry: DedupEntry) -> dict[str, ListEntry]:
        """Return the entries by id that an entry of the same ids will supersede."""
        ids = self.ids
        return {req_id: ids[req_id] for req_id in entry.ids if req_id in ids} if ids else {}

    def take_back(self, superseded: Mapping[str, ListEntry]) -> int:
        """Undo the latest `remember`, whose evictions are undone; return its number of ids."""
        entry = self.entries.pop()
        if isinstance(entry, RangeEntry):
            count, ranges = entry.highest - entry.lowest + 1, self.ranges[entry.name]
            ranges.pop()
            if not ranges:
                del self.ranges[entry.name]
        else:
            count = len(entry.ids)
            for req_id in entry.ids:
                self.ids.pop(req_id, None)
        self.count -= count
        if superseded:
            self.ids.update(superseded)
        return count

    def oldest(self) -> tuple[DedupEntry, list[str], dict[str, int]]:
        """Return the oldest entry, those of its ids that find it in `ids`, and `forgotten`."""
        entry, ids = self.entries[0], self.ids
        own = []
        if isinstance(entry, ListEntry):
            own = [req_id for req_id in entry.ids if ids.get(req_id) is entry]
        return entry, own, dict(self.forgotten)

    def put_back(self, entry: DedupEntry, own: list[str], forgotten: dict[str, int]) -> None:
        """Undo the latest `forget_oldest`, before which `oldest` returned these values."""
        self.entries.appendleft(entry)
        self.count += entry.count
        if isinstance(entry, RangeEntry):
            self.ranges.setdefault(entry.name, []).insert(0, entry)
        else:
            self.ids.update(dict.fromkeys(own, entry))
        self.forgotten = dict(forgotten)

    def _add(self, entry: DedupEntry) -> None:
        # By `type`: `isinstance` of a struct that is another one takes ten times as long.
        if type(entry) is RangeEntry and not self._add_range(entry):
            entry = entry.with_ids()
        if type(entry) is ListEntry:
            self.ids.update(dict.fromkeys(entry.ids, entry))
        self.entries.append(entry)
        self.count += entry.count

    def _add_range(self, entry: RangeEntry) -> bool:
        """Append a range to those of its sequence; return False if it is not above them."""
        ranges = self.ranges.get(entry.name)
        if ranges is None:
            self.ranges[entry.name] = [entry]
        elif entry.lowest > ranges[-1].highest:
            entry.name = ranges[-1].name  # one string for all
            ranges.append(entry)
            if len(ranges) == DEQUE_LENGTH_MIN:
                self.ranges[entry.name] = deque(ranges)
        else:
            return False
        if self.ids:  # an earlier entry of these ids, such as a refusal, is superseded
            for req_id in entry.ids:
                self.ids.pop(req_id, None)
        return True

    def _remove(self, entry: DedupEntry) -> Iterable[tuple[str, int]]:
        """Remove an entry from the index; return its sequences with their highest numbers."""
        if isinstance(entry, RangeEntry):
            ranges = self.ranges[entry.name]
            del ranges[0]
            if not ranges:
                del self.ranges[entry.name]
            return ((entry.name, entry.highest),)
        ids, old_ids = self.ids, entry.ids
        for req_id in old_ids:
            if ids.get(req_id) is entry:  # else a later entry of the same id remains
                del ids[req_id]
        if entry.highest != MIXED:
            return ((old_ids[0].rpartition(":")[0], entry.highest),)
        return [(name, highest) for name, _, highest, _ in sequences_of(old_ids)]


NoteEviction: TypeAlias = Callable[[Window], None]
"""Called with a window of which the oldest entry is evicted next."""


_NONE: Final[Mapping[str, ListEntry]] = MappingProxyType({})


class WindowOwner(Protocol):
    """The part of an agent that the dedup stage reads and writes.

    Attributes:
        agent_id: Its name.
        window: Its dedup window; None before its first entry.
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
        entry = window.entries[-1]
        if isinstance(entry, ListEntry):
            self._uses = entry.use = self._uses + 1
        self.recency[agent_id] = window

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
        if type(entry) is ListEntry:
            self._uses = entry.use = self._uses + 1
        self.count += window.remember(
            entry,
            limits.window_ids_max,
            limits.window_age_ns_max,
            limits.window_sequences_max,
            note,
        )
        try:
            self.recency.move_to_end(agent.agent_id)
        except KeyError:  # its first entry, or its first since it was forgotten
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
            entries = window.entries
            entries.append(entry)
            window.count += 1
            self.count += 1
            if window.count > ids_max or entries[0].now_ns < oldest_ns:
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
            if len(self.recency) == 1 and len(window.entries) == 1:
                return
            before, undo = window.count, self.undo
            note = None if undo is None else partial(self._note_eviction, undo, agent_id)
            window.forget_oldest(limits.window_sequences_max, note)
            self.count -= before - window.count
            if not window.entries:
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
        if window.entries:
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
        if window.entries:
            self._displace(agent_id, window)

    def _displace(self, agent_id: str, window: Window) -> None:
        """Make a window the latest of `recency` until `sort_recency`."""
        self.recency[agent_id] = self._displaced[agent_id] = window
