"""Runs a scenario by the cheapest engine that it permits: a kernel, or the actors of a world.

The engines share the setup, the agents, the policies and the report, and a stepped run has one
digest by both.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial

from placet.kernel.state.tree import WorldState
from placet.runtime.orchestrator import Orchestrator
from placet.scenarios.end_note import note_end
from placet.scenarios.kernel_runner import KernelRunner, reason_for_actors
from placet.scenarios.report import RunReport
from placet.scenarios.runner import ScenarioRunner
from placet.scenarios.scenario import Scenario
from placet.scenarios.setup import RunSetup, prepare
from placet.scenarios.thinking import Workers
from placet.scenarios.values import ScenarioError
from placet.schemas.errors import AgentError, StoreError, describe_error
from placet.stores.snapshots.writer import EVERY_SEQS
from placet.tables.collector import Collector
from placet.tables.parts import CollectError


class RuleError(ScenarioError):
    """A rule or a hook of the domain raised; its tick left no record. The cause is its exception.

    Attributes:
        where: The call that raised, such as `rule of Move`.
    """

    def __init__(self, source: str, key: str, problem: str, where: str) -> None:
        super().__init__(source, key, problem)
        self.where = where


@dataclass(frozen=True, slots=True)
class OpenRun:
    """A run in progress.

    Attributes:
        report: The report as far as the run has come.
        state: Returns the live state of the world, which may be read between two ticks.
        change_agent: Suspends or resumes an agent (`suspended`, `resumed`) before the next tick;
            `is_stopped` may call it. It raises AgentError if there is no such agent.
        metrics_url: URL of the metrics; None if none are served.
    """

    report: RunReport
    state: Callable[[], WorldState]
    change_agent: Callable[[str, str], None]
    metrics_url: str | None = None


def run_scenario(
    scenario: Scenario,
    *,
    store: str = "memory://",
    is_resumed: bool = False,
    world: str | None = None,
    metrics_port: int | None = None,
    snapshot_every_seqs: int | None = EVERY_SEQS,
    compact_log: bool = False,
    collector: Collector | None = None,
    workers: Workers | None = None,
    on_open: Callable[[OpenRun], None] = lambda _: None,
    on_tick: Callable[[int], None] = lambda _: None,
    on_end: Callable[[], None] = lambda: None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> RunReport:
    """Run a scenario to its end, and return its report; the log is closed then.

    Args:
        scenario: The scenario.
        store: Where the log is written.
        is_resumed: The store holds a run of this very scenario, which is resumed.
        world: Name of the world; None is the scenario's name.
        metrics_port: As in `OrchestratorConfig`.
        snapshot_every_seqs: As in `OrchestratorConfig`.
        compact_log: As in `OrchestratorConfig`.
        collector: Collects rows at the ticks, and is closed at the end; None collects nothing.
        workers: The processes that call the policies; None calls them in this one.
        on_open: Called with the open run, before the first tick.
        on_tick: Called with the number of completed ticks.
        on_end: Called after the last tick, while the run is still open.
        is_stopped: Called before every tick; a started tick is always completed.

    Raises:
        CollectError: Rows cannot be collected or written; the ticks so far are in the log.
        RuleError: A rule or a hook of the domain raised; the ticks before are in the log.
        ScenarioError: The scenario cannot run, an agent cannot be registered, or a policy failed.
        StoreError: The log cannot be written.
    """
    setup = prepare(
        scenario,
        store=store,
        is_resumed=is_resumed,
        world=world,
        metrics_port=metrics_port,
        snapshot_every_seqs=snapshot_every_seqs,
        compact_log=compact_log,
        collector=collector,
        workers=workers,
    )
    if collector is None:
        return _noted(_run(setup, on_open, on_tick, on_end, is_stopped), store)
    collector.begin()
    try:
        report = _run(setup, on_open, on_tick, on_end, is_stopped)
    except BaseException:
        with suppress(CollectError):  # the rows so far are kept, and the first error is raised
            collector.close()
        raise
    collector.close()
    return _noted(report, store)


def _noted(report: RunReport, store: str) -> RunReport:
    """Note beside the log of a closed run that the condition of its scenario ended it."""
    if report.has_ended and report.scenario.until is not None:
        note_end(store, report.ticks, report.scenario.until)
    return report


def _run(
    setup: RunSetup,
    on_open: Callable[[OpenRun], None],
    on_tick: Callable[[int], None],
    on_end: Callable[[], None],
    is_stopped: Callable[[], bool],
) -> RunReport:
    if reason_for_actors(setup) is None:
        with closing(KernelRunner(setup, is_stopped)) as by_kernel, _rule_errors(by_kernel):

            def change_now(agent_id: str, change: str) -> None:
                by_kernel.world.kernel.change_agent(agent_id, change)
                by_kernel.world.flush()

            on_open(OpenRun(by_kernel.report, lambda: by_kernel.world.kernel.state, change_now))
            ticks = setup.scenario.ticks
            while by_kernel.report.ticks < ticks and not by_kernel.has_ended:
                if is_stopped():
                    break
                by_kernel.tick()
                on_tick(by_kernel.report.ticks)
            on_end()
            report = by_kernel.result()
            report.is_stopped = not report.has_ended and report.ticks < ticks
            return report

    def opened(world: Orchestrator) -> None:
        def change_agent(agent_id: str, change: str) -> None:
            if not world.query_nowait(lambda kernel: agent_id in kernel.ledger.agents):
                raise AgentError(f"agent {agent_id!r} is not registered; nothing was changed")
            runner.change_agent(agent_id, change)

        state = partial(world.query_nowait, lambda kernel: kernel.state)
        on_open(OpenRun(runner.report, state, change_agent, world.metrics_url))

    runner = ScenarioRunner(
        setup, on_open=opened, on_tick=on_tick, on_end=on_end, is_stopped=is_stopped
    )
    with _rule_errors(runner):
        return asyncio.run(runner.run())


@contextmanager
def _rule_errors(runner: KernelRunner | ScenarioRunner) -> Iterator[None]:
    """Convert the exception of a rule or a hook that ends the run to a `RuleError`.

    The kernel raises the exception itself. In the actors it ends the orchestrator, which reports a
    failure of its store: the records of the tick are not written.
    """
    try:
        yield
    except BaseException as error:
        fault = None if runner.rules is None else runner.rules.raised
        if fault is None or not (error is fault.error or isinstance(error, StoreError)):
            raise
        scenario, ticks = runner.report.scenario, runner.report.ticks
        place = f" ({fault.place})" if fault.place else ""
        problem = (
            f"the {fault.where} raised {describe_error(fault.error)} in tick {ticks + 1} "
            f"({ticks * scenario.tick_s:g} s){place}; the tick left no record: mend the domain and "
            'resume the run, or set on_rule_error = "refuse"'
        )
        raise RuleError(scenario.name, "domain", problem, fault.where) from fault.error
