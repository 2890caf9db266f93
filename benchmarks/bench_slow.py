"""How often does a slow agent win an object that fast agents change, and what do these lose by it?

    ./dev python benchmarks/bench_slow.py [--acts act use take] [--seeds N] [--to FILE.json]

Virtual time: the clock is an argument of the kernel, so a cell depends on its seed alone. One agent
looks at an object, thinks for 50 ms (15 s long) or 2 s (120 s), and sends its act; fast agents act
on the same object 30, 100 or 300 times a second in all. `act` is an interaction of the world that
nobody's hands are in the way of and whose rule does not judge its target again, `use` one that
does, `take` picks up what it saw free and drops it again. The log of each cell is verified.

The columns: `tries` thoughts sent and acts `admitted`; `most` tries for one act; `wait`, the
longest time between two acts, in own thoughts; `keep`, admitted acts of the fast agents, in percent
of those without a slow agent; `leased`, the part of the time for which the object was leased.
Medians of the seeds, and the largest `most` and `wait` of all. Two rows more: an honest agent among
20 abusers, which lease the object for 10 s again and again.

It does not show: real time, actors and networks; agents that are interrupted while they think;
a model that thinks better or worse after a refusal.
"""

import argparse
import heapq
import json
import platform
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from placet.actors.policies.contention import Contention
from placet.domains.world import World
from placet.kernel import Draft, Kernel, KernelConfig
from placet.kernel.ledger.leases import LEASE, RELEASE, LeaseTable
from placet.kernel.log.snapshot import world_digest
from placet.kernel.log.verify import Verifier
from placet.schemas.condition import if_unchanged
from placet.schemas.config import Leases
from placet.schemas.identity import Ref
from placet.schemas.intent import Intent
from placet.schemas.limits import SECOND_NS
from placet.schemas.verdict import Verdict
from placet_bench.report import machine

LAMP: Final = ("world.objects", "lamp")
HOLDER: Final = [*LAMP, "holder"]
LEASE_AFTER: Final = 2
POLL_S: Final = 0.01
"""How late an agent learns that its ticket is called."""

Life = Iterator[float]
"""An agent: it acts, and yields the seconds until it acts again."""


class Shape(NamedTuple):
    """The agents of a cell: seconds of a slow thought, number and pause of the fast agents.

    Attributes:
        seconds: Simulated seconds of the cell.
    """

    thought_s: float
    fast: int
    pause_s: float
    seconds: float

    def __str__(self) -> str:
        rate = self.fast / self.pause_s
        return f"{self.thought_s:g} s, {self.fast} fast, {rate:.0f}/s"


SHAPES: Final = (
    *(Shape(0.05, *fast, 15.0) for fast in ((3, 0.1), (3, 0.03), (10, 0.1), (20, 0.1))),
    *(Shape(2.0, *fast, 120.0) for fast in ((3, 0.1), (3, 0.01), (10, 0.1), (20, 0.1))),
)
ABUSED: Final = Shape(0.05, 3, 0.1, 600.0)
ABUSERS: Final = 20
ACTS: Final = ("act", "use", "take")
REMEDIES: Final = ("today", "if_unchanged", "lease 0.5", "lease 0.1")


@dataclass
class Counts:
    """What became of a cell; the names are those of the columns."""

    tries: int = 0
    admitted: int = 0
    most: int = 0
    wait: float = 0.0
    fast: int = 0
    keep: float = 0.0
    leased: float = 0.0


def poke(draft: Draft, _intent: Intent) -> None:
    """Count an act on an object; the rule does not judge what the agent saw."""
    draft.put(*LAMP, "pokes", draft.get(*LAMP, "pokes", 0) + 1)


def make_world() -> World:
    """Return a domain with one object, which everybody reaches."""
    return World(objects={"lamp": {"position": [0, 0]}}, interactions={"poke": poke})


class Cell:
    """Agents, as generators that yield how long they think, over one kernel."""

    def __init__(self, shape: Shape, act: str, remedy: str, seed: int) -> None:
        self.shape, self.act, self.remedy, self.seed = shape, act, remedy, seed
        self.leases = Leases(share=float(remedy.split()[1])) if "lease " in remedy else None
        self.log: list[bytes] = []
        config = KernelConfig(seed=seed, leases=self.leases)
        self.kernel = Kernel(make_world(), config, sink=self.log.append)
        self.counts = Counts()
        self.now_s = 0.0
        self._queue: list[tuple[float, int, Life]] = []
        self._order = count()

    def add(self, agent_id: str, life: Life) -> None:
        """Register an agent, which begins at a moment of its own."""
        self.kernel.register_agent(agent_id, position=[0, 0])
        first_s = self.random(agent_id).random() * 0.01
        heapq.heappush(self._queue, (first_s, next(self._order), life))

    def random(self, agent_id: str) -> random.Random:
        """Return the generator of an agent's pauses."""
        return random.Random(f"{self.seed} {agent_id}")

    def run(self) -> Counts:
        """Run the cell to its end; verify its log."""
        while self._queue and self._queue[0][0] < self.shape.seconds:
            self.now_s, _, life = heapq.heappop(self._queue)
            heapq.heappush(self._queue, (self.now_s + next(life), next(self._order), life))
        again = Verifier([make_world()])
        for data in self.log:
            again.apply(data)
        assert not again.unverified, again.unverified
        assert world_digest(again.state, again.ledger).hex() == self.kernel.world_digest()
        return self.counts

    def decide(self, *intents: Intent) -> Verdict:
        """Decide a batch now."""
        return self.kernel.decide(list(intents), self.now_s)

    def intent(self, agent_id: str, interaction: str) -> Intent:
        """Return an act on the object, decided on the present state."""
        payload = {"target_id": LAMP[1], "interaction_type": interaction}
        return self.kernel.intent("Interact", payload, agent=agent_id)

    def interaction(self, agent_id: str) -> str:
        """Return what an agent does with the object that it sees."""
        if self.act == "take":
            return "drop" if self.holder == agent_id else "pickup"
        return {"act": "poke"}.get(self.act, self.act)

    @property
    def holder(self) -> str | None:
        """The agent that carries the object."""
        holder: str | None = self.kernel.tree.get(*LAMP, "holder")
        return holder

    def is_taken_from(self, agent_id: str) -> bool:
        """Return whether an agent wants to take the object, and another one carries it."""
        return self.act == "take" and self.holder not in {None, agent_id}

    def lease(self, agent_id: str, seconds: float, *, when_free: bool) -> Life:
        """Request a lease until it runs; `when_free` starts it while nobody carries the object."""
        payload = {"refs": [list(LAMP)], "seconds": seconds}
        while True:
            start = self.kernel.intent(LEASE, payload, agent=agent_id)
            if when_free:
                wait = {**payload, "begin": False}
                self.decide(self.kernel.intent(LEASE, wait, agent=agent_id))
                start["expect"] = [{"path": HOLDER, "op": "==", "value": None}]
            verdict = self.decide(start)
            if verdict.admitted and verdict.results[0].output["granted"]:
                return
            yield POLL_S
            while not self.may_start(agent_id):
                yield POLL_S

    def may_start(self, agent_id: str) -> bool:
        """Return whether the ticket of an agent is called, or gone."""
        ticket = self.table.tickets.get(agent_id)
        return ticket is None or ticket.called_ns is not None

    @property
    def table(self) -> LeaseTable:
        """The leases of the world now."""
        assert self.kernel.ledger.leases is not None, "the cell has leases"
        return self.kernel.ledger.leases.at(round(self.now_s * SECOND_NS))

    def release(self, agent_id: str) -> Intent:
        """Return the intent that releases the lease of an agent."""
        return self.kernel.intent(RELEASE, {}, agent=agent_id)

    def leased_s(self) -> float:
        """Return for how long the lease that runs has been running."""
        ticket = self.table.held.get(Ref(*LAMP))
        return 0.0 if ticket is None else self.now_s - (ticket.started_ns or 0) / SECOND_NS


def fast(cell: Cell, agent_id: str) -> Life:
    """Act after each pause on what the agent sees."""
    pauses = cell.random(agent_id)
    while True:
        yield cell.shape.pause_s * pauses.uniform(0.5, 1.5)
        if cell.is_taken_from(agent_id):
            to = [pauses.random(), 0.0]
            cell.decide(cell.kernel.intent("Move", {"to": to}, agent=agent_id))
        else:
            intent = cell.intent(agent_id, cell.interaction(agent_id))
            cell.counts.fast += cell.decide(intent).admitted


def slow(cell: Cell, agent_id: str) -> Life:
    """Look, think, act; lease what was lost, by the rules of an agent actor."""
    thought_s, counts, pauses = cell.shape.thought_s, cell.counts, cell.random(agent_id)
    contention = Contention(None if cell.leases is None else LEASE_AFTER)
    contention.thought_s, last_s, tries = thought_s, 0.0, 0
    while True:
        if wanted := contention.wanted(cell.leases):
            when_free = cell.act == "take" and cell.holder != agent_id
            yield from cell.lease(agent_id, wanted[1], when_free=when_free)
        elif cell.is_taken_from(agent_id):
            yield 0.005
            continue
        intent = cell.intent(agent_id, cell.interaction(agent_id))
        if cell.remedy == "if_unchanged":
            intent["expect"] = if_unchanged(cell.kernel.state, [HOLDER])
        yield thought_s * pauses.uniform(0.8, 1.2)
        counts.tries, tries = counts.tries + 1, tries + 1
        if wanted:
            counts.leased += cell.leased_s() / cell.shape.seconds
        batch = [intent, cell.release(agent_id)] if wanted else [intent]
        verdict = cell.decide(*batch)
        contention.note(
            None if verdict.admitted else verdict.refusals[0], was_leased=wanted is not None
        )
        waited = (cell.now_s - last_s) / thought_s
        counts.most, counts.wait = max(counts.most, tries), max(counts.wait, waited)
        if verdict.admitted:
            counts.admitted += 1
            last_s, tries = cell.now_s, 0
        elif wanted:
            cell.decide(cell.release(agent_id))


def abuser(cell: Cell, agent_id: str) -> Life:
    """Lease the object for as long as possible, again and again, and do nothing."""
    assert cell.leases is not None, "an abuser needs leases"
    while True:
        yield from cell.lease(agent_id, cell.leases.seconds_max, when_free=False)
        yield cell.leases.seconds_max


def run_cell(
    shape: Shape, act: str, remedy: str, seed: int, *, slows: int = 1, abusers: int = 0
) -> Counts:
    """Run one cell to its end."""
    cell = Cell(shape, act, remedy, seed)
    for number in range(shape.fast):
        cell.add(f"fast{number}", fast(cell, f"fast{number}"))
    for number in range(slows):
        cell.add(f"slow{number}", slow(cell, f"slow{number}"))
    for number in range(abusers):
        cell.add(f"abuser{number}", abuser(cell, f"abuser{number}"))
    return cell.run()


def rows_of(
    act: str, shape: Shape, seeds: int, remedies: Sequence[str] = REMEDIES, *, abusers: int = 0
) -> list[dict[str, Any]]:
    """Measure a shape under each remedy; an interaction that needs none is measured without."""
    alone = [run_cell(shape, act, "today", seed, slows=0).fast for seed in range(seeds)]
    rows = []
    for remedy in remedies[:1] if act == "use" else remedies:
        cells = [run_cell(shape, act, remedy, seed, abusers=abusers) for seed in range(seeds)]
        for counts, rate in zip(cells, alone, strict=True):
            counts.keep = 100 * counts.fast / rate
        name = f"{remedy}, {abusers} abusers" if abusers else remedy
        rows.append(row_of(act, str(shape), name, cells))
    return rows


def row_of(act: str, shape: str, remedy: str, cells: list[Counts]) -> dict[str, Any]:
    """Return a row: the median of each count, and the counts of each seed."""
    each = [asdict(counts) for counts in cells]
    middle = {name: median(counts[name] for counts in each) for name in each[0]}
    worst = {name: max(counts[name] for counts in each) for name in ("most", "wait")}
    return {"act": act, "agents": shape, "remedy": remedy, **middle, **worst, "seeds": each}


def line_of(row: dict[str, Any]) -> str:
    """Return a row as a line of the table."""
    return (
        f"{row['act']:5} {row['agents']:22} {row['remedy']:21} {row['tries']:5.0f} "
        f"{row['admitted']:8.0f} {row['most']:5} {row['wait']:6.1f} {row['keep']:5.0f} "
        f"{row['leased']:6.2f}"
    )


def main() -> None:
    """Measure, print, and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--acts", nargs="+", choices=ACTS, default=ACTS)
    parser.add_argument("--seeds", type=int, default=3, help="runs of each cell, at least 1")
    parser.add_argument("--to", type=Path, help="write the rows as JSON")
    options = parser.parse_args()
    cells: list[tuple[str, Shape, Sequence[str], int]] = [
        (act, shape, REMEDIES, 0) for act in options.acts for shape in SHAPES
    ]
    if "act" in options.acts:
        cells.append(("act", ABUSED, REMEDIES[2:], ABUSERS))
    print(f"{'':50} {'tries':>5} {'admitted':>8} {'most':>5} {'wait':>6} {'keep':>5} {'leased':>6}")
    rows: list[dict[str, Any]] = []
    for act, shape, remedies, abusers in cells:
        some = rows_of(act, shape, options.seeds, remedies, abusers=abusers)
        print("\n".join(map(line_of, some)), flush=True)
        rows += some
    python = platform.python_version()
    print(f"CPython {python}; {machine()}; seeds 0 to {options.seeds - 1}")
    if options.to is not None:
        result = {"rows": rows, "python": python, "machine": machine()}
        options.to.write_text(json.dumps(result, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
