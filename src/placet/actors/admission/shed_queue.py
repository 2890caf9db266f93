"""Overflow policy `shed_lowest`: under load a batch displaces a queued batch of lower priority.

The batch to shed has the lowest queued rank; among those it belongs to the agent with the most, and
is the youngest of that agent. So a flood costs the flooding agent first, each agent's own order is
kept, and the batch nearest to its decision stays. A batch never displaces one of equal rank, nor
one of an agent with fewer queued batches than its own agent: priority decides among equals, it does
not buy the whole queue.

Priority ages: an agent whose batch was refused or shed gains one point for each group decided
without it. So a batch cannot be starved, and one that has waited a hundred groups is not shed.

A post costs O(1) for any queue length, plus O(log ranks). Batches are not sorted by rank before
there is load. Decisions 0010 and 0016 give the reasons.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, Final

from placet.actors.admission.fair_queue import owner_of
from placet.actors.admission.overload import Overload
from placet.actors.admission.queue import BatchQueue
from placet.actors.queued_batch import QueuedBatch
from placet.schemas.identity import OPERATOR
from placet.schemas.limits import Limits

PRIORITY_MAX: Final = 100
_GONE_MAX: Final = 64


class SheddingQueue(BatchQueue):
    """The queue of `backpressure="shed_lowest"`: a batch may displace one of lower priority.

    Args:
        limits: Bounds of the queue.
    """

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self._intents_max = limits.batch_intents_max
        self._ages = AgeTracker(limits.ingress_submitters_max)
        self._groups = 0
        # A rank is a priority minus the number of the group since which it ages. It stays fixed
        # while a batch waits, so no index has to be rebuilt as batches grow older.
        self._ranks: dict[int, PriorityBucket] = {}
        self._lowest_first: list[int] = []
        self._outranked = -1  # of a full queue the lowest rank: a claim no higher is refused unread
        self.is_outranked = self._is_outranked

    def screen(self, load: Overload, raw: object, submitter: str) -> Overload | None:
        """Decide under load whether a batch is refused unchecked.

        It is, unless it claims a priority that can displace a queued batch.

        Args:
            load: The load signal that is over its limit.
            raw: The batch as submitted, not yet checked.
            submitter: Name of the submitter.

        Returns:
            `load` to refuse the batch; None to check it and then enqueue it.
        """
        if self._lane:
            self._put_aside()
        owner = submitter if submitter != OPERATOR else _owner_named(raw)
        lowest = self._lowest()
        if lowest is not None:
            if self._aside >= self._count_max:  # until a batch leaves, no lower one can enter
                self._outranked = max(self._outranked, lowest)
            needed = lowest + self._since(owner)
            if (
                needed < PRIORITY_MAX
                and needed < self.admission.priority_cap(submitter)
                and self._may_displace(lowest, owner)
                and not self._is_outranked(raw, owner, lowest)
            ):
                return None
        self._ages.note(owner, self._groups)
        return load

    def enqueue_under_load(self, waiting: QueuedBatch, load: Overload) -> Overload | None:
        """Enqueue a batch, and shed queued batches of lower rank until it has room.

        If shedding all of them would not suffice, none is shed and `load` is returned to refuse the
        batch; else None.
        """
        if self._lane:
            self._put_aside()
        batch = waiting.batch
        owner, size = owner_of(waiting), len(batch.encoded)
        rank = self.admission.priority_of(batch) - self._since(owner)
        if not self._can_make_room(rank, size, owner):
            self._ages.note(owner, self._groups)
            return load
        while (lowest := self._lowest()) is not None:
            self._shed(lowest, load)
            if self._bytes + size <= self._bytes_max:
                break
        self._insert(waiting, rank)
        if self._post_aside(size) < self._count_max:  # more was shed than came: there is room again
            self.cached_refusal, self._outranked = None, -self._groups - 1
        return None

    def take(self, count_max: int, intents_max: int | None = None) -> list[QueuedBatch]:
        """Remove and return the next batches as `BatchQueue.take`; reset their owners' ages."""
        waiting = len(self._lane) + self._aside
        taken = super().take(count_max, intents_max)
        ages = self._ages
        if ages:
            self._groups += bool(taken)
            for batch in taken:
                ages.forget(batch.owner or owner_of(batch))
            if len(taken) == waiting:
                ages.clear()
        self._outranked = -self._groups - 1
        return taken

    def _is_outranked(self, raw: object, submitter: str, rank: int | None = None) -> bool:
        """Return whether the ranks that an unchecked batch claims are at most `rank`.

        False if in doubt.

        Under overload this is most of the cost of a refusal. A batch counts by its highest intent,
        so all are looked at. A malformed batch may be refused for its load as well as for its form.

        Args:
            raw: The batch as it was submitted.
            submitter: Its submitter; the operator speaks for other agents, and is in doubt.
            rank: The rank to exceed; None for the lowest of a full queue.
        """
        if submitter == OPERATOR:
            return False
        ages, groups = self._ages, self._groups
        since = ages.recent.get(submitter)
        if since is None and (not ages.earlier or (since := ages.since(submitter)) is None):
            since = groups
        highest = since + (self._outranked if rank is None else rank)
        batch: Any = raw
        try:
            intents = batch if type(batch) is list else batch.get("intents", [batch])
            claim = intents[0]["priority"]
            if type(claim) is not int or claim > highest or len(intents) > self._intents_max:
                return False
            for intent in intents:
                if intent["priority"] is not claim:  # as a rule all claim the same
                    if max([intent["priority"] for intent in intents]) > highest:
                        return False
                    break
        except Exception:  # noqa: BLE001  # a batch may be any object; the check reports it
            return False
        if since == groups:
            ages.note(submitter, groups)
        return True

    def _add(self, waiting: QueuedBatch) -> None:
        since = self._since(owner_of(waiting))
        self._insert(waiting, self.admission.priority_of(waiting.batch) - since)

    def _insert(self, waiting: QueuedBatch, rank: int) -> None:
        self._fair.add(waiting)
        waiting.rank = rank
        bucket = self._ranks.get(rank)
        if bucket is None:
            bucket = self._ranks[rank] = PriorityBucket()
            heappush(self._lowest_first, rank)
        bucket.add(waiting)

    def _remove_taken(self, taken: Sequence[QueuedBatch]) -> None:
        super()._remove_taken(taken)
        ranks = self._ranks
        for waiting in taken:
            rank = waiting.rank
            if ranks[rank].remove_oldest(waiting):
                self._forget(rank)

    def _shed(self, rank: int, load: Overload) -> None:
        bucket = self._ranks[rank]
        waiting = bucket.pop_lowest()
        if not bucket:
            self._forget(rank)
        self._fair.discard(waiting)
        super()._remove_taken([waiting])
        self._ages.note(waiting.owner, self._groups)
        self.admission.answer_shed(waiting, self.admission.priority_of(waiting.batch), load)

    def _can_make_room(self, rank: int, size: int, owner: str) -> bool:
        """Return whether shedding lower batches frees enough places and bytes for one batch."""
        ranks, lowest = self._ranks, self._lowest()
        if lowest is None or lowest >= rank or not self._may_displace(lowest, owner):
            return False
        if self._bytes + size <= self._bytes_max:
            return True
        lower = [bucket for other, bucket in ranks.items() if other < rank]
        remaining = self._bytes - sum(bucket.size for bucket in lower)
        return remaining + size <= self._bytes_max or len(lower) == len(ranks)

    def _may_displace(self, lowest: int, owner: str) -> bool:
        """Return whether the owner that would lose a batch has at least as many waiting."""
        loser, count_of = self._ranks[lowest].owner_of_most, self._fair.count_of
        return loser == owner or count_of(loser) >= count_of(owner)

    def _lowest(self) -> int | None:
        """Return the lowest rank that waits; None in an empty queue."""
        lowest_first, ranks = self._lowest_first, self._ranks
        while lowest_first and lowest_first[0] not in ranks:
            heappop(lowest_first)
        return lowest_first[0] if lowest_first else None

    def _forget(self, rank: int) -> None:
        del self._ranks[rank]
        if len(self._lowest_first) > 2 * len(self._ranks) + _GONE_MAX:
            self._lowest_first = list(self._ranks)
            heapify(self._lowest_first)

    def _since(self, owner: str) -> int:
        """Return the number of the group since which an owner's priority ages."""
        ages = self._ages
        since = ages.recent.get(owner)
        if since is None and ages.earlier:
            since = ages.since(owner)
        return self._groups if since is None else since


def _owner_named(raw: object) -> str:
    """Return the owner of an unchecked batch of the operator; `owner_of` is for checked ones."""
    intents = raw.get("intents", [raw]) if type(raw) is dict else raw
    first = intents[0] if type(intents) is list and intents else None
    name = first.get("agent_id") if type(first) is dict else None
    return name if type(name) is str else OPERATOR


class AgeTracker:
    """The number of the group at which each owner first lost a batch since it was last served.

    Bounded by recency: an owner that does not return while `count_max / 2` others do is forgotten,
    and its age restarts at its next loss. So owners that appear once do not displace owners that
    return. Every operation is O(1).

        Source: two generations instead of a list in order of use, as in the 2Q cache (Johnson and
        Shasha, 1994); a lookup moves nothing.

    Args:
        count_max: Number of owners to remember at most.

    Attributes:
        recent: First-loss group of each recent owner; looked up before `since`.
        earlier: First-loss group of each owner of the previous generation.
    """

    __slots__ = ("_half", "earlier", "recent")

    def __init__(self, count_max: int) -> None:
        self._half = max(1, count_max // 2)
        self.recent: dict[str, int] = {}
        self.earlier: dict[str, int] = {}

    def since(self, owner: str) -> int | None:
        """Return the group number of an owner's first loss; None if it has lost no batch."""
        group = self.recent.get(owner)
        if group is None:
            group = self.earlier.get(owner)
            if group is not None:
                self._keep(owner, group)
        return group

    def note(self, owner: str, group: int) -> None:
        """Record the group at which an owner lost a batch; an earlier record stays."""
        if self.since(owner) is None:
            self._keep(owner, group)

    def forget(self, owner: str) -> None:
        """Remove an owner whose batch was taken to be decided."""
        self.recent.pop(owner, None)
        self.earlier.pop(owner, None)

    def clear(self) -> None:
        """Remove all owners."""
        self.recent.clear()
        self.earlier.clear()

    def __len__(self) -> int:
        return len(self.recent) + len(self.earlier)

    def _keep(self, owner: str, group: int) -> None:
        if len(self.recent) >= self._half:
            self.earlier, self.recent = self.recent, {}
        self.recent[owner] = group


class PriorityBucket:
    """The queued batches of one rank, that is, priority corrected for age.

    Few ranks are ever the lowest, so batches are indexed by owner only when `owner_of_most` is
    first read: at most once for each batch.

    Attributes:
        size: Bytes of the batches.
    """

    __slots__ = ("_batches", "_owners", "size")

    def __init__(self) -> None:
        self._batches: dict[QueuedBatch, None] = {}  # of each owner in order of arrival
        self._owners: _Owners | None = None
        self.size = 0

    def add(self, waiting: QueuedBatch) -> None:
        """Add a batch, younger than the others of its owner."""
        self._batches[waiting] = None
        self.size += len(waiting.batch.encoded)
        if self._owners is not None:
            self._owners.add(waiting)

    def remove_oldest(self, waiting: QueuedBatch) -> bool:
        """Remove a batch, the oldest of its owner; return whether the bucket is empty now."""
        del self._batches[waiting]
        self.size -= len(waiting.batch.encoded)
        if self._owners is not None:
            self._owners.remove_oldest(waiting)
        return not self._batches

    @property
    def owner_of_most(self) -> str:
        """Return the owner with the most batches."""
        return self._by_owner().owner_of_most

    def pop_lowest(self) -> QueuedBatch:
        """Remove and return the batch to shed first: the youngest of the owner with the most.

        The bucket must not be empty.
        """
        waiting = self._by_owner().pop_lowest()
        del self._batches[waiting]
        self.size -= len(waiting.batch.encoded)
        return waiting

    def __bool__(self) -> bool:
        return bool(self._batches)

    def _by_owner(self) -> "_Owners":
        if self._owners is None:
            self._owners = _Owners(self._batches)
        return self._owners


class _Owners:
    """An index of batches by owner, and of owners by their number of batches.

    Among owners with equal numbers, the owner that grew to the number last comes last and loses a
    batch first; an owner that shrank to it comes first.
    """

    __slots__ = ("_by_count", "_by_owner", "_most")

    def __init__(self, batches: Iterable[QueuedBatch]) -> None:
        self._by_owner: dict[str, deque[QueuedBatch]] = {}
        self._by_count: dict[int, OrderedDict[str, None]] = {}
        self._most = 0
        for waiting in batches:
            self.add(waiting)

    def add(self, waiting: QueuedBatch) -> None:
        """Add a batch as the youngest of its owner."""
        owner = waiting.owner
        own = self._by_owner.get(owner)
        if own is None:
            own = self._by_owner[owner] = deque()
        own.append(waiting)
        count = len(own)
        if count > 1:
            self._leave(owner, count - 1)
        self._come(owner, count)
        self._most = max(self._most, count)

    def remove_oldest(self, waiting: QueuedBatch) -> None:
        """Remove the oldest batch of its owner."""
        own = self._by_owner[waiting.owner]
        oldest = own.popleft()
        assert oldest is waiting, "an agent's batches leave in the order in which they came"
        self._changed_count(waiting.owner, len(own))

    @property
    def owner_of_most(self) -> str:
        """Return the owner with the most batches."""
        return next(reversed(self._by_count[self._most]))

    def pop_lowest(self) -> QueuedBatch:
        """Remove and return the batch to shed first: the youngest of the owner with the most.

        The bucket must not be empty.
        """
        owner = self.owner_of_most
        own = self._by_owner[owner]
        waiting = own.pop()
        self._changed_count(owner, len(own))
        return waiting

    def _changed_count(self, owner: str, count: int) -> None:
        self._leave(owner, count + 1)
        if count:
            self._come(owner, count)
            self._by_count[count].move_to_end(owner, last=False)
        else:
            del self._by_owner[owner]
        if self._most not in self._by_count:
            self._most = count  # counts change by one: the largest owner has one less

    def _come(self, owner: str, count: int) -> None:
        owners = self._by_count.get(count)
        if owners is None:
            owners = self._by_count[count] = OrderedDict()
        owners[owner] = None

    def _leave(self, owner: str, count: int) -> None:
        owners = self._by_count[count]
        del owners[owner]
        if not owners:
            del self._by_count[count]
