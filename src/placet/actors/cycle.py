"""One turn of the orchestrator: what it took from the mailbox, and what it brought about.

Everybody whose message was taken is owed an answer (G1): by the commit that the turn becomes, or,
where the turn fails half way, by the failure.
"""

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import asyncio

    from placet.actors.queued_batch import QueuedBatch
    from placet.schemas.effect import Effect
    from placet.schemas.verdict import Verdict

Reply: TypeAlias = "tuple[asyncio.Future[Any], object]"
"""Whoever waits, and what it is told."""

Decided: TypeAlias = "tuple[QueuedBatch, Verdict]"
"""A batch that waited, and its verdict."""


class Cycle:
    """What one turn came to so far.

    Attributes:
        owed: The replies of all messages that were taken.
        decided: The batches that were decided.
        replies: Of the others those that are known, and what they resolve to.
        effects: To be dispatched once the turn is durable.
    """

    __slots__ = ("decided", "effects", "owed", "replies")

    def __init__(self) -> None:
        self.owed: list[asyncio.Future[Any]] = []
        self.decided: list[Decided] = []
        self.replies: list[Reply] = []
        self.effects: list[Effect] = []

    def fail(self, failure: BaseException) -> None:
        """Answer everybody with the failure."""
        for reply in self.owed:
            resolve(reply, failure)


def resolve(reply: "asyncio.Future[Any]", result: object) -> None:
    """Return a result, or raise one that is an exception; harmless where nobody waits any more.

    A failure is the world's, which reports it once; a reply that nobody asks for says nothing.
    """
    if reply.done():
        return
    if isinstance(result, BaseException):
        reply.set_exception(result)
        reply.exception()  # else asyncio prints a trace for each that is never awaited
    else:
        reply.set_result(result)
