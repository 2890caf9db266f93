"""The ports of this layer: what an actor needs from outside, each a small protocol.

Adapters live in `runtime/`; a fake is thirty lines.
"""

from collections.abc import Awaitable, Callable, Iterator
from typing import Protocol, TypeAlias, runtime_checkable

from placet.schemas.codec import Json
from placet.schemas.effect import Effect
from placet.schemas.log.record import LogGroup, LogStart


class EventLog(Protocol):
    """A durable, ordered log of record groups, with one writer.

    Synchronous: the committer owns the thread in which a blocking store is called.

    Attributes:
        durability: The level that an acknowledgement has: `memory off normal local full`.
        is_blocking: True if `append` may wait for a disk or a network.
        url: Where the log is, for people.
    """

    durability: str
    is_blocking: bool
    url: str

    def open(self) -> int:
        """Take the fence and give the new epoch; every earlier writer is shut out.

        Raises:
            StoreError: The store cannot be opened, is damaged, or is not a placet log.
        """

    def append(self, group: LogGroup, epoch: int) -> None:
        """Make a group durable, all of it or nothing; when this returns, it is.

        Raises:
            StoreError: The store could not write, the group does not follow the last one
                (`first_record`), or `epoch` is no longer the latest.
        """

    def read(self, from_record: int = 0) -> Iterator[tuple[int, bytes]]:
        """Return `(ordinal, record)` pairs from an ordinal on, in order.

        Of a compacted log, the rest.

        Raises:
            StoreError: The store cannot be read or is damaged.
        """

    def find_seq(self, seq: int) -> int:
        """Return the ordinal of the first record of the group that reached a seq; else `count()`.

        Of a compacted log, no ordinal before its start.

        Raises:
            StoreError: The store cannot be read or is damaged.
        """

    def start(self) -> LogStart:
        """Return where the log begins.

        Raises:
            StoreError: The store cannot be read or is damaged.
        """

    def compact(self, before_record: int, epoch: int, *, groups_max: int) -> bool:
        """Remove the oldest groups that lie wholly before a record, and never the last one.

        Durable, all of it or none, together with `start`. Removed records must be covered by a
        snapshot.

        Args:
            before_record: Where to stop.
            epoch: As for `append`.
            groups_max: How many groups to remove at most, so that an append waits no longer.

        Returns:
            Whether there is more to remove.

        Raises:
            StoreError: The store could not write, or `epoch` is no longer the latest.
        """

    def count(self) -> int:
        """Count the records that were ever appended: the ordinal of the next one."""

    def size_bytes(self) -> int:
        """Return the bytes of all records ever appended, as far as the store knows."""

    def close(self) -> None:
        """Release the store; harmless if called twice."""


class AgentIdentity(Protocol):
    """The agent for whom a batch speaks: this one, and not the next of its name."""

    @property
    def agent_id(self) -> str:
        """Its name."""

    @property
    def generation(self) -> int:
        """How often the name was registered by then."""


class Clock(Protocol):
    """Where simulated time comes from. Nanoseconds since the world's beginning, never back."""

    def now_ns(self) -> int:
        """Return the present simulated time."""

    def monotonic_ns(self) -> int:
        """Return a monotonic time for measuring waits; its zero means nothing."""


@runtime_checkable
class HostClock(Clock, Protocol):
    """A clock that stands still until the host program moves it: a stepped world."""

    def advance(self, dt_ns: int) -> int:
        """Move simulated time forward and give the new one."""


@runtime_checkable
class DilatingClock(Clock, Protocol):
    """A clock whose simulated time runs slower than the machine's while much waits."""

    def follow(self, wait_ns: int) -> bool:
        """Take in how long a batch that comes now would wait; True while time runs slower."""


AsyncEffectHandler: TypeAlias = Callable[[Effect], Awaitable[Json]]
"""Runs one effect and returns its output as plain JSON; raising means that it failed."""
