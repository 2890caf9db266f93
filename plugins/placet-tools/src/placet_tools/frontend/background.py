"""Tasks of a gate, which continue if their callers are canceled."""

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

from placet.actors.effects.executor import is_canceled
from placet.schemas.errors import ClosedError

_T = TypeVar("_T")


class BackgroundTasks:
    """The tasks of one gate, which end with it at the latest."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[object]] = set()

    async def close(self) -> None:
        """Cancel the tasks; the state of the world still has their plans."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def shielded(self, work: Coroutine[object, object, _T]) -> _T:
        """Run work that continues if its caller is canceled.

        Raises:
            ClosedError: The gate was closed before the work had ended.
        """
        task = self.start(work)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if is_canceled() or not task.cancelled():
                raise
            message = "the gate was closed before the call had ended; ask again by its key"
            raise ClosedError(message) from None

    def start(self, work: Coroutine[object, object, _T]) -> "asyncio.Task[_T]":
        """Start a task."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: "asyncio.Task[object]") -> None:
        """Forget a task that has ended; a caller that still waits receives its exception."""
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()
