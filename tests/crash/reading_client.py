"""A client that reads a world beside its writer, as another user, and reports its seqs."""

import asyncio
import os
from dataclasses import replace

import placet.history.reader  # noqa: F401  # another user may not read the package
from placet import Orchestrator
from tests.crash.compiled import use_compiled_lab
from tests.crash.process_forker import Report
from tests.crash.single_client import config_of
from tests.kernel.domains import Lab


def run(report: Report, *, store: str, user: int) -> None:
    """Read in a child until killed."""
    use_compiled_lab()
    os.setuid(user)
    asyncio.run(_read(report, store))


async def _read(report: Report, store: str) -> None:
    config = replace(config_of(store), take_over=False, read_only=True)
    async with Orchestrator(Lab(), config) as world:
        report.send("opened", seq=world.seq)
        async for event in world.events(world.seq):
            report.send("event", seq=event.seq)
