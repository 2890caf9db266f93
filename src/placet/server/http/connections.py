"""The open connections of one server, counted by address, and the queue of those left to parse."""

from asyncio import AbstractEventLoop
from collections import Counter, deque
from typing import Protocol


class Parser(Protocol):
    """A protocol that keeps unparsed bytes of a connection.

    Attributes:
        loop: The event loop of the server.
    """

    loop: AbstractEventLoop

    def parse(self) -> None:
        """Parse a part of the bytes; does nothing if the connection was lost meanwhile."""


class Connections:
    """The open connections of one server, counted by address, and the queue of those left to parse.

    Connections with unparsed data parse one after the other, one in each pass of the event loop.

    Attributes:
        of_address: Number of open connections by address.
    """

    def __init__(self) -> None:
        self.of_address: Counter[str] = Counter()
        self._waiting: deque[Parser] = deque()

    def wait_for_turn(self, parser: Parser) -> None:
        """Queue a connection; its `parse` is called once, in a later pass of the event loop."""
        self._waiting.append(parser)
        if len(self._waiting) == 1:
            parser.loop.call_soon(self._next)

    def _next(self) -> None:
        parser = self._waiting.popleft()
        if self._waiting:
            parser.loop.call_soon(self._next)
        parser.parse()
