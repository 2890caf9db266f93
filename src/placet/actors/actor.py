"""The actor base: a mailbox, and a loop that handles one message at a time.

Nothing of any domain is here. A handler may await, and no other message of the actor is handled
meanwhile: so a read, an await and a write in one handler are one step.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, NamedTuple, TypeVar

from placet.actors.mailbox import Mailbox, MailboxFull
from placet.schemas.errors import ClosedError

M = TypeVar("M")
R = TypeVar("R")


class _Letter(Generic[M, R]):
    __slots__ = ("message", "reply")

    def __init__(self, message: M, reply: "asyncio.Future[R] | None") -> None:
        self.message = message
        self.reply = reply


class ActorStatistics(NamedTuple):
    """Message counts of one actor: handled, failed (the handler raised), queued now."""

    handled: int
    failed: int
    waiting: int


class Actor(Generic[M, R]):
    """A worker that handles messages from its bounded mailbox, one at a time, with one function.

    Args:
        name: Name of the actor in error messages.
        handle: Called with one message at a time. An exception is raised to the sender of an `ask`;
            for a `tell` it leaves `run` and reaches the supervisor.
        mailbox_max: How many messages may be queued; beyond that `tell` and `ask` raise
            `MailboxFull`.
    """

    def __init__(
        self, name: str, handle: Callable[[M], Awaitable[R]], *, mailbox_max: int = 1024
    ) -> None:
        self.name = name
        self._handle = handle
        self._mailbox: Mailbox[_Letter[M, R], None] = Mailbox(mailbox_max)
        self._handled = 0
        self._failed = 0
        self._closed = False
        self._is_running = False

    def tell(self, message: M) -> None:
        """Send a message without waiting for it to be handled.

        Raises:
            MailboxFull: Too many wait already.
            ClosedError: The actor has stopped.
        """
        self._post(_Letter(message, None))

    async def ask(self, message: M) -> R:
        """Send a message and wait for the handler's result or exception.

        Raises:
            MailboxFull: Too many wait already.
            ClosedError: The actor has stopped, or stops before it answers.
        """
        reply: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._post(_Letter(message, reply))
        return await reply

    async def run(self) -> None:
        """Handle messages until `close`; the supervisor of the actor's tasks calls this.

        Canceling it closes the actor. After a failure it may be run again: queued messages are
        kept.
        """
        self._is_running = True
        try:
            while not self._closed or len(self._mailbox):
                await self._mailbox.wait()
                for letter in self._mailbox.take(1):
                    await self._deliver(letter)
        except asyncio.CancelledError:
            self._closed = True
            raise
        finally:
            self._is_running = False
            if self._closed:
                self._abandon()

    def close(self) -> None:
        """Stop accepting messages; `run` returns when the queued ones are handled."""
        self._closed = True
        self._mailbox.wake()
        if not self._is_running:
            self._abandon()

    def statistics(self) -> ActorStatistics:
        """Return counts of handled, failed and queued messages."""
        return ActorStatistics(self._handled, self._failed, len(self._mailbox))

    def _post(self, letter: _Letter[M, R]) -> None:
        if self._closed:
            raise ClosedError(f"actor {self.name!r} has stopped and takes no more messages")
        self._mailbox.post_nowait(letter)

    async def _deliver(self, letter: _Letter[M, R]) -> None:
        reply = letter.reply
        if reply is not None and reply.done():
            return  # the sender was canceled before the handler ran
        try:
            result = await self._handle(letter.message)
        except Exception as error:
            self._failed += 1
            if reply is None:
                raise
            if not reply.done():
                reply.set_exception(error)
            return
        except asyncio.CancelledError:
            if reply is not None and not reply.done():
                reply.set_exception(self._stopped())
            raise
        self._handled += 1
        if reply is not None and not reply.done():
            reply.set_result(result)

    def _abandon(self) -> None:
        """Fail every pending `ask`, because no answer will come."""
        for letter in self._mailbox.take(len(self._mailbox)):
            if letter.reply is not None and not letter.reply.done():
                letter.reply.set_exception(self._stopped())

    def _stopped(self) -> ClosedError:
        return ClosedError(f"actor {self.name!r} has stopped and does not answer")


__all__ = ["Actor", "ActorStatistics", "MailboxFull"]
