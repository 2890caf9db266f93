"""The verdict of a batch that was submitted without waiting."""

import asyncio
from collections.abc import Generator
from functools import partial
from typing import Any

import msgspec

from placet.schemas.verdict import Verdict


class PendingVerdict(msgspec.Struct, eq=False):
    """The future verdict of a batch that `submit_nowait` submitted; await it any number of times.

    Canceling an `await` leaves the batch submitted; `cancel` withdraws it.
    """

    # A msgspec struct, which one call in C creates: under overload there is one for each refused
    # batch.

    _future: asyncio.Future[Verdict]
    _is_refused_at_once: bool

    def done(self) -> bool:
        """Return whether the batch is decided or was withdrawn."""
        return self._future.done()

    @property
    def verdict(self) -> Verdict | None:
        """The verdict, read without waiting; None if undecided or withdrawn.

        Raises:
            StoreError: The world failed before the batch was durable.
        """
        done = self._future.done() and not self._future.cancelled()
        return self._future.result() if done else None

    def cancel(self) -> bool:
        """Withdraw the batch if it is not decided yet.

        A batch decided meanwhile stays decided, and `verdict_of` returns its verdict. Tasks that
        await this object get a `CancelledError`.

        Returns:
            True if the batch was withdrawn; False if it is decided or was withdrawn already.
        """
        return self._future.cancel()

    def __await__(self) -> Generator[Any, None, Verdict]:
        future = self._future
        # A caller that submits and awaits in a loop would otherwise never yield to the event loop
        # while its batches are refused.
        if self._is_refused_at_once:
            yield from asyncio.sleep(0).__await__()
        # Await a second future: canceling the waiting task must not cancel, and so withdraw, the
        # batch itself.
        if not future.done():
            if asyncio.get_running_loop() is not future.get_loop():
                raise RuntimeError(
                    f"a verdict is awaited in {asyncio.get_running_loop()!r}, and its batch was "
                    f"submitted in {future.get_loop()!r}; await it in the event loop of its world"
                )
            waiter = future.get_loop().create_future()
            wake = partial(_wake, waiter)
            future.add_done_callback(wake)
            try:
                yield from waiter
            finally:
                future.remove_done_callback(wake)
        return future.result()

    def __repr__(self) -> str:
        if not self._future.done():
            return "<PendingVerdict undecided>"
        if self._future.cancelled():
            return "<PendingVerdict withdrawn>"
        error = self._future.exception()
        return f"<PendingVerdict {error!r}>" if error else f"<PendingVerdict {self.verdict!r}>"


def _wake(waiter: asyncio.Future[None], _: asyncio.Future[Verdict]) -> None:
    if not waiter.done():
        waiter.set_result(None)
