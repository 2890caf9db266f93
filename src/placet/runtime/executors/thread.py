"""Handlers that are plain functions, each attempt in a thread.

A thread cannot be stopped: a call that exceeds its time limit is abandoned and continues
unobserved. There may be as many abandoned calls as there are credits; beyond that an attempt fails
at once.
"""

from collections.abc import Awaitable, Callable
from threading import Lock
from typing import Generic, TypeVar

from anyio import CapacityLimiter, to_thread

from placet.schemas.effect import Effect

T = TypeVar("T")


class ThreadsBusy(RuntimeError):  # noqa: N818  # what is wrong
    """All threads are taken by calls that were given up."""


class ThreadHandler(Generic[T]):
    """Calls a plain function in a thread.

    Args:
        function: Gets the effect.
        concurrency: How many attempts run at a time.
    """

    def __init__(self, function: Callable[[Effect], T | Awaitable[T]], concurrency: int) -> None:
        self._function = function
        self._limiter = CapacityLimiter(concurrency)
        self._calls_max = 2 * concurrency
        self._calls = 0
        self._lock = Lock()

    async def __call__(self, effect: Effect) -> T:
        """Call the function; if it returns an awaitable, wait for it here."""
        with self._lock:
            if self._calls >= self._calls_max:
                raise ThreadsBusy(f"{self._calls} calls take too long and cannot be stopped")
            self._calls += 1
        begun = Lock()
        try:
            given = await to_thread.run_sync(
                self._call, effect, begun, abandon_on_cancel=True, limiter=self._limiter
            )
        except BaseException:
            if begun.acquire(blocking=False):  # its time was over before a thread had it
                with self._lock:
                    self._calls -= 1
            raise
        return await given if isinstance(given, Awaitable) else given

    def _call(self, effect: Effect, begun: Lock) -> T | Awaitable[T]:
        """Call the function, unless the caller has given up before.

        The side that takes `begun` first decides.
        """
        if not begun.acquire(blocking=False):
            raise ThreadsBusy("its time was over before a thread was free")
        try:
            return self._function(effect)
        finally:
            with self._lock:
                self._calls -= 1
