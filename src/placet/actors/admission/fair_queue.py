"""Whose turn it is: batches by whose they are, given out to their owners in turns.

Each owner's batches leave in the order of submission. Among owners, the one with the fewest intents
served is next. So an owner with one queued batch waits for at most one batch of each other owner,
and large batches do not get a larger share than small ones.

    Source: start-time fair queuing, Goyal, Vin and Cheng, 1996. Deficit round robin (Shreedhar and
    Varghese, 1995) gives the same parts; with batches of 1 to 512 intents it goes round up to 512
    times for one batch, or lets small ones go in bursts.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterator
from heapq import heapify, heappop, heappush, heapreplace
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from placet.actors.committer import QueuedBatch
from placet.schemas.identity import OPERATOR

if TYPE_CHECKING:
    from collections import deque

_GONE_MAX: Final = 64


class OneEach(dict[str, QueuedBatch]):
    """A lane in which every owner has exactly one batch, all of the same size.

    Its order is already fair.

    A crowd in which every submitter awaits its answer before submitting again costs a dict and no
    fair queue. It covers the oldest batches of the lane; batches added since `are_all` was asked
    are not included.
    """

    __slots__ = ()

    def are_all(self, lane: "deque[QueuedBatch]") -> bool:
        """Look at who came since the last time; where it is no longer so, all are forgotten."""
        size = len(lane[0].batch.intents)
        for waiting in islice(reversed(lane), len(lane) - len(self)):
            owner = waiting.owner = owner_of(waiting)
            if owner in self or len(waiting.batch.intents) != size:
                self.clear()
                return False
            self[owner] = waiting
        return True

    def leave(self, taken: Collection[QueuedBatch]) -> None:
        """Forget the oldest, who have left the lane."""
        for waiting in taken:
            self.pop(waiting.owner, None)


class Lane(msgspec.Struct, eq=False):
    """The queued batches of one owner, oldest first; kept while empty, because most owners return.

    Attributes:
        batches: Those batches.
        size: Their bytes.
        paid: At how many intents a turn of the owner's may come again: where its last one ended.
        is_next: It is among those whose turn will come.
    """

    batches: OrderedDict[QueuedBatch, None]
    size: int = 0
    paid: int = 0
    is_next: bool = False


class FairQueue:
    """Batches of many owners. Adding and taking cost O(log owners), all else O(1).

    Attributes:
        lanes: Queued batches by owner, for every owner that has some and for others that had.
    """

    __slots__ = ("_count", "_lanes_max", "_next", "_now", "_order", "lanes")

    def __init__(self) -> None:
        self.lanes: dict[str, Lane] = {}
        self._lanes_max = _GONE_MAX
        # Each owner once: at how many intents its turn is, and who came to that first.
        self._next: list[tuple[int, int, Lane]] = []
        self._now = 0
        self._order = 0
        self._count = 0

    def add(self, waiting: QueuedBatch) -> None:
        """Put a batch behind those of its owner; who is new has its turn with the present ones."""
        owner = waiting.owner or owner_of(waiting)
        order = self._order = self._order + 1
        waiting.number, waiting.owner = order, owner
        lane = self.lanes.get(owner) or self._new_lane(owner)
        if not lane.is_next:
            lane.is_next = True
            heappush(self._next, (max(self._now, lane.paid), order, lane))
        lane.batches[waiting] = None
        lane.size += len(waiting.batch.encoded)
        self._count += 1

    def peek(self) -> QueuedBatch:
        """Return the batch whose turn it is, and leave it where it is."""
        turns = self._next
        while not (batches := turns[0][2].batches):  # its turn came, and it had nothing to give
            heappop(turns)[2].is_next = False
        return next(iter(batches))

    def pop(self) -> QueuedBatch:
        """Remove the batch whose turn it is, and give it."""
        turns = self._next
        while not turns[0][2].batches:
            heappop(turns)[2].is_next = False
        self._now, _, lane = turns[0]
        batches = lane.batches
        waiting, _ = batches.popitem(last=False)
        batch = waiting.batch
        lane.size -= len(batch.encoded)
        self._count -= 1
        paid = lane.paid = self._now + (len(batch.intents) or 1)
        if batches:
            self._order += 1
            heapreplace(turns, (paid, self._order, lane))
            return waiting
        heappop(turns)
        lane.is_next = False
        if not self._count:  # all have had what they asked for: nobody owes a turn
            self.lanes.clear()
            turns.clear()
        return waiting

    def discard(self, waiting: QueuedBatch) -> None:
        """Remove a batch out of its turn; that is not counted as given."""
        lane = self.lanes[waiting.owner]
        del lane.batches[waiting]
        lane.size -= len(waiting.batch.encoded)
        self._count -= 1

    def clear(self) -> list[QueuedBatch]:
        """Remove all, and give them in the order in which they came."""
        waiting = sorted(self, key=lambda one: one.number)
        self.lanes.clear()
        self._next.clear()
        self._count = 0
        return waiting

    def count_of(self, owner: str) -> int:
        """Return how many an owner has waiting."""
        lane = self.lanes.get(owner)
        return 0 if lane is None else len(lane.batches)

    def oldest_of(self, owner: str) -> QueuedBatch | None:
        """Return the one that has waited longest of an owner's."""
        lane = self.lanes.get(owner)
        return None if lane is None else next(iter(lane.batches), None)

    def oldest(self) -> QueuedBatch | None:
        """Return the one that came first of all. O(owners)."""
        heads = [next(iter(lane.batches)) for lane in self.lanes.values() if lane.batches]
        return min(heads, key=lambda one: one.number, default=None)

    def __iter__(self) -> Iterator[QueuedBatch]:
        """Return all that waits, owner by owner."""
        for lane in self.lanes.values():
            yield from lane.batches

    def __len__(self) -> int:
        return self._count

    def _new_lane(self, owner: str) -> Lane:
        if len(self.lanes) >= self._lanes_max:
            self._clear_away()
        lane = self.lanes[owner] = Lane(OrderedDict())
        return lane

    def _clear_away(self) -> None:
        """Forget the owners who have nothing waiting and owe no turn; at most once for each."""
        turns, lanes, now = self._next, self.lanes, self._now
        for _, _, lane in turns:
            lane.is_next = bool(lane.batches)
        turns[:] = [turn for turn in turns if turn[2].is_next]
        heapify(turns)
        lanes_left = {o: lane for o, lane in lanes.items() if lane.is_next or lane.paid > now}
        self.lanes = lanes_left
        self._lanes_max = 2 * len(lanes_left) + _GONE_MAX


def owner_of(waiting: QueuedBatch) -> str:
    """Return the owner of a batch: its submitter, or the agent that the operator submits for."""
    batch = waiting.batch
    return batch.agents[0] if batch.submitter == OPERATOR else batch.submitter
