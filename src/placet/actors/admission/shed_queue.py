"""`shed_lowest`: a batch that comes under load may take the place of one of lower priority.

The batch to shed is of the lowest queued priority; within it, of the agent with the most such
batches; of that agent, the youngest. So a flood costs the flooder first, an agent's own order is
kept, and batches close to their decision stay. A newcomer never displaces a batch of its own
priority, nor one of an agent that has fewer queued than the newcomer's agent: priority decides
among equals, and does not take every place.

Priority ages: an agent whose batch was shed gains one point for each group decided without it. So
no agent starves, and a batch that has waited a hundred groups is not shed for a newer one.

Under lasting overload the last places, a few more than one group frees, are reserved for batches at
or above a floor. The floor rises with each batch that is shed for a reserved place and falls with
each place that stays free (decision 0023). Without it, the places that a group frees go to any
newcomer only to be taken back, and a shed batch was checked for nothing: 1.4 checks for each
decided batch at five times the capacity.

A post costs O(1) here, however many wait, but for the logarithm of how many standings there are.
Nothing is sorted by standing before there is load. Decisions 0010, 0016 and 0023 say why.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, Final

from placet.actors.admission.fair_queue import owner_of
from placet.actors.admission.overload import Overload
from placet.actors.admission.queue import BatchQueue
from placet.actors.committer import QueuedBatch
from placet.schemas.batch import CheckedBatch
from placet.schemas.identity import OPERATOR
from placet.schemas.limits import Limits
from placet.schemas.refusal import RefusalCode

PRIORITY_MAX: Final = 100
_GONE_MAX: Final = 64

_KEPT_PART: Final = 3
"""No more than one in so many places is kept for a group; else as many as it has."""

_SPARE_PART: Final = 4
"""One for so many of them is kept besides, to be free when a group is taken: so few are shed."""

_FLOOR_STEP: Final = 10
"""By how much the floor moves at a group: up if all of it was missing, down if all was free."""


class _Floor:
    """The priority, aged, that a batch must have to come into one of the last places.

    Args:
        spare: How many places should be free when a group is taken.

    Attributes:
        rank: That priority; 0 where all may come in.
        shed: How many were shed since the last group.
    """

    __slots__ = ("_spare", "rank", "shed")

    def __init__(self, spare: int) -> None:
        self._spare = spare
        self.rank = 0
        self.shed = 0

    def move(self, taken: int, free: int, places: int) -> None:
        """Follow the load, once for each group.

        Args:
            taken: Batches of the group.
            free: Places that were free when it was taken.
            places: Places of the queue.
        """
        missing = self.shed + self._spare - free
        if self.shed or (self.rank and missing > 0):
            # Ages have no end: with many agents the highest are above 100, and so is the floor.
            self.rank += max(1, _FLOOR_STEP * missing // taken)
        elif self.rank:
            self.rank = max(0, self.rank - max(1, _FLOOR_STEP * -missing // places))
        self.shed = 0

    def reset(self) -> None:
        """Lower the floor, so that every batch is accepted again."""
        self.rank = self.shed = 0


class SheddingQueue(BatchQueue):
    """A queue from whose middle a batch can be shed.

    Args:
        limits: Bounds of the queue.
        priority_of: Gives the priority of a batch, capped for its agents and its submitter.
        cap_of: Gives the highest priority that a submitter may have.
        on_shed: Answers a batch that was shed; gets it, its priority, and the load.
    """

    __slots__ = (
        "_ages",
        "_beneath",
        "_cap_of",
        "_cleared",
        "_floor",
        "_groups",
        "_intents_max",
        "_kept",
        "_looked_at",
        "_lowest_first",
        "_on_shed",
        "_priority_of",
        "_ranks",
    )

    def __init__(
        self,
        limits: Limits,
        priority_of: Callable[[CheckedBatch], int],
        cap_of: Callable[[str], int],
        on_shed: Callable[[QueuedBatch, int, Overload], None],
    ) -> None:
        super().__init__(limits)
        self._intents_max = limits.batch_intents_max
        self._priority_of = priority_of
        self._cap_of = cap_of
        self._on_shed = on_shed
        self._ages = AgeTracker(limits.ingress_submitters_max)
        self._groups = 0
        # A standing is a priority less the group since which it counts: a later one stands lower.
        self._ranks: dict[int, PriorityBucket] = {}
        self._lowest_first: list[int] = []
        kept = min(self._group, self._count_max // _KEPT_PART)
        spare = kept // _SPARE_PART
        self._floor = _Floor(spare)
        self._beneath = -1  # what stands no higher than that is refused at a first look
        self._cleared: str | None = None  # who was found under its share since the queue last grew
        self._looked_at: object = None  # by `is_beneath`, just before, and is at the floor
        open_to_all = self._count_max - kept - spare
        self._kept = Overload(
            RefusalCode.QUEUE_FULL,
            "mailbox_batches_open_to_all",
            open_to_all,
            open_to_all,
            is_for_all=True,
        )
        self.is_beneath = self._is_beneath

    def beyond_share(self, submitter: str) -> Overload | None:
        """Judge whether the places left are kept; else, as ever, a submitter's share."""
        if self._floor.rank and len(self._lane) + self._aside >= self._kept.limit:
            return self._kept
        return super().beyond_share(submitter)

    def turn_away(self, load: Overload, raw: object, submitter: str) -> Overload | None:
        """Refuse at once what does not even claim to stand high enough for a place."""
        if self._lane:
            self._put_aside()
        owner = submitter if submitter != OPERATOR else _owner_named(raw)
        since = self._since(owner)
        # What the floor asks for is known at once, and refuses most where there is one.
        floor = self._beneath + since
        is_above = self._looked_at is raw
        self._looked_at = None
        if is_above or not self._is_beneath(raw, owner):
            is_kept = load is self._kept
            needed = floor if is_kept else self._needed(floor, since, owner)
            if (
                needed is not None
                and needed < PRIORITY_MAX
                and needed < self._cap_of(submitter)
                and (needed == floor or not self._is_beneath(raw, owner, needed - since))
            ):
                share = super().beyond_share(submitter) if is_kept else None
                if share is not None:
                    return self.turn_away(share, raw, submitter)
                self._cleared = submitter
                return None
        self._ages.note(owner, self._groups)
        return load

    def place(self, waiting: QueuedBatch, load: Overload) -> Overload | None:
        """Return a reserved place, or shed as many lower batches as this one needs.

        None if impossible.
        """
        if self._lane:
            self._put_aside()
        batch = waiting.batch
        owner, size = owner_of(waiting), len(batch.encoded)
        standing = self._priority_of(batch) - self._since(owner)
        if load is self._kept and self._cleared != batch.submitter:
            load = super().beyond_share(batch.submitter) or load
        self._cleared = None
        is_kept = load is self._kept and self._bytes + size <= self._bytes_max
        if standing <= self._beneath or not (is_kept or self._can_make_room(standing, size, owner)):
            self._ages.note(owner, self._groups)
            return load
        while not is_kept and (lowest := self._lowest()) is not None:
            self._shed(lowest, load)
            if self._bytes + size <= self._bytes_max:
                break
        self._stand(waiting, standing)
        if self._post_aside(size) >= self._count_max:
            self.told = None  # it may be of the kept places, and those are taken
        elif not is_kept:  # more was shed than has come: there is room again
            self.told, self._beneath = None, self._floor.rank - self._groups - 1
        return None

    def take(
        self, count_max: int, enough: Callable[[QueuedBatch], bool] | None = None
    ) -> list[QueuedBatch]:
        """Take batches in queue order, round-robin in a crowd; a decided owner's age is reset."""
        waiting = len(self._lane) + self._aside
        self._looked_at = self._cleared = None
        taken = super().take(count_max, enough)
        left, ages = waiting - len(taken), self._ages
        if ages:
            self._groups += bool(taken)
            for one in taken:
                ages.forget(one.owner or owner_of(one))
            if not left:
                ages.clear()
        floor = self._floor
        if floor.rank or floor.shed:
            if waiting < self._kept.limit or not left:
                floor.reset()
            elif taken:
                floor.move(len(taken), self._count_max - waiting, self._count_max)
        self._beneath = floor.rank - self._groups - 1
        return taken

    def _is_beneath(self, raw: object, submitter: str, standing: int | None = None) -> bool:
        """Return whether an unchecked batch surely claims no higher rank; False if in doubt.

        Under overload this is most of the cost of a refusal. A batch counts by its highest intent,
        so every intent is read. A malformed batch may be refused for load as well as for its form.

        Args:
            raw: The batch as submitted, not yet checked.
            submitter: Whose it is; the operator speaks for others, and is in doubt.
            standing: The rank that it must exceed; if it does not, the batch is below the floor or
                below every queued batch of a full queue.
        """
        if submitter == OPERATOR:
            return False
        ages, groups = self._ages, self._groups
        since = ages.recent.get(submitter)
        if since is None and (not ages.earlier or (since := ages.since(submitter)) is None):
            since = groups
        highest = since + (self._beneath if standing is None else standing)
        batch: Any = raw
        try:
            intents = batch if type(batch) is list else batch.get("intents", [batch])
            claim = intents[0]["priority"]
            is_beneath = (
                type(claim) is int and claim <= highest and len(intents) <= self._intents_max
            )
            if is_beneath:
                for intent in intents:
                    if intent["priority"] is not claim:  # as a rule all claim the same
                        is_beneath = max([one["priority"] for one in intents]) <= highest
                        break
        except Exception:  # noqa: BLE001  # a batch may be anything; the check tells so
            return False
        if not is_beneath:
            self._looked_at = raw
            return False
        if since == groups:
            ages.note(submitter, groups)
        return True

    def _needed(self, floor: int, since: int, submitter: str) -> int | None:
        """Return the priority above which a submitter's batch takes a place; None if it takes none.

        Args:
            floor: The priority above which it is at the floor.
            since: The group since which the submitter's priorities age.
            submitter: Who.
        """
        lowest = self._lowest()
        if lowest is None:
            return None
        if self._aside >= self._count_max:  # and until something leaves, nobody lower comes in
            self._beneath = max(self._beneath, lowest)
        return max(lowest + since, floor) if self._may_lose(lowest, submitter) else None

    def _add(self, waiting: QueuedBatch) -> None:
        since = self._since(owner_of(waiting))
        self._stand(waiting, self._priority_of(waiting.batch) - since)

    def _stand(self, waiting: QueuedBatch, standing: int) -> None:
        self._turns.add(waiting)
        waiting.standing = standing
        rank = self._ranks.get(standing)
        if rank is None:
            rank = self._ranks[standing] = PriorityBucket()
            heappush(self._lowest_first, standing)
        rank.add(waiting)

    def _left(self, taken: Sequence[QueuedBatch]) -> None:
        super()._left(taken)
        ranks = self._ranks
        for waiting in taken:
            standing = waiting.standing
            if ranks[standing].remove_oldest(waiting):
                self._forget(standing)

    def _shed(self, standing: int, load: Overload) -> None:
        rank = self._ranks[standing]
        waiting = rank.pop_lowest()
        if not rank:
            self._forget(standing)
        self._turns.discard(waiting)
        super()._left([waiting])
        self._ages.note(waiting.owner, self._groups)
        self._floor.shed += 1
        self._on_shed(waiting, self._priority_of(waiting.batch), load)

    def _can_make_room(self, standing: int, size: int, owner: str) -> bool:
        """Return whether something is lower, of one who has no fewer, and all of that is enough."""
        ranks, lowest = self._ranks, self._lowest()
        if lowest is None or lowest >= standing:
            return False
        if not self._may_lose(lowest, owner):
            return False
        if self._bytes + size <= self._bytes_max:
            return True
        lower = [rank for place, rank in ranks.items() if place < standing]
        kept = self._bytes - sum(rank.size for rank in lower)
        return kept + size <= self._bytes_max or len(lower) == len(ranks)

    def _may_lose(self, lowest: int, owner: str) -> bool:
        """Return whether the loser is the owner, or has at least as many batches queued."""
        loser, count_of = self._ranks[lowest].owner_of_most, self._turns.count_of
        return loser == owner or count_of(loser) >= count_of(owner)

    def _lowest(self) -> int | None:
        """Return the lowest standing that waits."""
        standings, ranks = self._lowest_first, self._ranks
        while standings and standings[0] not in ranks:
            heappop(standings)
        return standings[0] if standings else None

    def _forget(self, standing: int) -> None:
        del self._ranks[standing]
        if len(self._lowest_first) > 2 * len(self._ranks) + _GONE_MAX:
            self._lowest_first = list(self._ranks)
            heapify(self._lowest_first)

    def _since(self, owner: str) -> int:
        """Return the group since which an owner's priority ages."""
        ages = self._ages
        since = ages.recent.get(owner)
        if since is None and ages.earlier:
            since = ages.since(owner)
        return self._groups if since is None else since


def _owner_named(raw: object) -> str:
    """Return the owner of an unchecked batch of the operator (compare `owner_of`)."""
    intents = raw.get("intents", [raw]) if type(raw) is dict else raw
    first = intents[0] if type(intents) is list and intents else None
    name = first.get("agent_id") if type(first) is dict else None
    return name if type(name) is str else OPERATOR


class AgeTracker:
    """The group since which each owner has had nothing but losses.

    Bounded by recency: an owner that has not returned while half as many others as are kept did is
    forgotten, and its age restarts at its next loss. So owners that appear once do not displace
    owners that return. Every operation is O(1).

        Source: two generations instead of a list in order of use, as in the 2Q cache (Johnson and
        Shasha, 1994); a lookup moves nothing.

    Args:
        count_max: How many owners are kept, at most.

    Attributes:
        recent: First-loss group of each recent owner; looked up before `since`.
        earlier: Those who came before them; where there are none, `recent` has all.
    """

    __slots__ = ("_half", "earlier", "recent")

    def __init__(self, count_max: int) -> None:
        self._half = max(1, count_max // 2)
        self.recent: dict[str, int] = {}
        self.earlier: dict[str, int] = {}

    def since(self, owner: str) -> int | None:
        """Return the group at which an owner lost first; None for who has lost nothing."""
        group = self.recent.get(owner)
        if group is None:
            group = self.earlier.get(owner)
            if group is not None:
                self._keep(owner, group)
        return group

    def note(self, owner: str, group: int) -> None:
        """Note a loss; a later one changes nothing."""
        if self.since(owner) is None:
            self._keep(owner, group)

    def forget(self, owner: str) -> None:
        """Forget the losses of one that has had its turn."""
        self.recent.pop(owner, None)
        self.earlier.pop(owner, None)

    def clear(self) -> None:
        """Forget all."""
        self.recent.clear()
        self.earlier.clear()

    def __len__(self) -> int:
        return len(self.recent) + len(self.earlier)

    def _keep(self, owner: str, group: int) -> None:
        if len(self.recent) >= self._half:
            self.earlier, self.recent = self.recent, {}
        self.recent[owner] = group


class PriorityBucket:
    """Batches of one standing.

    Few are ever the lowest, so whose they are is looked at when it is first asked who has most of
    them, and kept from then on: once for each batch, at most.

    Attributes:
        size: Their bytes.
    """

    __slots__ = ("_batches", "_owners", "size")

    def __init__(self) -> None:
        self._batches: dict[QueuedBatch, None] = {}  # each owner's in the order in which they came
        self._owners: _Owners | None = None
        self.size = 0

    def add(self, waiting: QueuedBatch) -> None:
        """Add a batch, the youngest of its owner's."""
        self._batches[waiting] = None
        self.size += len(waiting.batch.encoded)
        if self._owners is not None:
            self._owners.add(waiting)

    def remove_oldest(self, waiting: QueuedBatch) -> bool:
        """Remove a batch that is taken: the oldest of its owner's. Tell whether it was the last."""
        del self._batches[waiting]
        self.size -= len(waiting.batch.encoded)
        if self._owners is not None:
            self._owners.remove_oldest(waiting)
        return not self._batches

    @property
    def owner_of_most(self) -> str:
        """Return who has most."""
        return self._by_owner().owner_of_most

    def pop_lowest(self) -> QueuedBatch:
        """Remove the youngest batch of the owner that has most."""
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
    """Batches by whose they are, and the owners by how many they have.

    Of owners with as many, the one stands last that came to so many last; who lost one, first.
    """

    __slots__ = ("_by_count", "_by_owner", "_most")

    def __init__(self, batches: Iterable[QueuedBatch]) -> None:
        self._by_owner: dict[str, deque[QueuedBatch]] = {}
        self._by_count: dict[int, OrderedDict[str, None]] = {}
        self._most = 0
        for waiting in batches:
            self.add(waiting)

    def add(self, waiting: QueuedBatch) -> None:
        """Add a batch, the youngest of its owner's."""
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
        """Remove the oldest batch of its owner's."""
        own = self._by_owner[waiting.owner]
        oldest = own.popleft()
        assert oldest is waiting, "an agent's batches leave in the order in which they came"
        self._left(waiting.owner, len(own))

    @property
    def owner_of_most(self) -> str:
        """Return who has most."""
        return next(reversed(self._by_count[self._most]))

    def pop_lowest(self) -> QueuedBatch:
        """Remove the youngest batch of the owner that has most."""
        owner = self.owner_of_most
        own = self._by_owner[owner]
        waiting = own.pop()
        self._left(owner, len(own))
        return waiting

    def _left(self, owner: str, count: int) -> None:
        self._leave(owner, count + 1)
        if count:
            self._come(owner, count)
            self._by_count[count].move_to_end(owner, last=False)
        else:
            del self._by_owner[owner]
        if self._most not in self._by_count:
            self._most = count  # it moves by one: whoever had most has one less

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
