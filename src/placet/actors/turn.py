"""One turn of the orchestrator: what it took from the mailbox, and what it brought about.

Everybody whose message was taken is owed an answer (G1): by the commit that the turn becomes, or,
where the turn fails half way, by the failure.
"""

from typing import TYPE_CHECKING, Any, TypeAlias

from placet.schemas.refusal import REMEMBERED_STAGES
from placet.schemas.verdict import Verdict

if TYPE_CHECKING:
    import asyncio

    from placet.schemas.effect import Effect

Reply: TypeAlias = "tuple[asyncio.Future[Any], object]"
"""Whoever waits, and what it is told."""


class Turn:
    """What one turn came to so far.

    Attributes:
        owed: The replies of all messages that were taken.
        replies: Those that are known, and what they resolve to once the turn is durable.
        since_ns: When the batches among them were posted, monotonic nanoseconds.
        effects: To be dispatched then.
    """

    __slots__ = ("effects", "owed", "replies", "since_ns")

    def __init__(self) -> None:
        self.owed: list[asyncio.Future[Any]] = []
        self.replies: list[Reply] = []
        self.since_ns: list[int] = []
        self.effects: list[Effect] = []

    def fail(self, failure: BaseException) -> None:
        """Answer everybody with the failure."""
        for reply in self.owed:
            resolve(reply, failure)


def is_kept(verdict: Verdict) -> bool:
    """Tell whether the answer is in the log; others leave no trace and keep durability `none`."""
    if verdict.dry_run:
        return False
    if verdict.admitted or verdict.replayed:
        return True
    return verdict.refusals[0].stage in REMEMBERED_STAGES


def resolve(reply: "asyncio.Future[Any]", result: object) -> None:
    """Give a result, or raise one that is an exception; harmless where nobody waits any more.

    A failure is the world's, which reports it once; a reply that nobody asks for says nothing.
    """
    if reply.done():
        return
    if isinstance(result, BaseException):
        reply.set_exception(result)
        reply.exception()  # else asyncio prints a trace for each that is never awaited
    else:
        reply.set_result(result)
