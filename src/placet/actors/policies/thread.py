"""Lets a plain function think in a thread of its own, so that it blocks nobody else.

Nothing can stop a thread. What its caller no longer waits for is left to itself, and while it has
not come to its end no second one is started: an agent has one such thread at most. The threads are
daemons: one that never ends does not keep the process.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


class PolicyThread:
    """Calls functions one at a time, each in a thread.

    Args:
        name: Of the threads, for people.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._is_busy = False

    async def call(self, think: Callable[[], T]) -> T:
        """Call a function and wait for what it returns; canceling stops the waiting, not it.

        Raises:
            TimeoutError: The call before it, for which nobody waits any more, has not ended yet.
            Exception: Whatever the function raises.
        """
        if self._is_busy:
            raise TimeoutError(
                f"{self._name} still thinks about what it was asked before and cannot be stopped; "
                "let it return by itself, or write it with async def"
            )
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[T] = loop.create_future()
        context = copy_context()

        def tell(result: T | None, error: BaseException | None) -> None:
            self._is_busy = False
            if outcome.done():
                return
            if error is None:
                outcome.set_result(result)  # type: ignore[arg-type]  # None only if T has it
            else:
                outcome.set_exception(error)

        def run() -> None:
            result, fault = None, None
            try:
                result = context.run(think)
            except BaseException as error:  # noqa: BLE001  # the thread's boundary: it is raised where it is awaited
                fault = raisable(error)
            with suppress(RuntimeError):  # the loop was closed meanwhile: nobody waits
                loop.call_soon_threadsafe(tell, result, fault)

        Thread(target=run, name=self._name, daemon=True).start()
        self._is_busy = True
        return await outcome


def raisable(error: BaseException) -> BaseException:
    """Make of what ends a task, a program or an iterator a fault that ends none of them."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    fault = RuntimeError(f"the policy raised {error!r}")
    fault.__cause__ = error
    return fault
