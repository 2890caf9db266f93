"""The batches of one standing in a shedding queue, and who has most of them."""

from collections import OrderedDict, deque
from collections.abc import Iterable

from placet.actors.queued_batch import QueuedBatch


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
