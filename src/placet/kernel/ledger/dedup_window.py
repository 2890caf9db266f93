"""The dedup window of one agent: which req_ids were answered, and how.

Answers leave whole, oldest first. Those to runs of ids (`dedup_entry.py`) are found by number, so
that an agent that counts its requests costs a few words for each batch; those to other ids by name.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, MutableSequence, Sequence
from operator import attrgetter
from typing import Final

from placet.kernel.ledger.dedup_entry import (
    MIXED,
    DedupEntry,
    ListEntry,
    RangeEntry,
    dump_answer,
    load_answer,
)
from placet.schemas.codec import Json
from placet.schemas.identity import Span, sequence_form, sequences_of

_LOWEST: Final = attrgetter("lowest")

_MANY: Final = 1_024
"""From so many on, runs of a name are a deque, whose first is removed in O(1); a deque of one run
takes ten times the memory of a list."""


class Window:
    """The answered req_ids of one agent, bounded by count and by age.

    Attributes:
        answers: The stored entries, oldest first.
        count: req_ids that they are for.
        forgotten: For ids of the sequence form `name:<n>`: name -> highest n that was evicted.
    """

    __slots__ = ("_ids", "_runs", "answers", "count", "forgotten")

    def __init__(self) -> None:
        self._ids: dict[str, ListEntry] = {}
        # By name. Each run is above those before it, so that they also leave in this order; one
        # that is not is kept as a block.
        self._runs: dict[str, MutableSequence[RangeEntry]] = {}
        self.answers: deque[DedupEntry] = deque()
        self.count = 0
        self.forgotten: dict[str, int] = {}

    def remember(
        self, answered: DedupEntry, ids_max: int, age_ns_max: int, sequences_max: int
    ) -> int:
        """Add an entry and evict those beyond the bounds; return by how much `count` grew.

        The latest `ids_max` ids stay; as answers leave whole, some older ones may.
        """
        before = self.count
        self._add(answered)
        oldest_ns, oldest = answered.now_ns - age_ns_max, self.answers[0]
        while self.count - oldest.count >= ids_max or oldest.now_ns < oldest_ns:
            self.forget_oldest(sequences_max)
            oldest = self.answers[0]
        return self.count - before

    def forget_oldest(self, sequences_max: int) -> None:
        """Evict the oldest answer; keep the high-water marks of its sequences."""
        answered = self.answers.popleft()
        self.count -= answered.count
        forgotten = self.forgotten
        for name, highest in self._remove(answered):
            if highest > forgotten.get(name, -1):
                forgotten[name] = highest
        while len(forgotten) > sequences_max:
            del forgotten[next(iter(forgotten))]

    def find(self, req_id: str) -> DedupEntry | None:
        """Return the latest answer to a request, if it is remembered."""
        block = self._ids.get(req_id)
        if block is not None or not self._runs:
            return block
        sequence = sequence_form(req_id)
        if sequence is None or sequence[0] not in self._runs:
            return None
        runs, number = self._runs[sequence[0]], sequence[1]
        place = bisect_right(runs, number, key=_LOWEST)
        return runs[place - 1] if place and number <= runs[place - 1].highest else None

    def is_new(self, req_ids: Sequence[str], span: Span | None = None) -> bool:
        """Return whether no id is known and none can have been forgotten. One call per batch.

        Args:
            req_ids: Ids of one batch.
            span: Of them, if it is known that all are of one sequence.
        """
        ids, runs, forgotten = self._ids, self._runs, self.forgotten
        if ids and (req_ids[0] in ids or (len(req_ids) > 1 and not ids.keys().isdisjoint(req_ids))):
            return False
        if not runs and not forgotten:
            return True
        may_be_known = False
        for name, lowest, _, _ in sequences_of(req_ids) if span is None else (span,):
            if lowest <= forgotten.get(name, -1):
                return False
            own = runs.get(name)
            if own is not None and lowest <= own[-1].highest:
                may_be_known = True
        return not (may_be_known and any(map(self.find, req_ids)))

    def is_too_old(self, req_id: str) -> bool:
        """Return whether an unknown id of the sequence form must have been evicted."""
        name, _, digits = req_id.rpartition(":")
        high = self.forgotten.get(name)
        if high is None or not digits.isdecimal() or int(digits) > high:
            return False
        return sequence_form(req_id) is not None

    def dump(self) -> list[Json]:
        """Return the window as plain values; the order of `forgotten` says which goes first."""
        return [[*map(dump_answer, self.answers)], list(self.forgotten.items())]

    @classmethod
    def load(cls, dumped: list[Json]) -> "Window":
        """Rebuild a window from `dump`."""
        window = cls()
        answers, forgotten = dumped
        for values in answers:
            window._add(load_answer(values))
        window.forgotten = dict(forgotten)
        return window

    def _add(self, answered: DedupEntry) -> None:
        if isinstance(answered, RangeEntry) and not self._add_run(answered):
            answered = answered.with_ids()
        if isinstance(answered, ListEntry):
            self._ids.update(dict.fromkeys(answered.ids, answered))
        self.answers.append(answered)
        self.count += answered.count

    def _add_run(self, run: RangeEntry) -> bool:
        """Put a run behind those of its name; False if it is not above them."""
        runs = self._runs.get(run.name)
        if runs is None:
            self._runs[run.name] = [run]
        elif run.lowest > runs[-1].highest:
            run.name = runs[-1].name  # one string for all
            runs.append(run)
            if len(runs) == _MANY:
                self._runs[run.name] = deque(runs)
        else:
            return False
        if self._ids:  # of an earlier answer, such as a refusal, this is the later one
            for req_id in run.ids:
                self._ids.pop(req_id, None)
        return True

    def _remove(self, answered: DedupEntry) -> Iterable[tuple[str, int]]:
        """Forget the oldest answer; gives its sequences, and the highest number of each."""
        if isinstance(answered, RangeEntry):
            runs = self._runs[answered.name]
            del runs[0]
            if not runs:
                del self._runs[answered.name]
            return ((answered.name, answered.highest),)
        ids, old_ids = self._ids, answered.ids
        for req_id in old_ids:
            if ids.get(req_id) is answered:  # else a later answer owns it
                del ids[req_id]
        if answered.highest != MIXED:
            return ((old_ids[0].rpartition(":")[0], answered.highest),)
        return [(name, highest) for name, _, highest, _ in sequences_of(old_ids)]
