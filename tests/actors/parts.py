"""A world assembled for a test, with a log and a clock of the test's choice."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, NamedTuple

from placet.actors.ports import Clock, EventLog
from placet.kernel import Domain, Kernel
from placet.runtime.clock import DilatedClock
from placet.runtime.config import OrchestratorConfig
from placet.runtime.executors.handlers import AnyHandler
from placet.runtime.orchestrator import Orchestrator
from placet.runtime.world import WorldRuntime
from placet.schemas.limits import Limits
from placet.stores.memory import MemoryEventLog
from tests.actors.virtual_time import LoopClock
from tests.kernel.builders import add, intent
from tests.kernel.domains import COUNTS, MAIL, Lab

__all__ = [
    "COUNTS",
    "MAIL",
    "Named",
    "add",
    "effects_of",
    "intent",
    "open_world",
    "register_executor",
]


class Named(NamedTuple):
    """The identity of an agent: its id and its generation."""

    agent_id: str
    generation: int


@asynccontextmanager
async def open_world(
    *,
    log: EventLog | None = None,
    time: Clock | None = None,
    domain: Domain | None = None,
    agents: Sequence[str] = ("alice", "bob"),
    limits: Mapping[str, int] | None = None,
    **config: Any,
) -> AsyncIterator[WorldRuntime]:
    """Open a world of the lab domain, in the running loop's time or stepped."""
    settings = OrchestratorConfig(limits=Limits(**(limits or {})), log_level="critical", **config)
    log = log or MemoryEventLog()
    records: list[bytes] = []
    epoch = log.open(take_over=settings.take_over)
    kernel = Kernel(
        domain or Lab(),
        settings.kernel_config(),
        sink=records.append,
        history=[data for _, data in log.read()],
        durability=log.durability,
    )
    if time is None and settings.clock == "realtime":
        time = LoopClock()
        if settings.backpressure == "dilate":
            time = DilatedClock(0, settings.dilation(), monotonic_ns=time.monotonic_ns)
    world = WorldRuntime(settings, log, epoch, kernel, records, time)
    await world.start()
    try:
        for agent_id in agents:
            await world.actor.command(partial(_register, agent_id))
        yield world
    finally:
        await world.stop()


def effects_of(world: WorldRuntime) -> Orchestrator:
    """Return the public Orchestrator over a world of the test's parts."""
    orchestrator = Orchestrator()
    orchestrator._world = world
    return orchestrator


async def register_executor(world: WorldRuntime, handler: AnyHandler, **options: Any) -> None:
    """Register the executor of the lab's effects."""
    await effects_of(world).register_executor(MAIL, handler, **options)


def _register(agent_id: str, kernel: Kernel) -> None:
    kernel.register_agent(agent_id)
