"""A verdict to come."""

import asyncio
from collections.abc import Awaitable, Generator
from typing import Any

from placet.schemas.verdict import Verdict


class Ticket(Awaitable[Verdict]):
    """Stands for the verdict of a batch that was posted. Await it, as often as you like."""

    __slots__ = ("_future",)

    def __init__(self, future: "asyncio.Future[Verdict]") -> None:
        self._future = future

    def done(self) -> bool:
        """Tell whether the verdict is there."""
        return self._future.done()

    def withdraw(self) -> bool:
        """Take the batch back if it is not decided yet; False if the verdict is there."""
        return self._future.cancel()

    def __await__(self) -> Generator[Any, None, Verdict]:
        return asyncio.shield(self._future).__await__()
