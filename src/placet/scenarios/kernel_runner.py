"""Runs a stepped scenario by a kernel in the caller's thread, without an event loop.

    views > policies > KernelWorld.step > report

It differs from `ScenarioRunner` only in how a tick is decided; both runs of a scenario have the
same digest. A run that needs actors (a clock that does not wait, effects, metrics) is refused.
"""

import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from functools import cache, partial
from time import perf_counter
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from placet.actors.observation.viewer import Viewer
from placet.kernel.columns.batch import ColumnBatch
from placet.kernel.gate.domain_rules import DomainRules
from placet.runtime.config import OrchestratorConfig
from placet.runtime.kernel_world import KernelWorld, delayed_interrupt
from placet.scenarios.global_random import GlobalRandom
from placet.scenarios.population import Population
from placet.scenarios.report import RunReport
from placet.scenarios.scenario_agent import ScenarioAgent
from placet.scenarios.setup import (
    REGISTERED_TOGETHER,
    RunSetup,
    completed_ticks,
    registration_error,
)
from placet.scenarios.thinking import PoliciesHere, Thinkers, elsewhere
from placet.scenarios.values import ScenarioError
from placet.schemas.errors import PlacetError
from placet.schemas.intent import Intent
from placet.schemas.verdict import Verdict
from placet.schemas.view import View

if TYPE_CHECKING:
    from functools import _lru_cache_wrapper

    from placet.kernel.columns.verdict import ColumnVerdict
    from placet.runtime.telemetry.world_logger import WorldLogger

    _Logger: TypeAlias = _lru_cache_wrapper[WorldLogger]

_WAITS_MAX: Final = 65_536
"""Number of latest ticks of whose decisions the time is kept, for the percentiles."""


class KernelRunner:
    """A run of a scenario, tick by tick; its store is released by `close`, or with the object.

    Args:
        setup: The domain, configuration and policies of the run.
        is_stopped: Called between the registrations of agents; they end where it is true.

    Attributes:
        world: The open world.
        population: The agents with their policies.
        populations: The populations with theirs; None if there are none.
        thinkers: Calls the policies.
        column_verdicts: The column batches of the latest tick, with their verdicts.
        report: The report as far as the run has come: its counts and its ticks.

    Raises:
        ScenarioError: The run needs an event loop, or an agent cannot be registered.
        StoreError: The store cannot be opened, or holds another world.
    """

    def __init__(self, setup: RunSetup, is_stopped: Callable[[], bool] = lambda: False) -> None:
        began = perf_counter()
        self._setup = setup
        self._scenario = scenario = setup.scenario
        self._collector = setup.collector
        reason = reason_for_actors(setup)
        if reason is not None:
            raise ScenarioError(scenario.name, "", f"it needs an event loop: {reason}")
        # Made by the first sentence to log: most runs have none, and the import takes 209 ms.
        self._logger = logger = cache(partial(_logger_of, setup.config))
        self.world = world = KernelWorld(
            setup.domain,
            setup.config,
            on_fault=lambda where, error: logger().fault(where, error),
            on_rule_error=scenario.on_rule_error,
        )
        for sentence in (*world.skipped, *setup.notes, "; ".join(world.kernel.idle_names)):
            if sentence:
                logger().warning(sentence)
        on_workers: list[Thinkers] = []
        self.close = weakref.finalize(self, _close, world, logger, on_workers)
        check = world.kernel.check_intent if setup.checks_intents else None
        policies = setup.policies if setup.workers is None else elsewhere(setup.policies)
        self.population = Population(scenario, policies, check)
        self.populations = setup.populations
        self.column_verdicts: list[tuple[ColumnBatch, ColumnVerdict]] = []
        self._decided: tuple[list[tuple[ScenarioAgent, list[Intent]]], list[Verdict]] = [], []
        self._view = partial(Viewer(world.kernel).view, world.kernel)
        self._global_random = GlobalRandom()
        self._waits_ms: deque[float] = deque(maxlen=_WAITS_MAX)
        self.report = RunReport(scenario, store=world.log.url)
        try:
            self._position(setup)
            self._register(setup, is_stopped)
            self.thinkers = self._open_thinkers(setup)
            on_workers.append(self.thinkers)
            if setup.collector is not None:
                if self.report.resumed_at is not None:
                    setup.collector.continue_from(world.log, world.kernel.declared)
                setup.collector.attach(world.kernel)
        except BaseException:
            self.close()
            raise
        self.report.seconds = perf_counter() - began

    def _open_thinkers(self, setup: RunSetup) -> Thinkers:
        if setup.workers is None:
            return PoliciesHere(self.population, self.populations, self._view)
        from placet.scenarios.workers.opening import open_workers  # noqa: PLC0415  # few runs

        kernel = self.world.kernel
        declared = frozenset(kernel.declared)
        return open_workers(setup, setup.workers, kernel.registry, declared, self.population)

    def _position(self, setup: RunSetup) -> None:
        """Begin at the first tick that the log does not have."""
        world, report = self.world, self.report
        is_continued = bool(world.kernel.history_end[1])
        report.ticks = setup.ticks
        if setup.is_open_ended and is_continued:
            ticks = world.kernel.ledger.tick
            report.ticks = completed_ticks(self._scenario, world.log, ticks)
        report.resumed_at = report.ticks if is_continued or setup.is_resumed else None

    def _register(self, setup: RunSetup, is_stopped: Callable[[], bool]) -> None:
        """Register the populations, then the agents in their order, without the removed ones."""
        kernel, scenario = self.world.kernel, setup.scenario
        self._register_populations()
        for number, member in enumerate(self.population.unregistered(kernel.ledger)):
            if number % REGISTERED_TOGETHER == 0:
                self.world.flush()
                if is_stopped():
                    return
            try:
                kernel.register_agent(
                    member.agent_id, permissions=member.permissions, **member.attributes
                )
            except (PlacetError, TypeError, ValueError) as error:
                raise registration_error(scenario, member, error) from error
        self._refresh()

    def _register_populations(self) -> None:
        populations, kernel = self.populations, self.world.kernel
        if populations is None:
            return
        for name, keywords in populations.unregistered(kernel):
            try:
                kernel.register_population(name, **keywords)
            except (PlacetError, TypeError, ValueError) as error:
                raise populations.error(name, "", f"cannot be registered: {error}") from error

    def _refresh(self) -> None:
        """Take in the agents that were registered and removed since the latest tick."""
        kernel = self.world.kernel
        for member in self.population.refresh(kernel):
            kernel.register_agent(member.agent_id, permissions=member.permissions)
        self.world.flush()

    def tick(self) -> None:
        """Run one tick; it is durable on return.

        Raises:
            PolicyError: A policy raised, or returned no intents; the tick was not begun.
            StoreError: The log cannot be written.
        """
        began = perf_counter()
        report = self.report
        self._global_random.begin(report.ticks)
        self._refresh()
        proposed = self.thinkers.propose(self.world.kernel, report.ticks)
        proposals, columns = proposed.batches, proposed.columns
        report.count_thinking(proposed)
        batches = [batch for _, batch in proposals]
        submitted = perf_counter()
        with delayed_interrupt():
            verdicts = self._decide(proposals, batches, columns)
            if proposals or columns:
                self._waits_ms.append((perf_counter() - submitted) * 1e3)
            self._decided = proposals, verdicts
            warning = self._global_random.end(report.ticks)
            report.count_columns([verdict for _, verdict in self.column_verdicts])
            report.count_tick(batches, verdicts, self._collector)
            report.rule_errors = self.world.kernel.rules.faults
            report.seconds += perf_counter() - began
        if warning:
            self._logger().warning(warning)
        if self._collector is not None:
            self._collector.check()

    def _decide(
        self,
        proposals: list[tuple[ScenarioAgent, list[Intent]]],
        batches: Sequence[Sequence[Intent]],
        columns: Sequence[ColumnBatch],
    ) -> list[Verdict]:
        """Decide the batches of a tick; a batch for other agents is submitted by its own agent.

        Returns:
            The verdicts on `batches`; those on `columns` are kept in `column_verdicts`.
        """
        foreign = [
            place
            for place, (agent, batch) in enumerate(proposals)
            if len(batch) != 1
            or type(batch[0]) is not dict
            or batch[0].get("agent_id") != agent.agent_id
        ]
        entries: list[object] = [*batches]
        refused: dict[int, Verdict] = {}
        for place in foreign:
            agent, batch = proposals[place]
            if not agent.owns(batch):
                entries[place] = checked = self.world.kernel.check(batch, agent.agent_id)
                if isinstance(checked, Verdict):
                    refused[place] = checked
        self.column_verdicts = []
        if not (refused or columns):
            return self.world.step(self._scenario.tick_s, entries)
        sound = [entry for place, entry in enumerate(entries) if place not in refused]
        decided = self._step([*sound, *columns], columns)
        of_columns = cast("list[ColumnVerdict]", decided[len(sound) :])
        self.column_verdicts = list(zip(columns, of_columns, strict=True))
        verdicts = iter(decided)
        return [refused.get(place) or next(verdicts) for place in range(len(entries))]

    def _step(self, entries: list[object], columns: Sequence[ColumnBatch]) -> list[Verdict]:
        try:
            return self.world.step(self._scenario.tick_s, entries)
        except ValueError:
            if self.populations is not None:
                self.populations.require_form(self.world.kernel, columns)
            raise

    @property
    def rules(self) -> DomainRules:
        """The domain stage of the kernel."""
        return self.world.kernel.rules

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """The verdict of each agent that proposed something in the latest tick."""
        return {agent.agent_id: verdict for (agent, _), verdict in zip(*self._decided, strict=True)}

    def view(self, agent_id: str) -> View:
        """Return the view that the policy of an agent would be called with now."""
        return self._view(agent_id)

    @property
    def has_ended(self) -> bool:
        """Whether the condition of the scenario ends the run here.

        Raises:
            ScenarioError: The condition raised, or returned no bool.
        """
        return self._setup.has_ended(self.report.ticks, self.world.kernel.state)

    def result(self) -> RunReport:
        """Return the report of the ticks that were run here, complete; a copy. O(agents)."""
        report, kernel = self.report, self.world.kernel
        return replace(
            report,
            has_ended=self.has_ended,
            sim_time=kernel.sim_time,
            refusals=report.refusals.copy(),
            examples=report.examples.copy(),
            fairness=deepcopy(report.fairness),
            seq=kernel.seq,
            digest=kernel.digest(),
            head=self.world.head,
            verdict_ms=_percentiles(self._waits_ms),
            time={"clock": self._scenario.clock},
            silent=report.silent_of(self.population.agents),
        )


def reason_for_actors(setup: RunSetup) -> str | None:
    """Return the reason why a run needs an `Orchestrator`; None if it needs none."""
    if setup.scenario.clock != "stepped":
        return f"clock {setup.scenario.clock!r} does not wait for the agents; use `placet run`"
    if setup.config.metrics_port is not None:
        return "metrics are served while it runs"
    emitting = {kind.name: kind.effects for kind in setup.domain.kinds if kind.effects}
    if emitting:
        kind, effects = next(iter(emitting.items()))
        return (
            f"kind {kind!r} of the domain {setup.domain.name!r} emits effects "
            f"({', '.join(effects)}), which need executors; use an Orchestrator, or a scenario "
            "file with `placet run`"
        )
    return None


def _close(world: KernelWorld, logger: "_Logger", thinkers: list[Thinkers]) -> None:
    try:
        for each in thinkers:
            each.close()
        world.close()
    finally:
        if logger.cache_info().currsize:
            with suppress(ValueError):  # the program has closed the stream of its log lines
                logger().end()


def _logger_of(config: OrchestratorConfig) -> "WorldLogger":
    from placet.runtime.telemetry.world_logger import WorldLogger  # noqa: PLC0415  # 209 ms

    return WorldLogger(config.log_format, config.log_level, config.world)


def _percentiles(waits_ms: Iterable[float]) -> dict[str, float | None]:
    """Return the `p50` and `p99` of waits in milliseconds; None without waits."""
    waits = sorted(waits_ms)
    return {
        name: round(waits[min(int(len(waits) * share), len(waits) - 1)], 3) if waits else None
        for name, share in (("p50", 0.5), ("p99", 0.99))
    }
