"""A verdict to come."""

import asyncio
from collections.abc import Generator
from typing import Any

import msgspec

from placet.schemas.verdict import Verdict


class Ticket(msgspec.Struct, eq=False):
    """Stands for the verdict of a batch that was posted. Await it, as often as you like.

    A struct, as there is one for each offer that is refused: one call in C makes it.
    """

    _future: asyncio.Future[Verdict]
    _is_turned_away: bool

    def done(self) -> bool:
        """Tell whether the verdict is there."""
        return self._future.done()

    @property
    def verdict(self) -> Verdict | None:
        """The verdict if it is there, without waiting; None before, and where there is none.

        Raises:
            StoreError: The world failed before it could tell.
        """
        done = self._future.done() and not self._future.cancelled()
        return self._future.result() if done else None

    def withdraw(self) -> bool:
        """Ask for no answer any more; False if the verdict is there.

        A batch that is not decided yet is withdrawn by it. One that is decided stays so, and
        `verdict_of` has its answer. Who awaits the ticket gets a `CancelledError`.
        """
        return self._future.cancel()

    def __await__(self) -> Generator[Any, None, Verdict]:
        if self._is_turned_away:  # who posts and awaits in a loop lets others have a turn
            yield from asyncio.sleep(0).__await__()
        return (yield from asyncio.shield(self._future).__await__())
