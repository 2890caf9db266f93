"""How soon is a thought stopped after the commit that made it stale, while others are busy?

    ./dev python benchmarks/bench_interruption.py [--seconds S] [--json]

Beside W1 (100 agents, batches of 10, one outstanding each, in memory) one more agent thinks in a
fresh context that depends on what another one changes now and then. `commit` is from the moment in
which the change is durable, `submit` from the other's submit, each until the thought has got its
cancellation; bars: commit p50 <= 10 ms, p99 <= 100 ms. The last column is W1's throughput with so
many blocks open, divided by that with none before and after.

It does not show: what a model's own client does when it is canceled; a store on disk, where the
commit itself comes later.
"""

import argparse
import asyncio
import json
import sys
import time
from array import array
from contextlib import AsyncExitStack
from statistics import median
from typing import Any

from placet import AgentHandle, StaleContextError
from placet.actors.policies.subscriptions import ExternalChange
from placet_bench.measure import percentiles_ms
from placet_bench.report import machine
from placet_bench.subjects import WholeWorld
from placet_bench.workloads import PERMISSIONS, Load, Shape

BLOCKS = (1, 100)
clock = time.perf_counter_ns


class Interrupted:
    """One who thinks, one who disturbs, and how long it took."""

    def __init__(self, thinker: AgentHandle, other: AgentHandle) -> None:
        self.thinker = thinker
        self.other = other
        self.since_submit_ns = array("q")
        self.since_commit_ns = array("q")
        self._durable_ns = 0

    async def run(self, lanes: "asyncio.Task[float]") -> None:
        """Disturb a thought again and again, until the lanes are done."""
        number = 0
        while not lanes.done():
            thinking = asyncio.create_task(self._think())
            await asyncio.sleep(0.005)
            number += 1
            step = self.other.intent("Move", to=[float(number % 90), 1.0, 0.0])
            submitted_ns = clock()
            posted = self.other.submit_nowait([step])
            stopped_ns = await thinking
            assert (await posted).admitted
            self.since_submit_ns.append(stopped_ns - submitted_ns)
            self.since_commit_ns.append(stopped_ns - self._durable_ns)

    async def _think(self) -> int:
        stopped_ns = 0
        try:
            async with self.thinker.fresh_context(
                reads=[("world.agents", self.other.agent_id)], relevant=self._note
            ):
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    stopped_ns = clock()
                    raise
        except StaleContextError:
            return stopped_ns
        raise AssertionError("the thought was not stopped")

    def _note(self, _change: ExternalChange) -> bool:
        self._durable_ns = clock()
        return True


async def run_chunk(world: WholeWorld) -> float:
    """Run one prepared stretch of W1 and give intents per second."""
    chunk = world.next_chunk()
    started_ns = clock()
    await world.run(chunk)
    return chunk.intents / (clock() - started_ns) * 1e9


async def throughput(world: WholeWorld, thinker: AgentHandle, blocks: int) -> float:
    """Run one stretch with so many blocks open, which depend on what nobody changes."""
    async with AsyncExitStack() as stack:
        for number in range(blocks):
            await stack.enter_async_context(
                thinker.fresh_context(reads=[("world.agents", f"nobody {number}")])
            )
        return await run_chunk(world)


async def measured(seconds: float) -> dict[str, Any]:
    """Measure latencies, then the cost of open blocks."""
    async with WholeWorld(Load(Shape())) as world:
        names = ("thinker", "other")
        thinker, other = [
            await world.orchestrator.register_agent(name, permissions=PERMISSIONS) for name in names
        ]
        interrupted = Interrupted(thinker, other)
        rates = []
        deadline = clock() + seconds * 1e9
        while clock() < deadline:
            lanes = asyncio.create_task(run_chunk(world))
            await interrupted.run(lanes)
            rates.append(await lanes)
        ratios: dict[int, list[float]] = {blocks: [] for blocks in BLOCKS}
        deadline = clock() + seconds * 1e9
        before = await throughput(world, thinker, 0)
        while clock() < deadline:
            for blocks, ratio in ratios.items():
                rate = await throughput(world, thinker, blocks)
                after = await throughput(world, thinker, 0)
                ratio.append(2 * rate / (before + after))
                before = after
    return {
        "interruptions": len(interrupted.since_commit_ns),
        "commit_ms": percentiles_ms(interrupted.since_commit_ns),
        "submit_ms": percentiles_ms(interrupted.since_submit_ns),
        "intents_per_second": median(rates),
        "throughput_with_blocks_open": {blocks: median(ratio) for blocks, ratio in ratios.items()},
        "machine": machine(),
        "python": sys.version.split()[0],
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=5.0, help="of each of the two parts")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    result = asyncio.run(measured(options.seconds))
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        for start in ("commit", "submit"):
            took = result[f"{start}_ms"]
            print(f"{start} to stop: p50 {took['p50']:.2f} ms, p99 {took['p99']:.2f} ms")
        print(f"{result['interruptions']} beside {result['intents_per_second']:,.0f} intents/s")
        for blocks, ratio in result["throughput_with_blocks_open"].items():
            print(f"throughput with {blocks} blocks open: {ratio:.3f} of that with none")
        print(f"CPython {result['python']}; {result['machine']}")
