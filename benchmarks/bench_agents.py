"""What does a turn of an agent cost besides its model, and what does reading a plan cost?

    ./dev python benchmarks/bench_agents.py [--turns N] [--json]

One process, in memory, the domain `world`, one session in mode `autonomous` whose script proposes
the same two actions each time. A turn is everything from the message to the answer: the turn's
beginning and end in the log, the model call as an effect with its answer in the log, the view, the
context, the parser, the trial and the batch. Figures are milliseconds of CPU time per turn, and
microseconds per plan that is read and validated; the median of five runs, and the least.

It does not show: a model, a store on disk, many sessions at once, or a large view.
"""

import argparse
import asyncio
import json
import time
from statistics import median
from typing import Final

from placet import Orchestrator
from placet.agents import ScriptedAdapter, Session
from placet.agents.proposal.catalogue import Catalogue
from placet.agents.proposal.plan_parser import parse
from placet.domains.session import Sessions
from placet.domains.world import World
from placet.schemas.codec import Json
from placet_bench.report import machine

RUNS: Final = 5
ACTIONS: Final[list[tuple[str, dict[str, Json]]]] = [
    ("Move", {"to": [1, 2]}),
    ("Speak", {"text": "I am here."}),
]
PLAN: Final = {
    "version": "placet.plan/1",
    "goal": "go there and say so",
    "base_seq": 7,
    "actions": [{"kind": kind, "payload": payload} for kind, payload in ACTIONS],
}


async def turn_ms(turns: int) -> float:
    """Milliseconds of CPU time of one turn, once the session is warm."""
    async with Orchestrator([World(), Sessions()]) as world:
        adapter = ScriptedAdapter([ACTIONS], is_looping=True)
        session = await Session.open(world=world, mode="autonomous", adapter=adapter)
        for _ in range(20):
            await session.send("go on")
        began = time.process_time()
        for _ in range(turns):
            turn = await session.send("go on")
            if turn.outcome != "applied":
                raise AssertionError(turn)
        return (time.process_time() - began) / turns * 1e3


def parse_us(plans: int) -> float:
    """Microseconds of CPU time to read and validate a plan of two actions."""
    catalogue, text = Catalogue(World()), json.dumps(PLAN)
    for _ in range(200):
        parse(text, domain=catalogue)
    began = time.process_time()
    for _ in range(plans):
        plan, issues = parse(text, domain=catalogue)
        if plan is None:
            raise AssertionError(issues)
    return (time.process_time() - began) / plans * 1e6


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--turns", type=int, default=200, help="turns in each run")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    turns = [asyncio.run(turn_ms(options.turns)) for _ in range(RUNS)]
    plans = [parse_us(options.turns * 10) for _ in range(RUNS)]
    figures = {
        "turn_ms": {"median": round(median(turns), 2), "least": round(min(turns), 2)},
        "parse_us": {"median": round(median(plans), 1), "least": round(min(plans), 1)},
        "machine": machine(),
    }
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    print("                      median     least")
    print(f"a turn, ms of CPU   {median(turns):8.2f}  {min(turns):8.2f}")
    print(f"a plan read, us     {median(plans):8.1f}  {min(plans):8.1f}")
    print(figures["machine"])


if __name__ == "__main__":
    main()
