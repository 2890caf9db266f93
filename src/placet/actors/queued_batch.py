"""A batch in the orchestrator's queue."""

import asyncio
from typing import Any

import msgspec

from placet.actors.ports import AgentIdentity
from placet.schemas.batch import CheckedBatch


class QueuedBatch(msgspec.Struct, eq=False):
    """A batch in the queue with the future of its verdict. A struct: one call in C makes it.

    Attributes:
        batch: The checked batch.
        reply: The future of its verdict.
        since_ns: Monotonic time at which it was submitted, nanoseconds.
        identity: The batch is refused if this agent, of this generation, is no longer registered
            when it is decided; None for no such condition.
        queued_ns: Monotonic time at which it entered the queue; later than `since_ns` after a wait
            queue.
        number: Arrival number in the fair queue; 0 before it enters that.
        owner: The agent whose share of the queue it uses; set with `number`.
        rank: Priority corrected for age; set by `shed_lowest` while there is load.
        simulated_ns: Simulated time at which it was submitted; set under `dilate` only.
    """

    batch: CheckedBatch
    reply: asyncio.Future[Any]
    since_ns: int
    identity: AgentIdentity | None
    queued_ns: int
    number: int = 0
    owner: str = ""
    rank: int = 0
    simulated_ns: int = 0
