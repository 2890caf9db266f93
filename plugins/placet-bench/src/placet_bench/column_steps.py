"""Programs that step by column batches: every agent of a population acts once in each tick.

Every stage of the gate is on, as in `workloads.py`, and the log gets each record, with its hash.
"""

from dataclasses import replace
from typing import Any, Final, Self

import numpy as np

from placet.kernel import ColumnBatch, Domain, Field, Kernel, KernelConfig, Kind, Table
from placet.kernel.log.replay import Replayer
from placet.schemas.limits import Limits
from placet_bench.stepping import Stepper
from placet_bench.subjects import WholeWorld
from placet_bench.workloads import QUOTA, SEED, SIDE, STALENESS_THRESHOLD, Load, Shape

PEOPLE, CELLS = "crowd.people", "crowd.cells"
POPULATION: Final = "walkers"
STEP_MAX: Final = 1.0
REACH: Final = 0.7
"""Targets are drawn within this distance on each axis: shorter than `STEP_MAX` on both."""

SUSPENDED_EVERY: Final = 20
REFUSED_EVERY: Final = 20
WEALTH: Final = 1_000_000
"""Money of each member, so that no gift is in danger of the bounds."""


def _move(rows: Any) -> None:  # noqa: ANN401  # the rows of a rule
    to = rows.payload["to"]
    step = to - rows.own["position"]
    far = step[:, 0] * step[:, 0] + step[:, 1] * step[:, 1] > STEP_MAX
    rows.refuse(far, "too_far", f"a step is at most {STEP_MAX:g}")
    rows.write("position", to)


def _take(rows: Any) -> None:  # noqa: ANN401  # the rows of a rule
    cell = rows.payload["cell"]
    rows.claim(CELLS, cell)
    rows.write("cell", cell)
    rows.put(CELLS, cell, "who", rows.numbers)


def _give(rows: Any) -> None:  # noqa: ANN401  # the rows of a rule
    rows.add(PEOPLE, rows.numbers, "money", -1)
    rows.add(PEOPLE, rows.payload["to"], "money", 1)


class Crowd(Domain):
    """A population that moves, takes cells and gives money.

    Args:
        members: Number of members, and of cells.
        wealth: Money of each member at the start.
    """

    name, version = "crowd", "1"

    def __init__(self, members: int, wealth: int = WEALTH) -> None:
        position, number = Field("f8", 2, low=0, high=SIDE), Field("i4", low=0, high=members - 1)
        money = Field("i4", default=wealth, low=0)
        people = {"position": position, "cell": Field("i4"), "money": money}
        self.tables = (
            Table(PEOPLE, people),
            Table(CELLS, {"who": Field("i4", default=-1)}, rows=members),
        )
        self.kinds = (
            Kind("Move", {"to": position}, rows=_move, table=PEOPLE, reads_self=PEOPLE),
            Kind("Take", {"cell": number}, rows=_take, table=PEOPLE),
            Kind("Give", {"to": number}, rows=_give, table=PEOPLE),
        )


def crowd_kernel(kind: str, members: int, sink: Any = None, wealth: int = WEALTH) -> Kernel:  # noqa: ANN401  # a sink of records
    """Return a kernel with a population that may propose a kind; every stage of its gate is on."""
    limits = replace(Limits(), column_rows_max=max(members, Limits().column_rows_max))
    config = KernelConfig(
        seed=SEED, quotas={kind: QUOTA}, staleness_threshold=STALENESS_THRESHOLD, limits=limits
    )
    kernel = Kernel(Crowd(members, wealth), config, sink=sink)
    draw = np.random.default_rng(SEED)
    position = draw.uniform(0.0, SIDE, (members, 2))
    kernel.register_population(
        POPULATION, members, table=PEOPLE, permissions={kind}, position=position
    )
    return kernel


class ColumnStep(Stepper):
    """Every member acts once, in one column batch, through `Kernel.step`.

    Args:
        name: Name of the row in the table.
        agents: Number of members.
        kind: Kind of their intents.
        is_permuted: The rows are in random order; one in twenty members is suspended, and one in
            twenty rows is refused by the rule.
        has_digest: The state digest is read after each step.
        wealth: Money of each member at the start.
    """

    def __init__(
        self,
        name: str,
        agents: int,
        kind: str = "Move",
        *,
        is_permuted: bool = False,
        has_digest: bool = False,
        wealth: int = WEALTH,
    ) -> None:
        super().__init__(name, agents)
        self._kind, self._is_permuted, self._has_digest = kind, is_permuted, has_digest
        self._wealth = wealth
        self._draw = np.random.default_rng(SEED)
        self._number = 0

    async def __aenter__(self) -> Self:
        self.kernel = crowd_kernel(self._kind, self.agents, self.keep, self._wealth)
        if self._is_permuted:
            for number in range(0, self.agents, SUSPENDED_EVERY):
                self.kernel.change_agent(f"{POPULATION}:{number}", "suspended")
        return self

    def keep(self, data: bytes) -> None:
        """Take a record of the log, which is hashed already; the base drops it."""

    async def prepare(self) -> ColumnBatch:
        """Return the batch of the next step."""
        self._number += 1
        draw, count = self._draw, self.agents
        who = draw.permutation(count) if self._is_permuted else None
        to: Any
        if self._kind == "Move":
            position = self.kernel.population(POPULATION)["position"]
            start = position if who is None else position.take(who, axis=0)
            to = np.clip(start + draw.uniform(-REACH, REACH, (count, 2)), 0.0, SIDE)
            if who is not None:
                to[::REFUSED_EVERY] = SIDE - start[::REFUSED_EVERY]
        else:
            to = draw.integers(0, count, count, dtype=np.int32)
        payload = {"cell" if self._kind == "Take" else "to": to}
        req_id = f"step:{self._number}"
        return ColumnBatch(
            self._kind, POPULATION, payload, req_id, agents=who, context_seq=self.kernel.seq
        )

    async def step(self, inputs: Any) -> None:  # noqa: ANN401  # differs by subclass
        """Decide the batch, and count the refused rows."""
        verdict: Any
        (verdict,) = self.kernel.step(1.0, [inputs])
        refused = int(np.count_nonzero(verdict.codes))
        if self._has_digest:
            self.kernel.digest()
        may_refuse = self._is_permuted or self._kind == "Take" or self._wealth != WEALTH
        if verdict.seq is None or (refused and not may_refuse):
            raise AssertionError(f"{self.name}: {refused} rows of {self.agents} were refused")


class FoldStep(ColumnStep):
    """A log of column batches is folded, a tick at a time; it is written untimed."""

    async def __aenter__(self) -> Self:
        self._records: list[bytes] = []
        self._replayer = Replayer()
        await super().__aenter__()
        self._fold()
        return self

    def keep(self, data: bytes) -> None:
        """Keep a record until it is folded."""
        self._records.append(data)

    async def prepare(self) -> Any:  # noqa: ANN401  # the records are its input
        """Decide the batch of the next step, which writes the records of a tick."""
        await super().step(await super().prepare())

    async def step(self, inputs: None) -> None:
        """Fold the records of a tick."""
        self._fold()

    def _fold(self) -> None:
        for data in self._records:
            self._replayer.apply(data)
        self._records.clear()


class ThroughputStep(Stepper):
    """W1: batches of 10 intents through a whole world, one outstanding per agent."""

    def __init__(self, name: str, shape: Shape, chunk_intents: int) -> None:
        self._world = WholeWorld(Load(shape, chunk_intents=chunk_intents))
        rounds = max(1, chunk_intents // shape.round_intents)
        super().__init__(name, rounds * shape.round_intents)

    async def __aenter__(self) -> Self:
        await self._world.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._world.__aexit__(*error)

    async def prepare(self) -> Any:  # noqa: ANN401  # a chunk of intents
        """Return the next intents."""
        return self._world.next_chunk()

    async def step(self, inputs: Any) -> None:  # noqa: ANN401  # a chunk of intents
        """Submit the intents, and await every verdict."""
        await self._world.run(inputs)
