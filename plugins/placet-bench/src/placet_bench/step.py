"""Workload `step`: CPU time of an act of one agent, in batches of one, beside Mesa and PettingZoo.

Of the whole process. Steppers of one group alternate, so that a slow minute of the
machine hits them all; a ratio is of two turns in one round.
"""

import gc
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from math import ceil
from pathlib import Path
from statistics import quantiles
from typing import Final, NamedTuple, Self

from placet.runtime.agent_handle import AgentHandle
from placet.runtime.orchestrator import Orchestrator
from placet.scenarios import Scenario
from placet.scenarios.simulation import Simulation
from placet.schemas.codec import Json
from placet_bench.delivery import make_observed_domain, reach_for
from placet_bench.measure import spread
from placet_bench.stepping import KernelStep, SimulationStep, Stepper, scenario_text
from placet_bench.workloads import SIDE, Load, Scale, Shape, make_config

ROUNDS_MIN, ROUNDS_MAX = 3, 100
STEPS_PER_TURN: Final = 5
"""So that the first step of a turn, which finds cold caches, is one of several."""
LOOKS_PER_TURN: Final = 20
POLICY: Final = "placet_bench.stepping:Mover"

L1, L2, MESA, COLLECTED, SET, PLAIN_ENV, ENV, LOOK, SIGHT = (
    "L1: Kernel.step",
    "L2: a scenario on Simulation",
    "Mesa: a random step",
    "Mesa: with DataCollector",
    "Mesa: no draw, one attribute set",
    "PettingZoo: plain dicts",
    "WorldEnv",
    "a look at 10 000 agents",
    "a look, and all in sight",
)
NOTES: Final = (
    "CPU time: median of the rounds and quartiles; ratios are of turns in the same round",
    "Mesa and plain dicts check nothing, decide no conflict and keep no log",
    "intents_per_second is that of L1 by CPU time",
)


class Quartiles(NamedTuple):
    """Median of a figure over the rounds, and the quartiles around it."""

    low: float
    middle: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """Return the quartiles of two or more values."""
        return cls(*quantiles(values, n=4, method="inclusive"))

    def as_dict(self) -> dict[str, Json]:
        """Return the three values as plain JSON."""
        return {"p25": self.low, "median": self.middle, "p75": self.high}


class Costs(NamedTuple):
    """CPU microseconds of one act of one agent: one value for each round."""

    stepper: Stepper
    rounds: list[float]

    def ratios_to(self, other: "Costs") -> Quartiles:
        """Return the quartiles of the ratios of this cost to another, each of one round."""
        pairs = zip(self.rounds, other.rounds, strict=True)
        return Quartiles.of([own / its for own, its in pairs])


async def alternate(steppers: Sequence[Stepper], acts: int, seconds: float) -> list[Costs]:
    """Run steppers in turns and return their costs; every second round goes backwards.

    Args:
        steppers: The steppers, already open.
        acts: Least number of acts in a turn: a turn repeats the step of few agents.
        seconds: CPU seconds for each stepper; at least `ROUNDS_MIN` rounds are run.
    """
    costs = [Costs(stepper, []) for stepper in steppers]
    for cost in costs:
        await _turn(cost.stepper, acts)  # warm-up
    spent = 0.0
    for number in range(ROUNDS_MAX):
        if number >= ROUNDS_MIN and spent >= seconds * len(steppers):
            break
        for stepper, rounds in costs if number % 2 else reversed(costs):
            cpu_ns, done = await _turn(stepper, acts)
            rounds.append(cpu_ns / 1e3 / done)
            spent += cpu_ns / 1e9
    return costs


async def _turn(stepper: Stepper, acts: int) -> tuple[int, int]:
    """Return the CPU nanoseconds of a turn, and the acts done in it."""
    gc.collect(1)  # young garbage of a turn stays out of the next stepper's time
    clock, steps, cpu_ns = time.process_time_ns, ceil(acts / stepper.agents), 0
    for _ in range(steps):
        inputs = await stepper.prepare()
        before = clock()
        await stepper.step(inputs)
        cpu_ns += clock() - before
    return cpu_ns, steps * stepper.agents


class Look(Stepper):
    """A look of one agent at a world in realtime with many entities, after each change."""

    def __init__(self, name: str, entities: int, *, reads_sight: bool = False) -> None:
        super().__init__(name, 1)
        self._reads_sight = reads_sight
        self.entities = entities
        self._exit = AsyncExitStack()
        self._load = Load(Shape(agents=entities))
        self._looking = self._load.agent_ids[0]

    async def __aenter__(self) -> Self:
        domain = make_observed_domain(reach_for(self.entities))
        config = make_config(self._load.shape)
        world = await self._exit.enter_async_context(Orchestrator(domain, config))
        names = enumerate(self._load.agent_ids)
        handles = [await _register(world, name, number) for number, name in names]
        self._handle, self._other = handles[0], handles[-1]
        self._number = 0
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._exit.aclose()

    async def prepare(self) -> None:
        """Move another agent, so that nothing is left of an earlier look."""
        self._number += 1
        await self._other.submit([self._other.intent("Move", to=[self._number % SIDE, 1.0, 1.0])])

    async def step(self, inputs: None) -> None:
        """Look, and read the agent's own position, or the ids of all in sight."""
        view = await self._handle.refresh_view()
        if self._reads_sight:
            assert self._looking in view.ids("world.agents")
        else:
            assert view.state["world.agents"][self._looking]["position"]


async def _register(world: Orchestrator, name: str, number: int) -> AgentHandle:
    position = [number * 7.0 % SIDE, number * 31.0 % SIDE, number * 101.0 % SIDE]
    return await world.register_agent(name, position=position)


def simulation_of(agents: int) -> Simulation:
    """Return the scenario of L2 on a `Simulation`, in memory."""
    with tempfile.TemporaryDirectory(prefix="placet-bench-") as folder:
        file = Path(folder) / "step.toml"
        file.write_text(scenario_text(agents, POLICY), encoding="utf-8")
        return Simulation(Scenario.load(file))


def town_seconds(arguments: Sequence[str] = ()) -> float:
    """Return the CPU seconds of `placet run town --no-verify` and of its processes (L3).

    Args:
        arguments: More arguments of the command.
    """
    command = [sys.executable, "-P", "-m", "placet", "run", "town", "--no-verify", *arguments]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory(prefix="placet-bench-") as folder:
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def _mesa(agents: int) -> list[Stepper]:
    from placet_bench.mesa_steps import MesaStep  # noqa: PLC0415  # optional

    return [
        MesaStep(MESA, agents),
        MesaStep(COLLECTED, agents, is_collected=True),
        MesaStep(SET, agents, draws=False),
    ]


def _environments(sizes: Sequence[int]) -> list[Stepper]:
    from placet_bench.env_steps import plain_env_step, world_env_step  # noqa: PLC0415  # optional

    worlds = [world_env_step(ENV, agents) for agents in sizes]
    return [*worlds, plain_env_step(PLAIN_ENV, max(sizes))]


def if_installed(make: Callable[[], list[Stepper]], notes: list[str]) -> list[Stepper]:
    """Return the steppers of an optional package; without it none, and add a note."""
    try:
        return make()
    except ImportError as error:
        notes.append(str(error))
        return []


async def measured(steppers: Sequence[Stepper], acts: int, seconds: float) -> list[Costs]:
    """Open steppers, run them in turns, and return their costs; as `alternate`."""
    async with AsyncExitStack() as stack:
        for stepper in steppers:
            await stack.enter_async_context(stepper)
        return await alternate(steppers, acts, seconds)


def row_of(costs: Costs, base: Costs | None = None, bar: str = "") -> dict[str, Json]:
    """Return a row of the table: a cost, and its ratio to the cost of another stepper."""
    stepper = costs.stepper
    row: dict[str, Json] = {
        "name": stepper.name,
        "agents": stepper.agents,
        "rounds": len(costs.rounds),
        "cpu_us": Quartiles.of(costs.rounds).as_dict(),
        "bar": bar,
    }
    if base is not None:
        row["compared_with"] = f"{base.stepper.name}, {base.stepper.agents:,} agents"
        row["ratio"] = costs.ratios_to(base).as_dict()
    return row


async def step(scale: Scale, seconds: float) -> dict[str, Json]:
    """Measure workload `step`: L1 and L2 beside their peers, growth, environments, a look, L3."""
    agents, notes = scale.step_agents, list(NOTES)
    mesa = if_installed(lambda: _mesa(agents), notes)
    environments = if_installed(lambda: _environments(scale.env_agents), notes)
    l2 = SimulationStep(L2, agents, simulation_of(agents))
    same = await measured([KernelStep(L1, agents), l2, *mesa], STEPS_PER_TURN * agents, seconds)
    sizes = [KernelStep(L1, count) for count in scale.step_crowds]
    growth = await measured(sizes, max(scale.step_crowds), seconds)
    environment = await measured(environments, max(scale.env_agents), seconds)
    envs, plains = environment[:-1], environment[-1:]
    worlds = [Look(LOOK, scale.look_entities), Look(SIGHT, scale.look_entities, reads_sight=True)]
    look, sight = await measured(worlds, LOOKS_PER_TURN, seconds)
    town = spread([town_seconds(scale.town_arguments) for _ in range(scale.town_runs)])
    notes.append(f"L3: `placet run town --no-verify` takes {town.middle:.2f} CPU s")
    by_name = {costs.stepper.name: costs for costs in same}
    rows = [
        row_of(by_name[L1], by_name.get(MESA), "≤ 10, aim ≤ 6"),
        row_of(by_name[L2], by_name[L1], "aim ≤ 1.3"),
        *(row_of(costs, by_name[MESA]) for costs in same[2:]),
        *(row_of(costs, growth[0]) for costs in growth),
        *(row_of(costs, envs[0], "≤ 1.5") for costs in envs),
        *(row_of(plain) for plain in plains),
        row_of(look, bar="≤ 100"),
        row_of(sight),
    ]
    figures: dict[str, Json] = {
        "batch_intents": 1,
        "intents_per_second": 1e6 / Quartiles.of(by_name[L1].rounds).middle,
        "rows": rows,
        "l2_to_l1": rows[1]["ratio"]["median"],
        "growth": growth[-1].ratios_to(growth[0]).middle,
        "look_ms": Quartiles.of(look.rounds).middle / 1e3,
        "town_cpu_seconds": town.middle,
        "spread": {"town_cpu_seconds": town.as_dict()},
        "notes": notes,
    }
    if MESA in by_name:
        figures["l1_to_mesa"] = rows[0]["ratio"]["median"]
    if envs:
        figures["environment_growth"] = envs[-1].ratios_to(envs[0]).middle
    return figures
