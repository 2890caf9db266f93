"""Waiting for threads in real time, without a fixed duration."""

import asyncio
from collections.abc import Callable

_LOOKS_MAX = 60_000


async def until(is_so: Callable[[], bool]) -> None:
    """Wait until a condition holds; fail after a minute or more."""
    for _ in range(_LOOKS_MAX):
        if is_so():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("the condition did not hold within a minute")
