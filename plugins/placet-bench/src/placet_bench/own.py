"""The cost of a model of the user: the ticks of a scenario, or batches of a domain.

It is measured in turns with `Kernel.step` of the domain `world`, so the ratio of the two can be
compared between machines and hours; the CPU time of an act cannot.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Final

from placet.kernel import Kernel, KernelConfig
from placet.kernel.plugin.domain import Domain
from placet.scenarios import Scenario
from placet.scenarios.simulation import Simulation
from placet.schemas.codec import Json
from placet.schemas.errors import PlacetError
from placet.schemas.intent import SCHEMA_VERSION
from placet.stores.gc_tuning import tuned_gc
from placet_bench.step import STEPS_PER_TURN, Costs, measured, row_of
from placet_bench.stepping import Batches, KernelStep, Stepper

YARDSTICK: Final = "Kernel.step of the domain world"
_ACTS_PER_TURN: Final = 1_000
"""Least number of acts in a turn, so that a turn of few agents is more than noise."""


class ScenarioStep(Stepper):
    """The ticks of a scenario on a `Simulation`, in memory; a finished run is begun anew, untimed.

    Args:
        scenario: The scenario; its clock is `stepped`.
    """

    def __init__(self, scenario: Scenario) -> None:
        members = sum(population.count for population in scenario.populations.values())
        super().__init__(f"{scenario.name}: a tick", scenario.agents_count + members)
        self._scenario = scenario
        self._simulation = Simulation(scenario)
        self.submitted = self.admitted = self.ticks = 0
        self.thinking_s = 0.0

    async def __aexit__(self, *error: object) -> None:
        self._end()

    async def prepare(self) -> None:
        """Begin the next run if the last has ended."""
        run = self._simulation
        if run.tick >= self._scenario.ticks or (self._scenario.until and run.report.has_ended):
            self._end()
            self._simulation = Simulation(self._scenario)

    async def step(self, inputs: None) -> None:
        """Run a tick: policies, decisions, log."""
        self._simulation.step()

    def _end(self) -> None:
        report = self._simulation.report
        self.submitted += report.submitted
        self.admitted += report.admitted
        self.ticks += report.ticks
        self.thinking_s += report.thinking_s
        self._simulation.close()

    @property
    def thinking_us(self) -> float:
        """CPU time of the policies of agents for an act, microseconds; after the last tick."""
        return self.thinking_s * 1e6 / max(1, self.ticks * self.agents)


class DomainStep(Stepper):
    """Batches of the same intents by every agent of a domain, through `Kernel.step`.

    Args:
        domain: The domain.
        agents: Number of agents.
        intents: Kind and payload of the intents of a batch, in order.
        attributes: Keywords of the registration of every agent.

    Raises:
        PlacetError: An agent cannot be registered.
    """

    def __init__(
        self,
        domain: Domain,
        agents: int,
        intents: Sequence[tuple[str, Json]],
        attributes: Mapping[str, Json],
    ) -> None:
        super().__init__(f"{domain.name}: batches of {len(intents)}", agents * len(intents))
        self._intents = intents
        self._kernel = Kernel(domain, KernelConfig(seed=1))
        self._names = [f"agent_{number}" for number in range(agents)]
        for name in self._names:
            self._kernel.register_agent(name, **attributes)
        self._tick = self.submitted = self.admitted = 0
        self.refusals: set[str] = set()

    async def prepare(self) -> Batches:
        """Return a batch for each agent."""
        self._tick += 1
        seq = self._kernel.seq
        return [
            [
                {
                    "kind": kind,
                    "payload": payload,
                    "agent_id": name,
                    "req_id": f"bench:{self._tick * len(self._intents) + number}",
                    "context_seq": seq,
                    "priority": 10,
                    "schema_version": SCHEMA_VERSION,
                }
                for number, (kind, payload) in enumerate(self._intents)
            ]
            for name in self._names
        ]

    async def step(self, inputs: Batches) -> None:
        """Decide the batches, and read every verdict."""
        for batch, verdict in zip(inputs, self._kernel.step(1.0, inputs), strict=True):
            self.submitted += len(batch)
            self.admitted += len(batch) * verdict.admitted
            if verdict.refusals:
                first = verdict.refusals[0]
                self.refusals.add(f"{first.stage}/{first.code}: {first.message}")


def own_figures(stepper: ScenarioStep | DomainStep, seconds: float) -> dict[str, Json]:
    """Measure a model in turns with the yardstick.

    Args:
        stepper: The model.
        seconds: CPU seconds of each of the two.

    Raises:
        PlacetError: The model has no agents, or a policy or a rule of it raised.
    """
    if not stepper.agents:
        raise PlacetError("there are no agents to measure; give a number from 1 on: --agents 100")
    yardstick = KernelStep(YARDSTICK, max(1, min(stepper.agents, _ACTS_PER_TURN)))
    acts = max(_ACTS_PER_TURN, STEPS_PER_TURN * stepper.agents)
    with tuned_gc():
        own, other = asyncio.run(measured([stepper, yardstick], acts, seconds))
    return {
        "intents_per_second": _rate(stepper, own),
        "rows": [row_of(own, other), row_of(other)],
        "admitted_share": stepper.admitted / stepper.submitted if stepper.submitted else None,
        "notes": list(_notes(stepper, own)),
    }


def _rate(stepper: ScenarioStep | DomainStep, own: Costs) -> float | None:
    """Return the submitted intents per second of CPU time."""
    if not stepper.submitted:
        return None
    acts = stepper.ticks * stepper.agents if isinstance(stepper, ScenarioStep) else None
    an_act = 1.0 if acts is None else stepper.submitted / acts
    return an_act * 1e6 / median(own.rounds)


def _notes(stepper: ScenarioStep | DomainStep, own: Costs) -> Iterator[str]:
    yield "CPU time of an act: median of the turns and quartiles; intents/s by CPU time"
    if isinstance(stepper, ScenarioStep) and stepper.thinking_s:
        whole = median(own.rounds)
        yield (
            f"the policies of agents and their views take {stepper.thinking_us:.1f} us of the "
            f"{whole:.1f} us of an act; the rest is placet and the rules"
        )
    if not stepper.submitted:
        yield "no agent proposed anything"
    elif stepper.admitted < stepper.submitted:
        refused = stepper.submitted - stepper.admitted
        yield f"{refused:,} of {stepper.submitted:,} intents were refused"
    if isinstance(stepper, DomainStep):
        yield from (f"refused, {text}" for text in sorted(stepper.refusals)[:3])
