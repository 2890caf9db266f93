"""`shed_lowest`: a batch that comes under load may take the place of one of lower priority.

Who is shed: of the lowest priority that waits, of the agent that has most such batches waiting, the
youngest. So a flood costs the flooder first, an agent's own order is kept, and what is nearest to
its turn keeps it. Never within one priority: there the newcomer is refused. Decision 0010 says why.

A post costs O(1) here, however many wait: priorities are at most 101, batches of one priority are
kept by agent, and agents by how many they have.
"""

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from placet.actors.door import Load
from placet.actors.mailbox import MailboxFull
from placet.actors.queue import BatchQueue, Waiting
from placet.schemas.batch import CheckedBatch
from placet.schemas.identity import OPERATOR
from placet.schemas.limits import Limits

if TYPE_CHECKING:
    import asyncio

PRIORITY_MAX: Final = 100


class _Rank:
    """Batches of one priority, by whose they are, and the owners by how many they have.

    Of owners with as many, the one stands last that came to so many last; who lost one, first.
    """

    __slots__ = ("_by_count", "_by_owner", "_most", "size")

    def __init__(self) -> None:
        self._by_owner: dict[str, deque[Waiting]] = {}
        self._by_count: dict[int, OrderedDict[str, None]] = {}
        self._most = 0
        self.size = 0

    def add(self, waiting: Waiting) -> None:
        own = self._by_owner.setdefault(_owner(waiting), deque())
        own.append(waiting)
        self.size += len(waiting.batch.encoded)
        self._count(_owner(waiting), len(own) - 1, len(own))

    def remove_oldest(self, waiting: Waiting) -> None:
        """Remove a batch that is taken: it is the oldest of its owner's."""
        own = self._by_owner[_owner(waiting)]
        oldest = own.popleft()
        assert oldest is waiting, "an agent's batches leave in the order in which they came"
        self._left(waiting, len(own))

    def pop_lowest(self) -> Waiting:
        """Remove the youngest batch of the owner that has most."""
        own = self._by_owner[next(reversed(self._by_count[self._most]))]
        waiting = own.pop()
        self._left(waiting, len(own))
        return waiting

    def __bool__(self) -> bool:
        return bool(self._by_owner)

    def _left(self, waiting: Waiting, count: int) -> None:
        self.size -= len(waiting.batch.encoded)
        if not count:
            del self._by_owner[_owner(waiting)]
        self._count(_owner(waiting), count + 1, count)

    def _count(self, owner: str, before: int, after: int) -> None:
        if before:
            owners = self._by_count[before]
            del owners[owner]
            if not owners:
                del self._by_count[before]
        if after:
            owners = self._by_count.setdefault(after, OrderedDict())
            owners[owner] = None
            owners.move_to_end(owner, last=after > before)
        if after > self._most or self._most not in self._by_count:
            self._most = after  # it moves by one: whoever had most has one less, or one more


class SheddingQueue(BatchQueue):
    """A queue from whose middle a batch can be shed.

    Args:
        limits: Bounds of the queue.
        priority_of: Gives the priority of a batch, capped for its agents and its submitter.
        cap_of: Gives the highest priority that a submitter may have.
        on_shed: Answers a batch that was shed; gets it, its priority, and the load.
    """

    # The base's deque stays empty: nothing leaves a deque from the middle at a bounded cost.
    __slots__ = ("_cap_of", "_intents_max", "_on_shed", "_order", "_priority_of", "_ranks")

    def __init__(
        self,
        limits: Limits,
        priority_of: Callable[[CheckedBatch], int],
        cap_of: Callable[[str], int],
        on_shed: Callable[[Waiting, int, Load], None],
    ) -> None:
        super().__init__(limits.mailbox_batches_max, limits.mailbox_bytes_max)
        self._intents_max = limits.batch_intents_max
        self._priority_of = priority_of
        self._cap_of = cap_of
        self._on_shed = on_shed
        self._order: OrderedDict[Waiting, int] = OrderedDict()  # with the priority of each
        self._ranks: dict[int, _Rank] = {}

    def turn_away(self, load: Load, raw: object, submitter: str) -> Load | None:
        """Refuse at once what does not even claim a higher priority than the lowest that waits."""
        if not self._ranks:
            return load
        lowest = min(self._ranks)
        may_be_higher = _claimed(raw, self._intents_max) > lowest < self._cap_of(submitter)
        return None if may_be_higher else load

    def place(self, waiting: Waiting, load: Load) -> Load | None:
        """Shed what is lower, as much as this batch needs, and give it the place; or nothing."""
        priority, size = self._priority_of(waiting.batch), len(waiting.batch.encoded)
        if not self._can_make_room(priority, size):
            return load
        while True:
            self._shed(min(self._ranks), load)
            if not self._order or self._bytes + size <= self._bytes_max:
                break
        self.post_nowait(waiting, size)
        return None

    def post_nowait(self, message: Waiting, size: int = 0) -> None:
        """Put a batch at the end of the queue.

        Raises:
            MailboxFull: It would hold more than it may.
        """
        order = self._order
        if len(order) >= self._count_max:
            raise MailboxFull("mailbox_batches", len(order), self._count_max)
        if self._bytes + size > self._bytes_max and order:
            raise MailboxFull("mailbox_bytes", self._bytes + size, self._bytes_max)
        priority = self._priority_of(message.batch)
        order[message] = priority
        rank = self._ranks.get(priority)
        if rank is None:
            rank = self._ranks[priority] = _Rank()
        rank.add(message)
        self._bytes += size
        self._most = max(self._most, len(order))
        if self._parked is not None and not self.is_paused:
            self.wake()

    def take(
        self, count_max: int, enough: Callable[[Waiting], bool] | None = None
    ) -> list[Waiting]:
        """Take the oldest batches: at most `count_max`, and none after `enough` said yes."""
        order = self._order
        taken: list[Waiting] = []
        while order and len(taken) < count_max and not self.is_paused:
            waiting, priority = order.popitem(last=False)
            self._ranks[priority].remove_oldest(waiting)
            self._forget(waiting, priority)
            taken.append(waiting)
            if enough is not None and enough(waiting):
                break
        self._received += len(taken)
        return taken

    @property
    def oldest(self) -> Waiting | None:
        """The batch that has waited longest."""
        return next(iter(self._order), None)

    def replies(self) -> "list[asyncio.Future[Any]]":
        """Give the replies of all who wait."""
        return [waiting.reply for waiting in self._order]

    def __len__(self) -> int:
        return len(self._order)

    def _can_make_room(self, priority: int, size: int) -> bool:
        """Tell whether something is lower, and all of that is enough."""
        ranks = self._ranks
        if not ranks or min(ranks) >= priority:
            return False
        if self._bytes + size <= self._bytes_max:
            return True
        lower = [rank for lowest, rank in ranks.items() if lowest < priority]
        kept = self._bytes - sum(rank.size for rank in lower)
        return kept + size <= self._bytes_max or len(lower) == len(ranks)

    def _shed(self, priority: int, load: Load) -> None:
        waiting = self._ranks[priority].pop_lowest()
        del self._order[waiting]
        self._forget(waiting, priority)
        self._on_shed(waiting, priority, load)

    def _forget(self, waiting: Waiting, priority: int) -> None:
        self._bytes -= len(waiting.batch.encoded)
        if not self._ranks[priority]:
            del self._ranks[priority]


def _owner(waiting: Waiting) -> str:
    """Say whose a batch is: the submitter's, or of the agent that the operator speaks for."""
    batch = waiting.batch
    return batch.agents[0] if batch.submitter == OPERATOR else batch.submitter


def _claimed(raw: object, count_max: int) -> int:
    """Read the priority that a batch claims, before it is checked; the highest if in doubt."""
    intents = raw.get("intents", [raw]) if type(raw) is dict else raw
    if type(intents) is not list or len(intents) > count_max:
        return PRIORITY_MAX
    claims: list[Any] = [intent.get("priority") for intent in intents if type(intent) is dict]
    if len(claims) < len(intents) or {*map(type, claims)} != {int}:
        return PRIORITY_MAX
    highest: int = max(claims)
    return highest
