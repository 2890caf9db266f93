"""The ports of this layer: the outside parts that an actor needs, each a small protocol.

Adapters are in `stores` and `runtime`; a fake is thirty lines.
"""

from collections.abc import Awaitable, Callable, Iterator
from typing import Protocol, TypeAlias, runtime_checkable

from placet.schemas.codec import Json
from placet.schemas.effect import Effect
from placet.schemas.log.record import LogAppend, LogStart


@runtime_checkable
class EventLog(Protocol):
    """A durable, ordered log of records, with one writer.

    Synchronous: the committer owns the thread in which a blocking store is called.

    Attributes:
        durability: How safe an acknowledged record is: `memory`, `off`, `normal`, `local`, `full`.
        is_blocking: True if `append` may wait for a disk or a network.
        url: Location of the log, for messages.
    """

    durability: str
    is_blocking: bool
    url: str

    def open(self, *, take_over: bool = False) -> int:
        """Acquire the exclusive right to write and return the new epoch; earlier writers lose it.

        Args:
            take_over: Do so even if another process writes the log at present.

        Raises:
            StoreError: Another process writes the log; or the store cannot be opened, is damaged,
                or is not a placet log.
        """

    def append(self, append: LogAppend, epoch: int) -> None:
        """Write the records of an append atomically; it is durable when this returns.

        Raises:
            StoreError: The store could not write, the append does not follow the last one
                (`first_record`), or `epoch` is no longer the latest.
        """

    def check_writable(self, epoch: int) -> None:
        """Prove by a durable write that changes no record that an append could be appended now.

        Raises:
            StoreError: The store could not write, `epoch` is no longer the latest, or an append or
                a check has failed before; after a failure, nothing is appended.
        """

    def read(self, from_record: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield `(ordinal, record)` pairs in order, from ordinal `from_record` on.

        Records appended meanwhile are included; records that a compaction removed are left out.

        Raises:
            StoreError: The store cannot be read or is damaged.
        """

    def find_seq(self, seq: int) -> int:
        """Return the ordinal of the first record of the append that reached a seq.

        `count()` if no append has. Of a compacted log, no ordinal before its start.

        Raises:
            StoreError: The store cannot be read or is damaged.
        """

    def start(self) -> LogStart:
        """Return the position of the first record that a compaction has left; else record 0.

        Raises:
            StoreError: The store cannot be read or is damaged.
        """

    def compact(self, before_record: int, epoch: int, *, appends_max: int) -> bool:
        """Remove the oldest appends that lie wholly before a record, and never the last one.

        Durable, all of it or none, together with `start`. Removed records must be covered by a
        snapshot.

        Args:
            before_record: Ordinal; appends that reach it are kept.
            epoch: The epoch that `open` returned.
            appends_max: Maximum number of appends to remove, which bounds the delay of an append.

        Returns:
            Whether there is more to remove.

        Raises:
            StoreError: The store could not write, or `epoch` is no longer the latest.
        """

    def count(self) -> int:
        """Return the number of records ever appended, which is the ordinal of the next one."""

    def size_bytes(self) -> int:
        """Return the bytes of all records ever appended; an estimate in some stores."""

    def close(self) -> None:
        """Release the store; harmless if called twice."""


class AgentIdentity(Protocol):
    """An agent's name and generation: an agent registered later under the name is another."""

    @property
    def agent_id(self) -> str:
        """Name of the agent."""

    @property
    def generation(self) -> int:
        """Number of registrations of the id up to this one."""


class Clock(Protocol):
    """The source of simulated time, which never decreases."""

    def now_ns(self) -> int:
        """Return the simulated time, nanoseconds since the world began."""

    def monotonic_ns(self) -> int:
        """Return a monotonic time for measuring waits, nanoseconds; its zero is arbitrary."""


@runtime_checkable
class HostClock(Clock, Protocol):
    """A clock that only the host program advances; makes a stepped world."""

    def advance(self, dt_ns: int) -> int:
        """Advance simulated time by `dt_ns` nanoseconds, and return the new time."""


@runtime_checkable
class DilatingClock(Clock, Protocol):
    """A clock whose simulated time runs slower than real time under load."""

    def follow(self, wait_ns: int) -> bool:
        """Adjust the speed of simulated time to the predicted wait of a batch, nanoseconds.

        Return True while simulated time is slowed.
        """


AsyncEffectHandler: TypeAlias = Callable[[Effect], Awaitable[Json]]
"""Runs one effect and returns its output as plain JSON; raising means that it failed."""
