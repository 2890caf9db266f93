"""Does a move cost more where there are more agents outside of its area?

    ./dev python benchmarks/bench_area.py [--seconds S] [--agents 1000 10000 100000] [--json]

A world of agents that see by distance, as dense at every size (about eight neighbors each); a
hundred of them observe and move. What is measured is the publishing of their moves and the look of
those who see them, of one record at a time, which is the part that could grow.

Then one observer that looks after every thousandth move, beside a hundred that keep up: what it
costs these, its own look included.

It does not show: a crowd in one place, where everybody is everybody's neighbor.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Callable
from contextlib import nullcontext
from statistics import mean, median
from typing import TYPE_CHECKING

from placet.actors.observation.delayed_observer import Time
from placet.actors.observation.hub import ObserverHub
from placet.kernel import Kernel
from placet.schemas.config import KernelConfig
from placet.schemas.intent import SCHEMA_VERSION
from placet.schemas.log.record import LogAppend
from placet_bench.delivery import NEIGHBORS, make_observed_domain, reach_for

if TYPE_CHECKING:
    from placet.actors.observation.observer import Observer

MOVERS = 100
AGENTS_AT_SIDE = 1_000
SIDE = 1_000.0
ROUND_MOVES = 1_000


class Area:
    """A world of some size, and those of its agents who observe and move."""

    def __init__(self, agents: int) -> None:
        self.side = SIDE * (agents / AGENTS_AT_SIDE) ** (1 / 3)
        self.records: list[bytes] = []
        domain = make_observed_domain(reach_for(AGENTS_AT_SIDE), self.side)
        self.kernel = Kernel(domain, KernelConfig(seed=11), sink=self.records.append)
        spots = int(agents ** (1 / 3)) + 1
        step = self.side / spots
        for number in range(agents):
            x, y, z = number % spots, number // spots % spots, number // spots**2
            place = [(x + 0.5) * step, (y + 0.5) * step, (z + 0.5) * step]
            self.kernel.register_agent(f"a{number}", position=place)
        middle = agents // 2
        self.movers = [f"a{middle + number}" for number in range(MOVERS)]
        self.places = {
            name: list(self.kernel.tree.get("world.agents", name, "position"))
            for name in self.movers
        }
        clock = Time(lambda: 0, waiting, nullcontext, self.kernel.config.seed)
        self.observing = ObserverHub(self.kernel.registry, raising, clock)
        self.watching: list[Observer] = []
        self.slow: list[Observer] = []
        self.number = 0

    async def open(self, slow: int = 0) -> "Area":
        """Let the movers observe, and some that will not look."""

        async def begin(act: Callable[[Kernel], None]) -> None:
            act(self.kernel)

        for name in [*self.movers, *self.movers[:slow]]:
            entered = self.observing.observer(name, begin)
            self.watching.append(await entered.__aenter__())
        for observer in self.watching:
            observer.look()
        self.slow = self.watching[MOVERS:]
        del self.watching[MOVERS:]
        self.records.clear()
        return self

    def groups(self) -> list[LogAppend]:
        """Make moves, one record each; not timed."""
        made = []
        for _ in range(ROUND_MOVES):
            name = self.movers[self.number % MOVERS]
            x, y, z = self.places[name]
            intent = {
                "kind": "Move",
                "payload": {"to": [x + self.number % 7, y, z]},
                "agent_id": name,
                "req_id": f"m:{self.number}",
                "context_seq": self.kernel.seq,
                "priority": 10,
                "schema_version": SCHEMA_VERSION,
            }
            self.number += 1
            first, seq = self.kernel.record_count, self.kernel.seq
            assert self.kernel.decide([intent]).admitted
            made.append(LogAppend(first, seq, self.kernel.seq, tuple(self.records)))
            self.records.clear()
        return made

    def us_per_move(self) -> float:
        """Publish moves and let everybody look, the slow one once; timed."""
        groups = self.groups()
        started = time.process_time_ns()
        for group in groups:
            self.observing.publish(group)
            for observer in self.watching:
                if not observer.dirty_set.is_empty:
                    observer.look()
        for observer in self.slow:
            observer.look()
        return (time.process_time_ns() - started) / 1e3 / len(groups)


def raising(where: str, error: BaseException) -> None:
    """Stop the benchmark: what was timed is not what it says."""
    raise AssertionError(where) from error


async def waiting(moment_ns: int) -> None:
    """Stop the benchmark: nobody here is behind a latency."""
    raise AssertionError(moment_ns)


def in_turns(areas: list[Area], seconds: float) -> list[float]:
    """Let the areas take turns; give the median cost of each, in microseconds."""
    costs: list[list[float]] = [[] for _ in areas]
    until = time.monotonic() + seconds * len(areas)
    while time.monotonic() < until or len(costs[0]) < 5:
        for place, area in enumerate(areas):
            costs[place].append(area.us_per_move())
    return [median(some) for some in costs]


async def main() -> None:
    """Measure, and print."""
    summary = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(description=summary)
    parser.add_argument("--seconds", type=float, default=3.0, help="timed work of each size")
    parser.add_argument("--agents", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    areas = [await Area(agents).open() for agents in options.agents]
    costs = in_turns(areas, options.seconds)
    alone, beside = await Area(AGENTS_AT_SIDE).open(), await Area(AGENTS_AT_SIDE).open(slow=1)
    without, with_slow, again = in_turns([alone, beside, alone], options.seconds)
    result = {
        "neighbors": NEIGHBORS,
        "us_per_move": dict(zip(map(str, options.agents), costs, strict=True)),
        "largest_to_smallest": costs[-1] / costs[0],
        "slow_observer_costs": with_slow / mean((without, again)) - 1,
    }
    if options.json:
        print(json.dumps(result, indent=2))
        return
    for agents, cost in zip(options.agents, costs, strict=True):
        print(f"{agents:>8,} agents  {cost:7.1f} us a move")
    print(f"largest to smallest {result['largest_to_smallest']:.2f} (at most 1.3)")
    print(f"one slow observer among a hundred costs {result['slow_observer_costs']:+.1%}")


if __name__ == "__main__":
    asyncio.run(main())
