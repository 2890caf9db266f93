"""Runs a plain policy function in a thread, so that it does not block the event loop.

A thread cannot be stopped. A call whose caller was canceled runs on, and no second call starts
before it ends: an agent has at most one such thread. The threads are daemons, so they do not keep
the process alive.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


class PolicyThread:
    """A caller of plain functions in threads: one at a time, each in a new thread.

    Args:
        name: Name of the threads, and of the policy in error messages.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._is_busy = False

    async def call(self, think: Callable[[], T]) -> T:
        """Call a function in a thread and return its result; canceling stops only the wait.

        Raises:
            TimeoutError: A previous call, whose caller was canceled, is still running.
            Exception: Whatever the function raises.
        """
        if self._is_busy:
            raise TimeoutError(
                f"{self._name} is still running its previous call and cannot be stopped; "
                "make it return, or write it with async def"
            )
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[T] = loop.create_future()
        context = copy_context()

        def deliver(result: T | None, error: BaseException | None) -> None:
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
            except BaseException as error:  # noqa: BLE001  # the thread's boundary: raised where the call is awaited
                fault = raisable(error)
            with suppress(RuntimeError):  # the loop was closed, so no caller waits
                loop.call_soon_threadsafe(deliver, result, fault)

        Thread(target=run, name=self._name, daemon=True).start()
        self._is_busy = True
        return await outcome


def raisable(error: BaseException) -> BaseException:
    """Return an exception that is safe to raise in a task: `error` itself, or a wrapper of it.

    `StopIteration` and exceptions that are no `Exception` would end an iterator, a task or the
    program; they are wrapped in a `RuntimeError`.
    """
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    fault = RuntimeError(f"the policy raised {error!r}")
    fault.__cause__ = error
    return fault
