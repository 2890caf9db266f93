"""The event loop of an open world: its actors run there, and only its tasks can wait for them.

A future of one loop never wakes a task of another, so a call from elsewhere would wait for ever:
each public call that waits, or that an actor answers, checks the loop first.
"""

from asyncio import get_running_loop
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import TypeVar, cast

T = TypeVar("T")


class HomeLoop:
    """The event loop in which an object was made, and in which alone it is used.

    Raises:
        RuntimeError: No event loop runs.
    """

    __slots__ = ("_loop",)

    def __init__(self) -> None:
        self._loop = get_running_loop()

    @property
    def is_closed(self) -> bool:
        """Whether the loop has ended, and its tasks with it."""
        return self._loop.is_closed()

    def require(self) -> None:
        """Check that the caller runs in this loop. One comparison.

        Raises:
            RuntimeError: It runs in another loop, or in none; the message names both.
        """
        try:
            if get_running_loop() is self._loop:
                return
        except RuntimeError:  # no loop runs here
            pass
        raise RuntimeError(self._message())

    async def guarded(self, items: AsyncIterator[T]) -> AsyncGenerator[T]:
        """Yield the items of an iterator of this loop; check the loop before each.

        Raises:
            RuntimeError: The iterator is read in another loop.
        """
        async with aclosing(cast("AsyncGenerator[T]", items)):
            self.require()
            async for item in items:
                yield item
                self.require()

    def _message(self) -> str:
        try:
            here = repr(get_running_loop())
        except RuntimeError:
            here = "no event loop"
        state = "was closed" if self.is_closed else "is another one"
        return (
            f"the world was opened in the event loop {self._loop!r}, which {state}, and is used in "
            f"{here}: it would wait for ever. Open, use and close a world inside one "
            "`asyncio.run(main())`; from another thread, use `asyncio.run_coroutine_threadsafe` "
            "with its loop"
        )
