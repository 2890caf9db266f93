"""Advances simulated time by the time for which no process had the log open.

Quotas, `within`, `hold_s` and the hour after a denial are in simulated time, which stands still
while the log is closed. So each opening of a lasting log notes the wall time, and the next one
advances by the time since the last record. Both are in the log as any other intent and time:
a replay reads no clock. A wall clock that was set back advances nothing.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from placet.history.wall_times import NotedTime
from placet.kernel.plugin.noted_times import NOTE_TIME
from placet.runtime.orchestrator import Orchestrator
from placet.schemas.limits import SECOND_NS
from placet_tools.domain import ToolsDomain
from placet_tools.frontend.recorder import Recorder
from placet_tools.records import OPENED

SKIP_SECONDS_MAX: Final = 366 * 86_400.0
"""Seconds by which one opening advances time at most: a wall clock may be wrong."""


async def catch_up(
    world: Orchestrator,
    domain: ToolsDomain,
    recorder: Recorder,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> None:
    """Advance the time of an opened world by the time in which it was closed, and note the opening.

    A world in memory has no earlier time, and the host advances the time of a stepped one.

    Args:
        world: The open world.
        domain: The domain of the tools.
        recorder: Makes intents.
        now: Returns the wall time.

    Raises:
        ClosedError, StoreError: The world is closed, or its store has failed.
    """
    config = world.config
    if config.read_only or config.clock != "realtime" or config.store.startswith("memory:"):
        return
    rows = await world.gateway.entities(domain.records.counts, [OPENED])
    opened, wall = rows.get(OPENED), now()
    if opened is not None:
        noted = NotedTime(opened, opened["sim_ns"])
        then = noted.wall_time(round(world.sim_time * SECOND_NS))
        away = (wall - then).total_seconds()
        await world.skip_time(min(max(away, 0.0), SKIP_SECONDS_MAX))
    at = wall.isoformat(timespec="microseconds")
    await world.submit([await recorder.own(NOTE_TIME, at=at)])
