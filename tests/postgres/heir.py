"""A standby in a separate child, which becomes primary when the current one has ended.

Its clients go on where they were cut off: what they had an answer to is in a file that the parent
writes when the one before is dead.
"""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from random import Random
from threading import Event

from placet import Orchestrator
from placet.schemas.effect import Effect
from tests.crash.compiled import use_compiled_lab
from tests.crash.fixed_scenario import answer_of, ids_of
from tests.crash.load_scenario import CLIENTS, batch_of, config_of
from tests.crash.process_forker import Report
from tests.kernel.domains import MAIL, Lab

LOOK_SECONDS = 0.005


def run(report: Report, *, store: str, seed: int, begin_file: str) -> None:
    """Stand by, take over, and run all clients until killed."""
    use_compiled_lab()
    asyncio.run(_live(report, store, seed, Path(begin_file)))


def beginnings(file: Path) -> dict[str, int]:
    """Wait for the position at which each client continues."""
    while not file.exists():
        Event().wait(LOOK_SECONDS)
    numbers: dict[str, int] = json.loads(file.read_text())
    return numbers


async def _live(report: Report, store: str, seed: int, begin_file: Path) -> None:
    async def post_letter(effect: Effect) -> str:
        report.send("effect", key=[effect.key.seq, effect.key.effect_index])
        return "posted"

    async def run(agent_id: str, number: int) -> None:
        rng = Random()  # how often a client asks twice is no part of what it sends
        while True:
            intents = batch_of(seed, agent_id, number)
            verdict = await world.submit(intents)
            answer, is_kept = answer_of(verdict), verdict.durability != "none"
            report.send(
                "answer", ids=ids_of(intents), answer=answer, is_kept=is_kept, by=agent_id, n=number
            )
            number += rng.random() > 0.05

    report.send("standing by")
    config = replace(config_of(store), standby=True)
    async with Orchestrator(Lab(), config) as world:
        report.send("opened")
        for agent_id in CLIENTS:
            await world.register_agent(agent_id)
        await world.register_executor(MAIL, post_letter)
        begin = await asyncio.to_thread(beginnings, begin_file)
        async with asyncio.TaskGroup() as clients:
            for agent_id in CLIENTS:
                clients.create_task(run(agent_id, begin.get(agent_id, 0)))
