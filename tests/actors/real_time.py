"""What threads do takes real time: it is waited for, and how long nobody says."""

import asyncio
from collections.abc import Callable

_LOOKS_MAX = 60_000


async def until(is_so: Callable[[], bool]) -> None:
    """Wait until it has come to something, for a minute at least."""
    for _ in range(_LOOKS_MAX):
        if is_so():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it did not come to that")
