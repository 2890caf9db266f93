"""A bounded mailbox with a control lane that is never full: the one file that knows the event loop.

`asyncio.Queue` and memory streams were measured and are slower than a deque with one parked future
(decision 0004). There is one receiver; senders are in the same thread.
"""

import asyncio
from collections import deque
from typing import Generic, NamedTuple, TypeVar

from placet.schemas.portable_error import PortableError

M = TypeVar("M")
C = TypeVar("C")


class MailboxFull(PortableError):  # noqa: N818  # a state, which the sender answers by a refusal
    """The error of a full mailbox: `signal` names the bound, with its `value` and its `limit`."""

    def __init__(self, signal: str, value: int, limit: int) -> None:
        super().__init__(f"{signal} is {value}, the limit is {limit}")
        self.signal = signal
        self.value = value
        self.limit = limit


class MailboxStatistics(NamedTuple):
    """Counts of a mailbox: messages and bytes queued now, messages taken, most queued at a time."""

    waiting: int
    waiting_bytes: int
    control_waiting: int
    received: int
    most_waiting: int


class Mailbox(Generic[M, C]):
    """A bounded queue of messages for one receiver; control messages overtake the others.

    Args:
        count_max: Maximum number of queued messages; control messages do not count.
        bytes_max: Maximum bytes of the queued messages together, as their senders declare.

    Attributes:
        is_paused: Messages stay queued; only control messages are delivered.
    """

    def __init__(self, count_max: int, bytes_max: int = 2**63) -> None:
        self._lane: deque[M] = deque()
        self._sizes: deque[int] = deque()
        self._control: deque[C] = deque()
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._bytes = 0
        self._aside = 0  # messages that a subclass keeps outside the lane
        self._parked: asyncio.Future[None] | None = None
        self._received = 0
        self._most = 0
        self.is_paused = False

    def post_nowait(self, message: M, size: int = 0) -> int:
        """Add a message at the end of the queue. An empty mailbox accepts a message of any size.

        Returns:
            Number of messages before it.

        Raises:
            MailboxFull: The mailbox would exceed its bounds.
        """
        lane = self._lane
        waiting = len(lane) + self._aside
        if waiting >= self._count_max:
            raise MailboxFull("mailbox_batches", waiting, self._count_max)
        if self._bytes + size > self._bytes_max and waiting:
            raise MailboxFull("mailbox_bytes", self._bytes + size, self._bytes_max)
        lane.append(message)
        self._sizes.append(size)
        self._bytes += size
        if waiting >= self._most:
            self._most = waiting + 1
        if self._parked is not None and not self.is_paused:
            self.wake()
        return waiting

    def post_control(self, message: C) -> None:
        """Add a control message, which precedes every other message; never full."""
        self._control.append(message)
        self.wake()

    def wake(self) -> None:
        """Wake the receiver if it waits, even without a message."""
        parked = self._parked
        if parked is not None:
            self._parked = None
            if not parked.done():
                parked.set_result(None)

    def pause(self) -> None:
        """Queue messages without delivering them, until `is_paused` is reset."""
        self.is_paused = True

    async def wait(self) -> None:
        """Wait until there is a message to take, or `wake` is called; does not poll."""
        if not self.is_idle:
            return
        self._parked = asyncio.get_running_loop().create_future()
        try:
            await self._parked
        finally:
            self._parked = None

    def take_control(self) -> C | None:
        """Remove and return the oldest control message; None if there is none."""
        return self._control.popleft() if self._control else None

    def take(self, count_max: int) -> list[M]:
        """Remove and return the oldest messages, at most `count_max`; empty while paused."""
        lane, sizes = self._lane, self._sizes
        taken: list[M] = []
        if self.is_paused:
            return taken
        while lane and len(taken) < count_max:
            taken.append(lane.popleft())
            self._bytes -= sizes.popleft()
        self._received += len(taken)
        return taken

    def take_all(self) -> list[M]:
        """Remove and return every message, paused or not; end a pause."""
        self.is_paused = False
        return self.take(len(self))

    @property
    def oldest(self) -> M | None:
        """The oldest message; None in an empty mailbox. Safe to read from another thread."""
        try:
            return self._lane[0]
        except IndexError:  # not asked first: another thread may take the last message meanwhile
            return None

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to take: no control message, and no message or a pause."""
        return not self._control and (self.is_paused or not (self._lane or self._aside))

    @property
    def received(self) -> int:
        """Number of messages taken so far."""
        return self._received

    def _post_aside(self, size: int) -> int:
        """Count a message that a subclass keeps outside the lane, within the bounds.

        Returns:
            Number of messages, with it.
        """
        self._aside += 1
        self._bytes += size
        waiting = len(self._lane) + self._aside
        self._most = max(self._most, waiting)
        if self._parked is not None and not self.is_paused:
            self.wake()
        return waiting

    def __len__(self) -> int:
        return len(self._lane) + self._aside

    def statistics(self) -> MailboxStatistics:
        """Return counts of queued and delivered messages."""
        return MailboxStatistics(
            len(self), self._bytes, len(self._control), self._received, self._most
        )
