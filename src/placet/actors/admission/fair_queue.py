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
    """A lane in which every owner has exactly one batch, all of the same size.

    Its order is already fair.

    A crowd in which every submitter awaits its answer before submitting again costs a dict and no
    fair queue. It covers the oldest batches of the lane; batches added since `are_all` was asked
    are not included.
    """

    __slots__ = ()

    def are_all(self, lane: "deque[QueuedBatch]") -> bool:
        """Return whether each owner still has one batch, all of one size; else forget the owners.

        Looks only at batches added since the last call.
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
        """Forget the owners of batches that have left the lane."""
        for waiting in taken:
            self.pop(waiting.owner, None)


class Lane(msgspec.Struct, eq=False):
    """The queued batches of one owner, oldest first; kept while empty, because most owners return.

    Attributes:
        batches: The queued batches; a dict used as an ordered set, to remove one from the middle.
        size: Bytes of the batches.
        finish: Virtual time, in intents, at which the owner's last served batch ended.
        is_scheduled: The owner has an entry in the schedule.
    """

    batches: OrderedDict[QueuedBatch, None]
    size: int = 0
    finish: int = 0
    is_scheduled: bool = False


class FairQueue:
    """Batches of many owners. Adding and taking cost O(log owners), all else O(1).

    Attributes:
        lanes: Queued batches by owner, for every owner that has some and for others that had.
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
        """Enqueue a batch behind those of its owner.

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
        """Return the next batch without removing it."""
        schedule = self._schedule
        while not (batches := schedule[0][2].batches):  # an entry whose batches were discarded
            heappop(schedule)[2].is_scheduled = False
        return next(iter(batches))

    def pop(self) -> QueuedBatch:
        """Remove and return the oldest batch of the owner with the fewest intents served."""
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
        """Remove a batch before it is served; its owner is not charged for it."""
        lane = self.lanes[waiting.owner]
        del lane.batches[waiting]
        lane.size -= len(waiting.batch.encoded)
        self._count -= 1

    def clear(self) -> list[QueuedBatch]:
        """Remove all batches, and return them in order of arrival."""
        waiting = sorted(self, key=lambda waiting: waiting.number)
        self.lanes.clear()
        self._schedule.clear()
        self._count = 0
        return waiting

    def count_of(self, owner: str) -> int:
        """Return the number of batches that an owner has queued."""
        lane = self.lanes.get(owner)
        return 0 if lane is None else len(lane.batches)

    def oldest_of(self, owner: str) -> QueuedBatch | None:
        """Return the oldest batch of an owner; None if it has none."""
        lane = self.lanes.get(owner)
        return None if lane is None else next(iter(lane.batches), None)

    def oldest(self) -> QueuedBatch | None:
        """Return the oldest batch of all; None in an empty queue. O(owners)."""
        heads = [next(iter(lane.batches)) for lane in self.lanes.values() if lane.batches]
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
    """Return the owner of a batch: its submitter, or the agent that the operator submits for."""
    batch = waiting.batch
    return batch.agents[0] if batch.submitter == OPERATOR else batch.submitter
