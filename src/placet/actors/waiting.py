"""A batch that waits for the orchestrator."""

from typing import TYPE_CHECKING, Any

from placet.schemas.batch import CheckedBatch

if TYPE_CHECKING:
    import asyncio


class Waiting:
    """A batch in the queue, and who waits for its verdict.

    Attributes:
        batch: What to decide.
        reply: Gets the verdict.
        since_ns: When it was posted, monotonic nanoseconds.
        queued_ns: When it came into the queue; later than that where it stood in line before.
        incarnation: Of the agent whose handle posted it; None where the operator did.
        number: Which it was of those that wait for their turn; set when it does.
        owner: Whose it is; set with `number`.
        standing: How high it stands; set where the lowest is shed.
        simulated_ns: When it was posted, in simulated time; set where deadlines are.
    """

    __slots__ = (
        "batch",
        "incarnation",
        "number",
        "owner",
        "queued_ns",
        "reply",
        "simulated_ns",
        "since_ns",
        "standing",
    )

    number: int
    owner: str
    simulated_ns: int
    standing: int

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
