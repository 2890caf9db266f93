"""An event loop whose time is the test's: it jumps ahead when nothing is left to do.

What waits for seconds is tested in no time, and the same way on every machine.
"""

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

from placet.schemas.limits import SECOND_NS

P = ParamSpec("P")

DEADLOCK_SECONDS = 10


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Jumps where another loop would sleep. It still waits for threads, which are real.

    Attributes:
        seconds: What `time` gives.
        iterations: How often the loop went round.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.iterations = 0
        super().__init__(_JumpingSelector(self))

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
        if timeout is None:
            events = super().select(DEADLOCK_SECONDS)
            if not events:
                raise RuntimeError("everybody waits for somebody else")
            return events
        events = super().select(0)
        if not events:
            self._loop.seconds += timeout
        return events


class LoopClock:
    """Simulated and monotonic time are the running loop's."""

    def now_ns(self) -> int:
        return round(asyncio.get_running_loop().time() * SECOND_NS)

    def monotonic_ns(self) -> int:
        return self.now_ns()


class HandClock:
    """Both times stand still until the test moves them. The world is a realtime one."""

    def __init__(self, start_ns: int = 0) -> None:
        self._now_ns = start_ns

    def forward(self, ns: int) -> None:
        self._now_ns += ns

    def follow(self, wait_ns: int) -> bool:
        """Be no slower under load than otherwise."""
        return False

    def now_ns(self) -> int:
        return self._now_ns

    def monotonic_ns(self) -> int:
        return self._now_ns


def in_virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an async test in a loop of its own, in virtual time."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            runner.run(test(*args, **kwargs))

    return run


def iterations() -> int:
    """Tell how often the running loop went round so far."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    return loop.iterations


async def until(is_so: Callable[[], bool]) -> None:
    """Go on until it has come to something, however many turns that takes."""
    for _ in range(1_000):
        if is_so():
            return
        await turns(10)
    raise AssertionError("it did not come to that")


async def turns(count: int = 50) -> None:
    """Let everybody who can go on do so."""
    for _ in range(count):
        await asyncio.sleep(0)
