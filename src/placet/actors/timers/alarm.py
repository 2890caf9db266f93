"""Wakes the orchestrator of a realtime world when the next scheduled batch is due: no polling."""

import asyncio
from collections.abc import Callable

from placet.actors.ports import Clock
from placet.schemas.limits import SECOND_NS

_SLACK_S = 0.0005
"""The loop's timers may be early by their resolution, and early is too early."""


class OneShotTimer:
    """One timer of the event loop.

    Args:
        clock: Says when it is.
        wake: Called, in the event loop, once it is time.
    """

    __slots__ = ("_clock", "_timer", "_wake")

    def __init__(self, clock: Clock, wake: Callable[[], None]) -> None:
        self._clock = clock
        self._wake = wake
        self._timer: asyncio.TimerHandle | None = None

    def set(self, due_ns: int | None) -> None:
        """Wake at a simulated time instead of the one set before; None is never."""
        self.clear()
        if due_ns is None:
            return
        delay_s = max(0, due_ns - self._clock.now_ns()) / SECOND_NS + _SLACK_S
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._wake)

    def clear(self) -> None:
        """Do not wake."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
