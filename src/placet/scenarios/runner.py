"""Runs a scenario: once per tick every agent reads its view and submits; then time takes one step.

With `clock = "stepped"`, all agents of a tick read the same state, and all batches are submitted
before the step. So the order of calls gives no advantage, and a tick costs as much as the reads of
its agents. A run is a function of the scenario alone: the same seed gives the same digest in every
store. A tick is one group of the log, so a killed run resumes at the first tick missing from the
log and ends as it would have: intents and req_ids are functions of the tick.

With other clocks time does not wait: each agent acts once per tick in a separate task, and the
outcome depends on timing.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from functools import partial
from itertools import islice
from time import perf_counter, thread_time
from typing import TYPE_CHECKING

from placet.kernel.columns.batch import ColumnBatch
from placet.kernel.gate.domain_rules import DomainRules
from placet.kernel.kernel import Kernel
from placet.runtime.agent_handle import AgentHandle
from placet.runtime.orchestrator import Orchestrator
from placet.scenarios.population import Population
from placet.scenarios.report import RunReport
from placet.scenarios.scenario_agent import ScenarioAgent, propose_all
from placet.scenarios.setup import REGISTERED_TOGETHER, RunSetup, registration_error
from placet.scenarios.thinking import TickProposals, elsewhere
from placet.scenarios.ticks import ticks_at, unstepped_ticks
from placet.scenarios.values import Member
from placet.schemas.config import OnRuleError
from placet.schemas.errors import PermissionDeniedError, PlacetError

if TYPE_CHECKING:
    from placet.kernel.columns.verdict import ColumnVerdict
    from placet.scenarios.workers.pool import WorkerThinkers


class ScenarioRunner:
    """Runs the actors of one world through a scenario.

    Args:
        setup: The domain, configuration and policies of the run.
        on_open: Called with the open world, before the first tick.
        on_tick: Called with the number of completed ticks.
        on_end: Called after the last tick, while the world is still open.
        is_stopped: Called before every tick; a started tick is always completed.

    Attributes:
        report: The report as far as the run has come; `run` returns it complete.
        rules: The domain stage of the world's kernel; None before `run` has opened it.
    """

    def __init__(
        self,
        setup: RunSetup,
        *,
        on_open: Callable[[Orchestrator], None] = lambda _: None,
        on_tick: Callable[[int], None] = lambda _: None,
        on_end: Callable[[], None] = lambda: None,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self.report = RunReport(setup.scenario)
        self.rules: DomainRules | None = None
        self._setup = setup
        self._scenario = setup.scenario
        self._collector = setup.collector
        self._is_resumed = setup.is_resumed
        self._on_open = on_open
        self._on_tick = on_tick
        self._on_end = on_end
        self._is_stopped = is_stopped
        self._population: Population
        self._handles: dict[str, AgentHandle] = {}
        self._changes: deque[tuple[str, str]] = deque()
        self._acts = 0
        self._ticks_started = 0
        self._tasks: dict[asyncio.Task[None], ScenarioAgent] = {}
        self._entry = asyncio.Lock()
        self._workers: WorkerThinkers | None = None

    def change_agent(self, agent_id: str, change: str) -> None:
        """Suspend or resume an agent (`suspended`, `resumed`) before the next tick.

        `is_stopped` may call it, which a run waits for as long as an operator pauses it.
        """
        self._changes.append((agent_id, change))

    async def run(self) -> RunReport:
        """Run the scenario to its end; the log is closed when this returns.

        Raises:
            ScenarioError: An agent cannot be registered, or a policy raised.
            StoreError: The log cannot be written, or the domain raised (`rules.raised`).
        """
        report, scenario, setup = self.report, self._scenario, self._setup
        started = perf_counter()
        report.ticks = setup.ticks
        async with Orchestrator(setup.domain, setup.config) as world:
            self._on_open(world)
            self.rules = rules = await world.query(partial(_rules_of, scenario.on_rule_error))
            if self._is_resumed and scenario.clock != "stepped":
                ticks = await world.query(lambda kernel: unstepped_ticks(scenario, kernel.ledger))
                report.ticks = min(ticks, scenario.ticks)
            report.resumed_at = report.ticks if self._is_resumed else None
            await self._register(world)
            if self._collector is not None:
                await world.query(self._collector.attach)
            with await self._opened_workers(world):
                await self._run_ticks(world)
            self._on_end()
            report.rule_errors = rules.faults
            report.is_stopped = not report.has_ended and report.ticks < scenario.ticks
            report.silent = report.silent_of(self._population.agents)
            report.seconds = perf_counter() - started
            report.sim_time, report.seq = world.sim_time, world.seq
            report.digest = await world.digest()
            statistics = world.statistics()
            report.verdict_ms, report.store = dict(statistics["verdict_ms"]), statistics["store"]
            report.time, report.head = statistics["time"], statistics["head"]
        return report

    async def _opened_workers(self, world: Orchestrator) -> AbstractContextManager[object]:
        """Start the workers of the run; return a context that ends them."""
        setup = self._setup
        if setup.workers is None:
            return nullcontext()
        from placet.scenarios.workers.opening import open_workers  # noqa: PLC0415  # few runs

        declared = await world.query(lambda kernel: (kernel.registry, frozenset(kernel.declared)))
        self._workers = await asyncio.to_thread(
            open_workers, setup, setup.workers, *declared, self._population
        )
        return closing(self._workers)

    async def _run_ticks(self, world: Orchestrator) -> None:
        report, scenario = self.report, self._scenario
        if scenario.clock != "stepped":
            await self._run_unstepped(world)
            return
        while not await self._has_ended(world) and report.ticks < scenario.ticks:
            if self._is_stopped():
                return
            await self._change_agents(world)
            await self._tick(world)
            self._on_tick(report.ticks)

    async def _has_ended(self, world: Orchestrator) -> bool:
        report, setup = self.report, self._setup
        if setup.ends is None:
            return False
        report.has_ended = await world.query(lambda k: setup.has_ended(report.ticks, k.state))
        return report.has_ended

    async def _register(self, world: Orchestrator) -> None:
        """Register the agents of the scenario in their order, many in one durable write.

        Removed agents are skipped, such as agents dropped by a fork.
        """
        await self._register_populations(world)
        setup = self._setup
        policies = setup.policies if setup.workers is None else elsewhere(setup.policies)
        self._population = population = Population(self._scenario, policies)
        members = iter(await world.query(lambda kernel: population.unregistered(kernel.ledger)))
        while chunk := list(islice(members, REGISTERED_TOGETHER)):
            if self._is_stopped():
                return
            handles = await asyncio.gather(*(self._register_one(world, m) for m in chunk))
            self._handles.update((handle.agent_id, handle) for handle in handles)
        await self._refresh(world)

    async def _register_populations(self, world: Orchestrator) -> None:
        populations = self._setup.populations
        if populations is None:
            return
        for name, keywords in await world.query(lambda k: list(populations.unregistered(k))):
            try:
                await world.register_population(name, **keywords)
            except (PlacetError, TypeError, ValueError) as error:
                raise populations.error(name, "", f"cannot be registered: {error}") from error

    async def _refresh(self, world: Orchestrator) -> list[ScenarioAgent]:
        """Take in registered and removed agents; return the agents that are alive."""
        population = self._population
        for member in await world.query(population.refresh):
            permissions = member.permissions
            handle = await world.register_agent(member.agent_id, permissions=permissions)
            self._handles[member.agent_id] = handle
        return await world.query(population.acting)

    async def _register_one(self, world: Orchestrator, member: Member) -> AgentHandle:
        try:
            return await world.register_agent(
                member.agent_id, permissions=member.permissions, **member.attributes
            )
        except (PlacetError, TypeError) as error:
            raise registration_error(self._scenario, member, error) from error

    async def _change_agents(self, world: Orchestrator) -> None:
        while self._changes:
            agent_id, change = self._changes.popleft()
            if change == "suspended":
                await world.suspend_agent(agent_id)
            else:
                await world.resume_agent(agent_id)

    async def _tick(self, world: Orchestrator) -> None:
        agents = await self._refresh(world)
        proposed = await self._propose(world, agents)
        proposals, columns = proposed.batches, proposed.columns
        self.report.count_thinking(proposed)
        pending = [self._handles[agent.agent_id].submit_nowait(batch) for agent, batch in proposals]
        held = await self._submit_columns(world, columns)
        await world.step(self._scenario.tick_s)
        batches = [batch for _, batch in proposals]
        verdicts = [await verdict for verdict in pending]
        self.report.count_columns([await verdict for verdict in held])
        self.report.count_tick(batches, verdicts, self._collector)
        if self._collector is not None:
            self._collector.check()

    async def _propose(self, world: Orchestrator, agents: list[ScenarioAgent]) -> TickProposals:
        report, populations, workers = self.report, self._setup.populations, self._workers
        if workers is not None:
            await world.query(lambda kernel: workers.begin(kernel, report.ticks))
            # In a thread: executors of effects continue meanwhile.
            return await asyncio.to_thread(workers.finish)
        views = await world.views_for([agent.agent_id for agent in agents])
        began = thread_time()
        batches = propose_all(agents, views, report.ticks)
        thinking_s = thread_time() - began
        columns = [] if populations is None else await world.query(populations.batches)
        return TickProposals(batches, columns, len(agents), thinking_s)

    async def _submit_columns(
        self, world: Orchestrator, columns: Sequence[ColumnBatch]
    ) -> "list[asyncio.Task[ColumnVerdict]]":
        """Submit column batches for the next step, in their order.

        Raises:
            PolicyError: The form of one is wrong.
        """
        held = [asyncio.create_task(world.submit(batch)) for batch in columns]
        await asyncio.sleep(0)  # each task runs to its first await: its batch is held by then
        for task in held:
            if task.done() and isinstance(task.exception(), ValueError):
                assert self._setup.populations is not None, "batches are of populations"
                check = partial(self._setup.populations.require_form, batches=columns)
                for other in held:
                    other.cancel()
                await asyncio.gather(*held, return_exceptions=True)
                await world.query(check)
        return held

    async def _run_unstepped(self, world: Orchestrator) -> None:
        """Run every agent in a separate task, once per tick of a clock that does not wait.

        Agents that are born meanwhile get a task at the next act of another agent.
        """
        report, scenario = self.report, self._scenario
        self._began, self._first = world.sim_time, report.ticks
        if self._is_resumed and report.ticks > ticks_at(scenario, self._began):
            self._began += scenario.tick_s  # every agent acted in the last tick of the log
        await self._take_in(world, report.ticks)
        try:
            while self._tasks:
                done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    del self._tasks[task]
                    task.result()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        while self._ticks_started == scenario.ticks and report.ticks < scenario.ticks:
            self._end_tick()  # the deaths of a tick leave its count of acts short

    async def _take_in(self, world: Orchestrator, number: int) -> None:
        """Begin to act for the agents that have no task, from a tick on."""
        async with self._entry:  # another task may be registering the ones just born
            agents = await self._refresh(world)
            acting = set(self._tasks.values())
            for agent in agents:
                if agent not in acting:
                    self._tasks[asyncio.create_task(self._act(world, agent, number))] = agent

    async def _act(self, world: Orchestrator, agent: ScenarioAgent, first: int) -> None:
        """Act at each remaining tick; an agent that is late for a tick acts at once."""
        report, scenario, population = self.report, self._scenario, self._population
        handle = self._handles[agent.agent_id]
        for number in range(first, scenario.ticks):
            await handle.sleep_until(self._began + (number - self._first) * scenario.tick_s)
            if not self._may_begin(number):
                return
            await self._change_agents(world)
            if not world.query_nowait(population.is_current):
                await self._take_in(world, number + 1)
            if not world.query_nowait(lambda kernel: population.is_alive(kernel, agent)):
                return
            try:
                view = await handle.refresh_view()
            except PermissionDeniedError:  # removed since the line before
                return
            if batch := agent.propose(view, number):
                verdict = await handle.submit(batch)
                report.count(batch, verdict)
                report.count_acts(agent.cohort, batch, verdict)
            self._acts += 1
            if self._acts >= len(population.agents):  # one tick's worth of acts
                self._end_tick()

    def _end_tick(self) -> None:
        self._acts = 0
        self.report.ticks += 1
        self.report.fairness.begin_group()
        self._on_tick(self.report.ticks)

    def _may_begin(self, number: int) -> bool:
        """Return whether a tick is run: by all agents, if the first of them was not stopped."""
        if number >= self._ticks_started:
            if self._is_stopped():
                return False
            self._ticks_started = number + 1
        return True


def _rules_of(on_rule_error: OnRuleError, kernel: Kernel) -> DomainRules:
    """Return the domain stage of a kernel, once it raises exceptions where a run wants them."""
    kernel.rules.raises_faults = on_rule_error == "raise"
    return kernel.rules
