"""Effect handlers that are plain functions, each attempt in a thread.

A thread cannot be stopped: a call that exceeds its time limit is abandoned and runs on unobserved.
At most `2 * concurrency` calls exist at a time, abandoned ones included; beyond that an attempt
fails at once.
"""

from collections.abc import Awaitable, Callable
from threading import Lock
from typing import Generic, TypeVar

from anyio import CapacityLimiter, to_thread

from placet.schemas.effect import Effect

T = TypeVar("T")


class ThreadsBusy(RuntimeError):  # noqa: N818  # reads as the failure
    """The error of a call for which no thread is free: abandoned calls occupy all of them."""


class ThreadHandler(Generic[T]):
    """A plain effect handler, callable as an async function that runs it in a thread.

    Args:
        function: Plain function of one effect; returns its output, or an awaitable of it.
        concurrency: Number of attempts that run at a time.
    """

    def __init__(self, function: Callable[[Effect], T | Awaitable[T]], concurrency: int) -> None:
        self._function = function
        self._limiter = CapacityLimiter(concurrency)
        self._calls_max = 2 * concurrency
        self._calls = 0
        self._lock = Lock()

    async def __call__(self, effect: Effect) -> T:
        """Call the function in a thread; an awaitable result is awaited in the event loop.

        Raises:
            ThreadsBusy: Abandoned calls take all threads.
        """
        with self._lock:
            if self._calls >= self._calls_max:
                raise ThreadsBusy(f"{self._calls} calls take too long and cannot be stopped")
            self._calls += 1
        # Whoever takes this lock first, the thread or the caller that gave up, decrements `_calls`:
        # exactly once, whichever of them ends later.
        claim = Lock()
        try:
            result = await to_thread.run_sync(
                self._call, effect, claim, abandon_on_cancel=True, limiter=self._limiter
            )
        except BaseException:
            if claim.acquire(blocking=False):  # canceled before a thread took the call
                with self._lock:
                    self._calls -= 1
            raise
        return await result if isinstance(result, Awaitable) else result

    def _call(self, effect: Effect, claim: Lock) -> T | Awaitable[T]:
        """Call the function in the thread, unless the caller has given up.

        Raises:
            ThreadsBusy: The attempt's time was over before a thread was free.
        """
        if not claim.acquire(blocking=False):
            raise ThreadsBusy("its time was over before a thread was free")
        try:
            return self._function(effect)
        finally:
            with self._lock:
                self._calls -= 1
