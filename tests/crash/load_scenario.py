"""A world under load, with clients that resume where an earlier child of theirs was killed.

A client's n-th batch is a function of the seed, its name and n: so a client that was killed submits
again the very batch that has no answer, under the same req_ids.
"""

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Any, Final

from placet import Orchestrator, OrchestratorConfig
from placet.schemas.effect import Effect
from placet.schemas.limits import Limits
from tests.crash import planted_bugs
from tests.crash.compiled import use_compiled_lab
from tests.crash.fixed_scenario import answer_of, ids_of
from tests.crash.process_forker import Report
from tests.kernel.builders import add, intent
from tests.kernel.domains import MAIL, Lab

CLIENTS: Final = ("ada", "ben", "cem", "dan", "eve", "fay")
IDS_PER_BATCH: Final = 4


def config_of(store: str, *, has_maintenance: bool = False) -> OrchestratorConfig:
    # No answer is forgotten, and a machine that stands still is no overload.
    limits = Limits(window_ids_max=1_000_000, loop_lag_ms_max=600_000)
    return OrchestratorConfig(
        store=store,
        limits=limits,
        log_level="critical",
        snapshot_every_seqs=100 if has_maintenance else None,
        compact_log=has_maintenance,
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


def run(
    report: Report,
    *,
    store: str,
    seed: int,
    begin: Mapping[str, int],
    plant: str | None = None,
    has_maintenance: bool = False,
) -> None:
    """Run all clients for ever, in a child, each from the number of its first unanswered batch."""
    use_compiled_lab()
    if plant is not None:
        planted_bugs.PLANTED_BUGS[plant]()
    asyncio.run(_live(report, config_of(store, has_maintenance=has_maintenance), seed, begin))


async def _live(
    report: Report, config: OrchestratorConfig, seed: int, begin: Mapping[str, int]
) -> None:
    async def post_letter(effect: Effect) -> str:
        report.send("effect", key=[effect.key.seq, effect.key.effect_index])
        return "posted"

    async def run(agent_id: str) -> None:
        rng = Random()  # how often a client asks twice is no part of what it sends
        number = begin.get(agent_id, 0)
        while True:
            intents = batch_of(seed, agent_id, number)
            verdict = await world.submit(intents)
            is_kept = verdict.durability != "none"
            answer = answer_of(verdict)
            report.send(
                "answer", ids=ids_of(intents), answer=answer, is_kept=is_kept, by=agent_id, n=number
            )
            number += rng.random() > 0.05

    async with Orchestrator(Lab(), config) as world:
        for agent_id in CLIENTS:
            await world.register_agent(agent_id)
        await world.register_executor(MAIL, post_letter)
        report.send("opened")
        async with asyncio.TaskGroup() as clients:
            for agent_id in CLIENTS:
                clients.create_task(run(agent_id))
