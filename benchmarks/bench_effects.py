"""How many effects a second, from the batch that declares them to their settlements?

    ./dev python benchmarks/bench_effects.py [--seconds S] [--json]

One process, in memory, a small domain of one kind. Three subjects take turns: batches of 10
intents with one effect each, whose executor does nothing; the same where each effect is done at
most once, so that it is marked in the log before it begins; and the same batches without effects.
Figures are effects (or intents) per second of CPU time, settled, and the median of the ratios to
the world without effects in the same turn.

It does not show: handlers that do anything, retries, threads and processes, or a store on disk,
where settlements share the commits of the batches.
"""

import argparse
import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from statistics import median
from typing import Final

from typing_extensions import TypedDict

from placet import Domain, Kind, Limits, Orchestrator, OrchestratorConfig
from placet.kernel import Draft
from placet.runtime.executors import Delivery, Effect
from placet.schemas.intent import Intent
from placet.stores.gc_tuning import tuned_gc
from placet_bench.report import machine

BATCH_INTENTS: Final = 10
AGENTS: Final = 20
ROUNDS_PER_TURN: Final = 20
OUTBOX_MAX: Final = 4_096


class Order(TypedDict):
    """What is ordered."""

    article: int


def order(draft: Draft, intent: Intent) -> None:
    """Ask for one effect."""
    draft.emit("ship", {"article": intent["payload"]["article"]})


def note(draft: Draft, intent: Intent) -> None:
    """Do the same work in the gate, without an effect."""
    draft.put("shop.noted", "all", "article", intent["payload"]["article"])


class Shop(Domain):
    """One kind with an effect, one without."""

    name, version = "shop", "1"
    kinds = (Kind("Order", Order, order, effects=("ship",)), Kind("Note", Order, note))

    def on_open(self, draft: Draft) -> None:
        """Make what `Note` writes."""
        draft.create("shop.noted", "all", {"article": 0})


async def ship(effect: Effect) -> None:
    """Do nothing."""


@asynccontextmanager
async def contender(kind: str, delivery: Delivery) -> AsyncIterator[Callable[[], Awaitable[float]]]:
    """Give what runs one turn and tells how many a second it came to."""
    config = OrchestratorConfig(limits=Limits(log_bytes_max=2**33), log_level="critical")
    async with Orchestrator(Shop(), config) as world:
        agents = [await world.register_agent(f"agent-{n}") for n in range(AGENTS)]
        await world.register_executor("ship", ship, delivery=delivery, outbox_max=OUTBOX_MAX)

        async def turn() -> float:
            rounds = [
                [[agent.intent(kind, article=n) for n in range(BATCH_INTENTS)] for agent in agents]
                for _ in range(ROUNDS_PER_TURN)
            ]
            began = time.process_time()
            for batches in rounds:
                verdicts = await asyncio.gather(*(world.submit(batch) for batch in batches))
                assert all(verdict.admitted for verdict in verdicts)
            await world.wait_effects()
            done = ROUNDS_PER_TURN * AGENTS * BATCH_INTENTS
            return done / (time.process_time() - began)

        yield turn


async def measure(seconds: float) -> dict[str, dict[str, float]]:
    """Let the subjects take turns."""
    async with (
        contender("Note", "keyed") as without,
        contender("Order", "keyed") as keyed,
        contender("Order", "at_most_once") as once,
    ):
        turns: list[tuple[float, float, float]] = []
        until = time.monotonic() + seconds
        for turn in (without, keyed, once):
            await turn()  # the first fills the windows
        while time.monotonic() < until or len(turns) < 3:  # for a median
            turns.append((await without(), await keyed(), await once()))
    names = ("without effects", "keyed", "at_most_once")
    return {
        name: {
            "per_second": median(turn[place] for turn in turns),
            "min": min(turn[place] for turn in turns),
            "max": max(turn[place] for turn in turns),
            "ratio": median(turn[place] / turn[0] for turn in turns),
            "turns": len(turns),
        }
        for place, name in enumerate(names)
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=10.0, help="time of all turns")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    with tuned_gc():
        figures = asyncio.run(measure(options.seconds))
    if options.json:
        print(json.dumps({"figures": figures, "machine": machine()}, indent=2))
    else:
        for name, figure in figures.items():
            print(
                f"{name:16} {figure['per_second']:10,.0f}/s ({figure['min']:,.0f} to "
                f"{figure['max']:,.0f})  ratio {figure['ratio']:.2f}"
            )
        print(machine())
