"""A verdict to come."""

import asyncio
from collections.abc import Generator
from functools import partial
from typing import Any

import msgspec

from placet.schemas.verdict import Verdict


class PendingVerdict(msgspec.Struct, eq=False):
    """Stands for the verdict of a batch that was posted. Await it, as often as you like.

    A struct, as there is one for each offer that is refused: one call in C makes it.
    """

    _future: asyncio.Future[Verdict]
    _is_turned_away: bool

    def done(self) -> bool:
        """Return whether the verdict is there."""
        return self._future.done()

    @property
    def verdict(self) -> Verdict | None:
        """The verdict if it is there, without waiting; None before, and where there is none.

        Raises:
            StoreError: The world failed before it could tell.
        """
        done = self._future.done() and not self._future.cancelled()
        return self._future.result() if done else None

    def cancel(self) -> bool:
        """Ask for no answer any more; False if the verdict is there.

        A batch that is not decided yet is withdrawn by it. One that is decided stays so, and
        `verdict_of` has its answer. Who awaits the ticket gets a `CancelledError`.
        """
        return self._future.cancel()

    def __await__(self) -> Generator[Any, None, Verdict]:
        future = self._future
        if self._is_turned_away:  # who posts and awaits in a loop lets others have a turn
            yield from asyncio.sleep(0).__await__()
        if not future.done():  # awaited through another: who stops waiting withdraws nothing
            waiter = future.get_loop().create_future()
            wake = partial(_wake, waiter)
            future.add_done_callback(wake)
            try:
                yield from waiter
            finally:
                future.remove_done_callback(wake)
        return future.result()


def _wake(waiter: asyncio.Future[None], _: asyncio.Future[Verdict]) -> None:
    if not waiter.done():
        waiter.set_result(None)
