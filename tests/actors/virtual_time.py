"""An event loop in virtual time: it jumps to the next timer when no task is runnable.

What waits for seconds is tested in no time, and the same way on every machine.
"""

import asyncio
import functools
import selectors
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Condition
from typing import Any, ParamSpec, TypeVar
from weakref import WeakSet

import pytest
from anyio import to_thread

from placet.actors.policies.agent import PolicyThread
from placet.runtime.clock import SteppedClock
from placet.schemas.limits import SECOND_NS

P = ParamSpec("P")
R = TypeVar("R")

DEADLOCK_SECONDS = 10
THREAD_SECONDS_MAX = 60
GLANCE_SECONDS = 0.002


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """A selector that advances virtual time instead of sleeping, unless a thread is working.

    A thread that stands at a `Gate` is at rest: time goes by.

    Attributes:
        seconds: What `time` gives.
        iterations: How often the loop went round.
        calls: Those in threads that are waited for.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.iterations = 0
        self.calls: set[object] = set()
        super().__init__(_JumpingSelector(self))

    @property
    def is_at_work(self) -> bool:
        """Whether a thread is working on an awaited call."""
        return not self.calls <= {call for gate in _GATES for call in gate.standing}

    def time(self) -> float:
        return self.seconds

    def _run_once(self) -> None:
        self.iterations += 1
        super()._run_once()  # type: ignore[misc]  # a private method of asyncio's


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        events = super().select(0)
        if events or timeout == 0:
            return events
        events = self._while_at_work()
        if events:
            return events
        if timeout is None:
            events = super().select(DEADLOCK_SECONDS)
            if not events:
                raise RuntimeError("everybody waits for somebody else")
            return events
        self._loop.seconds += timeout
        return []

    def _while_at_work(self) -> list[Any]:
        """Wait until a thread returns, or all remaining threads wait at gates."""
        latest = time.monotonic() + THREAD_SECONDS_MAX
        while self._loop.is_at_work:
            events = super().select(GLANCE_SECONDS)
            if events:
                return events
            if time.monotonic() > latest:
                raise RuntimeError("a thread does not come to its end")
        return []


class Gate:
    """Holds threads until the test releases them, in order; virtual time advances meanwhile.

    Attributes:
        begun: How many have come to it.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._standing: dict[int, object] = {}
        self._let_go = 0
        self.begun = 0
        _GATES.add(self)

    @property
    def standing(self) -> list[object]:
        """The calls that are held at present."""
        with self._changed:
            return [call for place, call in self._standing.items() if place > self._let_go]

    def stand(self) -> None:
        """Wait, in a thread, for its release."""
        with self._changed:
            self.begun += 1
            place = self.begun
            self._standing[place] = _CALL.get()
            is_free = self._changed.wait_for(
                lambda: place <= self._let_go, timeout=THREAD_SECONDS_MAX
            )
            del self._standing[place]
            assert is_free, "nobody let it go"

    def let_go(self, count: int) -> None:
        """Release a number of threads, including threads that arrive later."""
        with self._changed:
            self._let_go += count
            self._changed.notify_all()


_GATES: WeakSet[Gate] = WeakSet()
_CALL: ContextVar[object] = ContextVar("_CALL", default=None)
"""The call of a thread, which runs in a copy of the caller's context."""


class LoopClock:
    """A clock whose simulated and monotonic times are the time of the running loop."""

    def now_ns(self) -> int:
        return round(asyncio.get_running_loop().time() * SECOND_NS)

    def monotonic_ns(self) -> int:
        return self.now_ns()


class ManualClock(SteppedClock):
    """A clock whose simulated and monotonic time are equal, and which only a test advances."""

    def monotonic_ns(self) -> int:
        return self.now_ns()


class HandClock:
    """A realtime clock whose two times stand still until the test moves them."""

    def __init__(self, start_ns: int = 0) -> None:
        self._now_ns = start_ns

    def forward(self, ns: int) -> None:
        self._now_ns += ns

    def follow(self, wait_ns: int) -> bool:
        """Ignore the load: time is never slowed."""
        return False

    def now_ns(self) -> int:
        return self._now_ns

    def monotonic_ns(self) -> int:
        return self._now_ns


def in_virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an async test in a separate event loop in virtual time."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner, _calls_known():
            runner.run(test(*args, **kwargs))

    return run


@contextmanager
def _calls_known() -> Iterator[None]:
    """Register every call in a thread with the loop that waits for it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(to_thread, "run_sync", _known(to_thread.run_sync))
        patch.setattr(PolicyThread, "call", _known(PolicyThread.call))
        yield


def _known(call: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, Coroutine[Any, Any, R]]:
    async def known(*args: P.args, **options: P.kwargs) -> R:
        loop, me = asyncio.get_running_loop(), object()
        assert isinstance(loop, VirtualTimeLoop)
        loop.calls.add(me)
        before = _CALL.set(me)
        try:
            return await call(*args, **options)
        finally:
            _CALL.reset(before)
            loop.calls.discard(me)

    return known


def iterations() -> int:
    """Return the number of iterations of the running loop so far."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    return loop.iterations


async def until(is_so: Callable[[], bool]) -> None:
    """Yield to the loop until a condition holds."""
    for _ in range(1_000):
        if is_so():
            return
        await turns(10)
    raise AssertionError("it did not come to that")


async def turns(count: int = 50) -> None:
    """Yield to the loop `count` times, so that every runnable task runs."""
    for _ in range(count):
        await asyncio.sleep(0)
