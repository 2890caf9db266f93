"""Whose turn it is: batches by whose they are, given out to their owners in turns.

Each owner's batches leave in the order in which they came. Among owners, whoever was given least
comes next, counted in intents: so an owner with one batch waiting waits for at most one batch of
each other, however many these have, and large batches buy no larger part than small ones.

    Source: start-time fair queuing, Goyal, Vin and Cheng, 1996. Deficit round robin (Shreedhar and
    Varghese, 1995) gives the same parts; with batches of 1 to 512 intents it goes round up to 512
    times for one batch, or lets small ones go in bursts.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterator
from heapq import heapify, heappop, heappush, heapreplace
from itertools import islice
from typing import TYPE_CHECKING, Final

from placet.actors.waiting import Waiting
from placet.schemas.identity import OPERATOR

if TYPE_CHECKING:
    from collections import deque

_GONE_MAX: Final = 64


class OneEach(dict[str, Waiting]):
    """Those in a lane of whom every owner has one batch, all as large: their turns are the lane.

    So a crowd in which everybody awaits an answer before they ask again costs a dict, and no turns.
    They are the oldest in the lane; who came since `are_all` was asked is not known here yet.
    """

    __slots__ = ()

    def are_all(self, lane: "deque[Waiting]") -> bool:
        """Look at who came since the last time; where it is no longer so, all are forgotten."""
        size = len(lane[0].batch.intents)
        for waiting in islice(reversed(lane), len(lane) - len(self)):
            owner = waiting.owner = owner_of(waiting)
            if owner in self or len(waiting.batch.intents) != size:
                self.clear()
                return False
            self[owner] = waiting
        return True

    def leave(self, taken: Collection[Waiting]) -> None:
        """Forget the oldest, who have left the lane."""
        for waiting in taken:
            self.pop(waiting.owner, None)


class _Lane:
    """What one owner has waiting, oldest first."""

    __slots__ = ("batches", "size")

    def __init__(self) -> None:
        self.batches: OrderedDict[Waiting, None] = OrderedDict()
        self.size = 0


class Turns:
    """Batches of many owners. Adding and taking cost O(log owners), all else O(1)."""

    __slots__ = ("_count", "_lanes", "_next", "_now", "_order")

    def __init__(self) -> None:
        self._lanes: dict[str, _Lane] = {}
        # Each owner once: at how many intents its turn is, and who came to that first.
        self._next: list[tuple[int, int, str]] = []
        self._now = 0
        self._order = 0
        self._count = 0

    def add(self, waiting: Waiting) -> None:
        """Put a batch behind those of its owner; who is new has its turn with the present ones."""
        owner = waiting.owner or owner_of(waiting)
        self._order += 1
        waiting.number, waiting.owner = self._order, owner
        lane = self._lanes.get(owner)
        if lane is None:
            lane = self._lanes[owner] = _Lane()
            heappush(self._next, (self._now, self._order, owner))
        lane.batches[waiting] = None
        lane.size += len(waiting.batch.encoded)
        self._count += 1

    def peek(self) -> Waiting:
        """Give the batch whose turn it is, and leave it where it is."""
        turns, lanes = self._next, self._lanes
        while not lanes[turns[0][2]].batches:  # its turn came, and it had nothing to give
            del lanes[heappop(turns)[2]]
        return next(iter(lanes[turns[0][2]].batches))

    def pop(self, waiting: Waiting | None = None) -> Waiting:
        """Remove the batch whose turn it is.

        Args:
            waiting: That batch, where `peek` has just given it.
        """
        if waiting is None:
            waiting = self.peek()
        self._now, _, owner = self._next[0]
        self._remove(owner, waiting)
        self._order += 1
        given = self._now + max(1, len(waiting.batch.intents))
        heapreplace(self._next, (given, self._order, owner))
        if not self._count:  # all have had what they asked for: nobody owes a turn
            self._lanes.clear()
            self._next.clear()
        return waiting

    def discard(self, waiting: Waiting) -> None:
        """Remove a batch out of its turn; that is not counted as given."""
        self._remove(waiting.owner, waiting)
        if len(self._next) > 2 * self._count + _GONE_MAX:
            self._lanes = {owner: lane for owner, lane in self._lanes.items() if lane.batches}
            self._next = [turn for turn in self._next if turn[2] in self._lanes]
            heapify(self._next)

    def clear(self) -> list[Waiting]:
        """Remove all, and give them in the order in which they came."""
        waiting = sorted(self, key=lambda one: one.number)
        self._lanes.clear()
        self._next.clear()
        self._count = 0
        return waiting

    def count_of(self, owner: str) -> int:
        """Give how many an owner has waiting."""
        lane = self._lanes.get(owner)
        return 0 if lane is None else len(lane.batches)

    def size_of(self, owner: str) -> int:
        """Give how many bytes they have."""
        lane = self._lanes.get(owner)
        return 0 if lane is None else lane.size

    def oldest_of(self, owner: str) -> Waiting | None:
        """Give the one that has waited longest of an owner's."""
        lane = self._lanes.get(owner)
        return None if lane is None else next(iter(lane.batches), None)

    def oldest(self) -> Waiting | None:
        """Give the one that came first of all. O(owners)."""
        heads = [next(iter(lane.batches)) for lane in self._lanes.values() if lane.batches]
        return min(heads, key=lambda one: one.number, default=None)

    def __iter__(self) -> Iterator[Waiting]:
        """Give all that waits, owner by owner."""
        for lane in self._lanes.values():
            yield from lane.batches

    def __len__(self) -> int:
        return self._count

    def _remove(self, owner: str, waiting: Waiting) -> None:
        lane = self._lanes[owner]
        del lane.batches[waiting]
        lane.size -= len(waiting.batch.encoded)
        self._count -= 1


def owner_of(waiting: Waiting) -> str:
    """Say whose a batch is: the submitter's, or of the agent that the operator speaks for."""
    batch = waiting.batch
    return batch.agents[0] if batch.submitter == OPERATOR else batch.submitter
