"""A world under load, with clients that go on where an earlier life of theirs was cut off.

What a client sends as its n-th batch follows from the seed, its name and n: so a client that was
killed sends again the very batch that it got no answer to, under the same ids.
"""

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Any, Final

from placet import Orchestrator, OrchestratorConfig
from placet.schemas.effect import Effect
from placet.schemas.limits import Limits
from tests.crash import planted_bugs as plants
from tests.crash.compiled import use_compiled_lab
from tests.crash.fixed_scenario import answer_of, ids_of
from tests.crash.process_forker import Report
from tests.kernel.builders import add, intent
from tests.kernel.domains import MAIL, Lab

CLIENTS: Final = ("ada", "ben", "cem", "dan", "eve", "fay")
IDS_PER_BATCH: Final = 4


def config_of(store: str, *, keeps_house: bool = False) -> OrchestratorConfig:
    # No answer is forgotten, and a machine that stands still is no overload.
    limits = Limits(window_ids_max=1_000_000, loop_lag_ms_max=600_000)
    return OrchestratorConfig(
        store=store,
        limits=limits,
        log_level="critical",
        snapshot_every_seqs=100 if keeps_house else None,
        compact_log=keeps_house,
    )


def batch_of(seed: int, agent_id: str, number: int) -> list[dict[str, Any]]:
    """Make a client's n-th batch: mostly sums, some letters, some that are refused."""
    rng = Random(f"{seed} {agent_id} {number}")
    intents = [
        add(f"{agent_id}:{number * IDS_PER_BATCH + place}", rng.randint(1, 99), agent_id=agent_id)
        for place in range(rng.randint(1, IDS_PER_BATCH - 1))
    ]
    last = f"{agent_id}:{number * IDS_PER_BATCH + IDS_PER_BATCH - 1}"
    if rng.random() < 0.15:
        intents.append(intent("Take", {"amount": 10**9}, last, agent_id=agent_id))
    elif rng.random() < 0.15:
        intents.append(intent("Mail", {"count": rng.randint(1, 2)}, last, agent_id=agent_id))
    return intents


def live(
    report: Report,
    *,
    store: str,
    seed: int,
    begin: Mapping[str, int],
    plant: str | None = None,
    keeps_house: bool = False,
) -> None:
    """Run all clients for ever, in a child, each from the number of its first unanswered batch."""
    use_compiled_lab()
    if plant is not None:
        plants.PLANTS[plant]()
    asyncio.run(_live(report, config_of(store, keeps_house=keeps_house), seed, begin))


async def _live(
    report: Report, config: OrchestratorConfig, seed: int, begin: Mapping[str, int]
) -> None:
    async def post_letter(effect: Effect) -> str:
        report.tell("effect", key=[effect.key.seq, effect.key.effect_index])
        return "posted"

    async def run(agent_id: str) -> None:
        rng = Random()  # how often a client asks twice is no part of what it sends
        number = begin.get(agent_id, 0)
        while True:
            intents = batch_of(seed, agent_id, number)
            verdict = await world.submit(intents)
            is_kept = verdict.durability != "none"
            answer = answer_of(verdict)
            report.tell(
                "answer", ids=ids_of(intents), answer=answer, is_kept=is_kept, by=agent_id, n=number
            )
            number += rng.random() > 0.05

    async with Orchestrator(Lab(), config) as world:
        for agent_id in CLIENTS:
            await world.register_agent(agent_id)
        await world.register_executor(MAIL, post_letter)
        report.tell("opened")
        async with asyncio.TaskGroup() as clients:
            for agent_id in CLIENTS:
                clients.create_task(run(agent_id))
