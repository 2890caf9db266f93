"""Fair queuing: batches by owner, served so that every owner gets an equal share of intents.

Each owner's batches leave in the order of submission. Among owners, the one with the fewest intents
served is next. So an owner with one queued batch waits for at most one batch of each other owner,
and large batches do not get a larger share than small ones.

    Source: start-time fair queuing, Goyal, Vin and Cheng, 1996. Deficit round robin (Shreedhar and
    Varghese, 1995) gives the same shares, but with batches of 1 to 512 intents it needs up to
    512 rounds for one batch, or serves small batches in bursts.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterator
from heapq import heapify, heappop, heappush, heapreplace
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from placet.actors.queued_batch import QueuedBatch
from placet.schemas.identity import OPERATOR

if TYPE_CHECKING:
    from collections import deque

_GONE_MAX: Final = 64


class OneEach(dict[str, QueuedBatch]):
    """A check that a queue holds one batch of each owner, all of equal size; owner -> batch.

    Such a queue is fair in order of arrival. So a crowd in which every submitter awaits its answer
    before it submits again costs a dict instead of a `FairQueue`. The dict covers the oldest
    batches of the queue, up to the last call of `are_all`.
    """

    __slots__ = ()

    def are_all(self, lane: "deque[QueuedBatch]") -> bool:
        """Return whether each owner has one batch in a queue, all equal in size.

        If not, clear the dict.

        Looks only at batches added since the last call. `lane` is the queue, oldest batch first.
        """
        size = len(lane[0].batch.intents)
        for waiting in islice(reversed(lane), len(lane) - len(self)):
            owner = waiting.owner = owner_of(waiting)
            if owner in self or len(waiting.batch.intents) != size:
                self.clear()
                return False
            self[owner] = waiting
        return True

    def leave(self, taken: Collection[QueuedBatch]) -> None:
        """Remove the owners of batches that were taken from the queue."""
        for waiting in taken:
            self.pop(waiting.owner, None)


class Lane(msgspec.Struct, eq=False):
    """The queue of one owner in a `FairQueue`; kept while empty, because most owners return.

    Attributes:
        batches: The queued batches, oldest first; a dict used as an ordered set, so that a batch
            can be removed from the middle.
        size: Bytes of the batches.
        finish: Virtual time, in intents, at which the owner's last served batch ended.
        is_scheduled: The owner has an entry in the schedule.
    """

    batches: OrderedDict[QueuedBatch, None]
    size: int = 0
    finish: int = 0
    is_scheduled: bool = False


class FairQueue:
    """A queue that gives every owner an equal share of intents (start-time fair queuing).

    Adding and taking cost O(log owners), all else O(1).

    Attributes:
        lanes: The queue of each owner, by name; some of them are empty.
    """

    __slots__ = ("_count", "_lanes_max", "_order", "_schedule", "_virtual_time", "lanes")

    def __init__(self) -> None:
        self.lanes: dict[str, Lane] = {}
        self._lanes_max = _GONE_MAX
        # A heap with one entry per owner: virtual start time, order as the tie-break, lane.
        self._schedule: list[tuple[int, int, Lane]] = []
        self._virtual_time = 0
        self._order = 0
        self._count = 0

    def add(self, waiting: QueuedBatch) -> None:
        """Enqueue a batch behind the other batches of its owner.

        A new owner starts at the present virtual time: it gets no credit for having been idle.
        """
        owner = waiting.owner or owner_of(waiting)
        order = self._order = self._order + 1
        waiting.number, waiting.owner = order, owner
        lane = self.lanes.get(owner) or self._new_lane(owner)
        if not lane.is_scheduled:
            lane.is_scheduled = True
            heappush(self._schedule, (max(self._virtual_time, lane.finish), order, lane))
        lane.batches[waiting] = None
        lane.size += len(waiting.batch.encoded)
        self._count += 1

    def peek(self) -> QueuedBatch:
        """Return the batch that `pop` would return; the queue must not be empty."""
        schedule = self._schedule
        while not (batches := schedule[0][2].batches):  # an entry whose batches were discarded
            heappop(schedule)[2].is_scheduled = False
        return next(iter(batches))

    def pop(self) -> QueuedBatch:
        """Remove and return the oldest batch of the owner with the fewest intents served.

        The queue must not be empty.
        """
        schedule = self._schedule
        while not schedule[0][2].batches:
            heappop(schedule)[2].is_scheduled = False
        self._virtual_time, _, lane = schedule[0]
        batches = lane.batches
        waiting, _ = batches.popitem(last=False)
        batch = waiting.batch
        lane.size -= len(batch.encoded)
        self._count -= 1
        finish = lane.finish = self._virtual_time + (len(batch.intents) or 1)
        if batches:
            self._order += 1
            heapreplace(schedule, (finish, self._order, lane))
            return waiting
        heappop(schedule)
        lane.is_scheduled = False
        if not self._count:  # empty: shares start over
            self.lanes.clear()
            schedule.clear()
        return waiting

    def discard(self, waiting: QueuedBatch) -> None:
        """Remove a queued batch before its turn; its owner is not charged for it."""
        lane = self.lanes[waiting.owner]
        del lane.batches[waiting]
        lane.size -= len(waiting.batch.encoded)
        self._count -= 1

    def clear(self) -> list[QueuedBatch]:
        """Remove all batches; return them as a list in order of arrival."""
        waiting = sorted(self, key=lambda waiting: waiting.number)
        self.lanes.clear()
        self._schedule.clear()
        self._count = 0
        return waiting

    def count_of(self, owner: str) -> int:
        """Return the number of queued batches of an owner; 0 if it is unknown."""
        lane = self.lanes.get(owner)
        return 0 if lane is None else len(lane.batches)

    def oldest_of(self, owner: str) -> QueuedBatch | None:
        """Return the oldest batch of an owner; None if it has none."""
        lane = self.lanes.get(owner)
        return None if lane is None else next(iter(lane.batches), None)

    def oldest(self) -> QueuedBatch | None:
        """Return the oldest batch of all; None in an empty queue. O(batches).

        Safe to call from another thread.
        """
        # Copies are atomic; an iterator would fail if a batch came or went meanwhile.
        lanes = list(self.lanes.values())
        heads = [batches[0] for lane in lanes if (batches := list(lane.batches))]
        return min(heads, key=lambda waiting: waiting.number, default=None)

    def __iter__(self) -> Iterator[QueuedBatch]:
        """Yield all batches, owner by owner."""
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
        """Drop owners without batches whose last share is served. O(owners), amortized O(1)."""
        schedule, lanes, now = self._schedule, self.lanes, self._virtual_time
        for _, _, lane in schedule:
            lane.is_scheduled = bool(lane.batches)
        schedule[:] = [turn for turn in schedule if turn[2].is_scheduled]
        heapify(schedule)
        lanes_left = {
            o: lane for o, lane in lanes.items() if lane.is_scheduled or lane.finish > now
        }
        self.lanes = lanes_left
        self._lanes_max = 2 * len(lanes_left) + _GONE_MAX


def owner_of(waiting: QueuedBatch) -> str:
    """Return the name whose share of the queue a batch uses.

    It is the submitter; of a batch of the operator, the first agent that the batch names.
    """
    batch = waiting.batch
    return batch.agents[0] if batch.submitter == OPERATOR else batch.submitter
