"""The metrics as text, made in a thread and kept for a moment: making it would hold up the loop."""

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from anyio import to_thread

from placet.runtime.orchestrator import Orchestrator

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


class MetricsText:
    """A cache of the Prometheus metrics as text, kept for a moment and shared by requests.

    Args:
        age_ms_max: Maximum age of the cached text, milliseconds.
        monotonic: Monotonic clock, seconds.
    """

    def __init__(self, age_ms_max: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._age_s_max = age_ms_max / 1_000
        self._monotonic = monotonic
        self._made: tuple[Orchestrator | None, float, bytes] = (None, 0.0, b"")
        self._turn = asyncio.Lock()

    async def text(self, world: Orchestrator) -> bytes:
        """Return the metrics of a world in the Prometheus text format."""
        async with self._turn:
            of, made_at, text = self._made
            if of is not world or self._monotonic() - made_at > self._age_s_max:
                text = await to_thread.run_sync(_generate, world.metrics_registry)
                self._made = (world, self._monotonic(), text)
        return text


def _generate(registry: "CollectorRegistry") -> bytes:
    from prometheus_client import generate_latest  # noqa: PLC0415  # 69 ms

    return generate_latest(registry)
