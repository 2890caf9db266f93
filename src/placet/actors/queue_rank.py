"""The batches of one standing in a shedding queue, and who has most of them."""

from collections import OrderedDict, deque

from placet.actors.waiting import Waiting


class Rank:
    """Batches of one standing, by whose they are, and the owners by how many they have.

    Of owners with as many, the one stands last that came to so many last; who lost one, first.
    """

    __slots__ = ("_by_count", "_by_owner", "_most", "size")

    def __init__(self) -> None:
        self._by_owner: dict[str, deque[Waiting]] = {}
        self._by_count: dict[int, OrderedDict[str, None]] = {}
        self._most = 0
        self.size = 0

    def add(self, waiting: Waiting) -> None:
        """Add a batch, the youngest of its owner's."""
        owner = waiting.owner
        own = self._by_owner.get(owner)
        if own is None:
            own = self._by_owner[owner] = deque()
        own.append(waiting)
        self.size += len(waiting.batch.encoded)
        count = len(own)
        if count > 1:
            self._leave(owner, count - 1)
        self._come(owner, count)
        if count > self._most:  # noqa: PLR1730  # max() costs as much as all the rest
            self._most = count

    def remove_oldest(self, waiting: Waiting) -> None:
        """Remove a batch that is taken: it is the oldest of its owner's."""
        own = self._by_owner[waiting.owner]
        oldest = own.popleft()
        assert oldest is waiting, "an agent's batches leave in the order in which they came"
        self._left(waiting, len(own))

    @property
    def owner_of_most(self) -> str:
        """Say who has most."""
        return next(reversed(self._by_count[self._most]))

    def pop_lowest(self) -> Waiting:
        """Remove the youngest batch of the owner that has most."""
        own = self._by_owner[self.owner_of_most]
        waiting = own.pop()
        self._left(waiting, len(own))
        return waiting

    def __bool__(self) -> bool:
        return bool(self._by_owner)

    def _left(self, waiting: Waiting, count: int) -> None:
        owner = waiting.owner
        self.size -= len(waiting.batch.encoded)
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
