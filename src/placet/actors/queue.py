"""The orchestrator's queue: its messages, and what becomes of a batch that comes under load.

There is a policy for that (`backpressure`), and a queue for each policy: here `reject`, the plain
one; `wait` in `queue_waiting.py`, `shed_lowest` in `queue_shedding.py`. Where nothing stands
against a batch, all three do the same.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from placet.actors.door import Load
from placet.actors.mailbox import Mailbox
from placet.kernel.kernel import Kernel
from placet.schemas.batch import CheckedBatch

if TYPE_CHECKING:
    import asyncio

Backpressure: TypeAlias = Literal["reject", "wait", "shed_lowest"]


class Waiting:
    """A batch in the queue, and who waits for its verdict.

    Attributes:
        batch: What to decide.
        reply: Gets the verdict.
        since_ns: When it was posted, monotonic nanoseconds.
        queued_ns: When it came into the queue; later than that where it stood in line before.
        incarnation: Of the agent whose handle posted it; None where the operator did.
    """

    __slots__ = ("batch", "incarnation", "queued_ns", "reply", "since_ns")

    def __init__(
        self,
        batch: CheckedBatch,
        reply: "asyncio.Future[Any]",
        since_ns: int,
        incarnation: int | None,
    ) -> None:
        self.batch = batch
        self.reply = reply
        self.since_ns = since_ns
        self.queued_ns = since_ns
        self.incarnation = incarnation


class Command(NamedTuple):
    """Do something with the kernel in the orchestrator's turn."""

    act: Callable[[Kernel], object]
    reply: "asyncio.Future[Any]"


class Step(NamedTuple):
    """Advance a stepped world by so many nanoseconds."""

    dt_ns: int
    reply: "asyncio.Future[Any]"


class BatchQueue(Mailbox[Waiting, Command | Step]):
    """`reject`: a batch that comes under load is refused at once, before it is looked at."""

    __slots__ = ()

    def turn_away(self, load: Load, raw: object, submitter: str) -> Load | None:
        """Judge a batch that comes under load by a first look at it.

        Args:
            load: What stands against it.
            raw: The batch as it came.
            submitter: Whose it is.

        Returns:
            Why it is refused; None if it may be checked, and then placed.
        """
        return load

    def place(self, waiting: Waiting, load: Load) -> Load | None:
        """Find a place for a sound batch under load.

        Returns:
            Why there is none; None if it has one.
        """
        return load

    def let_in(self) -> None:
        """Let in those who stand in line, where there is a line, as far as there is room."""

    @property
    def in_line(self) -> int:
        """How many stand in line besides those that are in the queue."""
        return 0

    def replies(self) -> "list[asyncio.Future[Any]]":
        """Give the replies of all who wait, in line too."""
        return [waiting.reply for waiting in self._lane]
