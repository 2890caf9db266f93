"""Memory per idle agent and per dedup entry; import time."""

import gc
import subprocess
import sys
import time
import tracemalloc
from statistics import median

from placet.runtime.orchestrator import Orchestrator
from placet.schemas.intent import Intent
from placet_bench.subjects import KernelAlone
from placet_bench.workloads import (
    PERMISSIONS,
    PRIORITY,
    Load,
    Scale,
    Shape,
    make_config,
    make_domain,
)

IMPORT_PROGRAM = "import placet; placet.Orchestrator, placet.OrchestratorConfig"
FIRST_WORLD_PROGRAM = f"""{IMPORT_PROGRAM}
import asyncio
async def live():
    async with placet.Orchestrator():
        pass
asyncio.run(live())
"""


def _allocated() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


async def bytes_per_agent(scale: Scale) -> float:
    """Measure the memory of an idle agent, in bytes: handle, ledger entry, entity, record."""
    shape = Shape(agents=scale.idle_agents)
    agent_ids = Load(shape).agent_ids
    async with Orchestrator(make_domain(), make_config(shape)) as orchestrator:
        tracemalloc.start()
        before = _allocated()
        handles = [
            await orchestrator.register_agent(agent_id, permissions=PERMISSIONS)
            for agent_id in agent_ids
        ]
        after = _allocated()
        tracemalloc.stop()
    return (after - before) / len(handles)


class _FreeFormLoad(Load):
    """A load whose req_ids are no sequence."""

    def batch(self, lane: int, context_seq: int, priority: int = PRIORITY) -> list[Intent]:
        """Make the next batch of one lane."""
        batch = super().batch(lane, context_seq, priority)
        for intent in batch:
            intent["req_id"] = intent["req_id"].replace(":", "-")
        return batch


async def bytes_per_req_id(scale: Scale, *, are_free_form: bool = False) -> float:
    """Measure the memory of a req_id in a full dedup window, in bytes.

    `are_free_form`: the req_ids are not a sequence, so each is stored as a string.
    """
    shape = scale.shape
    make = _FreeFormLoad if are_free_form else Load
    async with KernelAlone(make(Shape(agents=1, window_ids=1))):
        pass  # the first world imports modules, which are no part of a window
    contender = KernelAlone(make(shape, chunk_intents=scale.chunk_intents))
    tracemalloc.start()
    before = _allocated()
    async with contender:
        after = _allocated()
    tracemalloc.stop()
    return (after - before) / contender.kernel.ledger.dedup.count


def seconds_of(program: str, repeats: int) -> list[float]:
    """Measure the seconds of a program in a fresh interpreter, without interpreter start.

    Returns:
        One figure for each repeat.
    """
    _run(program)  # writes the bytecode
    startup = median(_run("") for _ in range(repeats))
    return [max(0.0, _run(program) - startup) for _ in range(repeats)]


def _run(program: str) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-P", "-c", program], check=True)
    return time.perf_counter() - started
