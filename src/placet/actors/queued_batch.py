"""A batch that waits for the orchestrator."""

import asyncio
from typing import Any

import msgspec

from placet.actors.ports import AgentIdentity
from placet.schemas.batch import CheckedBatch


class QueuedBatch(msgspec.Struct, eq=False):
    """A batch in the queue, and who waits for its verdict. A struct: one call in C makes it.

    Attributes:
        batch: What to decide.
        reply: Gets the verdict.
        since_ns: When it was posted, monotonic nanoseconds.
        identity: The agent that it is refused without; None where it is decided for any.
        queued_ns: When it came into the queue; later than that where it stood in line before.
        number: Which it was of those that wait for their turn; set when it does.
        owner: Whose it is; set with `number`.
        standing: How high it stands; set where the lowest is shed.
        simulated_ns: When it was posted, in simulated time; set where deadlines are.
    """

    batch: CheckedBatch
    reply: asyncio.Future[Any]
    since_ns: int
    identity: AgentIdentity | None
    queued_ns: int
    number: int = 0
    owner: str = ""
    standing: int = 0
    simulated_ns: int = 0
