"""`Simulation`: a world of agents that a program runs tick by tick, without an event loop.

    from placet import Simulation
    from placet.domains.world import World

    def walk(view, intent):
        x, y, z = view.state["world.agents"][view.agent_id]["position"]
        return [intent("Move", to=[x + 1, y])]

    simulation = Simulation(World(bounds=[[0, 0], [9, 9]]), agents={"folk": (50, walk)}, seed=1)
    print(simulation.run(ticks=100))

In a tick all agents see the same state, each policy proposes a batch, and the kernel decides the
batches in a fair order. A tick is written to the log as a whole, so a run that is killed continues
at the first tick that its log does not have, and ends as it would have.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self, TypeAlias

from placet.kernel.kernel import Kernel
from placet.kernel.plugin.domain import Domain, require_attributes
from placet.kernel.state.tree import WorldState
from placet.runtime.recorded_world import recorded_world
from placet.scenarios.differences import differences_of_run, differences_of_scenario
from placet.scenarios.end_note import note_end
from placet.scenarios.ending import EndCondition, end_condition_of, name_of_condition
from placet.scenarios.failure_note import note_failure
from placet.scenarios.kernel_runner import KernelRunner
from placet.scenarios.opening import require_kinds_of
from placet.scenarios.policies import (
    AnyPolicy,
    PolicyFactory,
    column_policy,
    factory_of,
    name_of,
)
from placet.scenarios.report import RunReport
from placet.scenarios.scenario import Scenario, build_scenario, from_text
from placet.scenarios.setup import RunSetup, config_of, populations_of, prepare
from placet.scenarios.thinking import Workers
from placet.scenarios.ticks import require_time_for
from placet.scenarios.values import ScenarioError
from placet.schemas.codec import Json, without_numpy
from placet.schemas.config import OnRuleError
from placet.schemas.errors import AgentError
from placet.schemas.keywords import explain_keywords
from placet.schemas.name_suggestions import did_you_mean
from placet.schemas.verdict import Verdict
from placet.schemas.view import View
from placet.stores.snapshots.writer import EVERY_SEQS
from placet.stores.url import open_event_log
from placet.tables.collector import Collector

if TYPE_CHECKING:
    from placet.kernel.columns.population import PopulationHandle
    from placet.kernel.columns.verdict import ColumnVerdict

PopulationSpec: TypeAlias = "tuple[int, str, Callable[..., Any] | str] | Mapping[str, Any]"
"""Count, table and policy of a population, or the keys of a population in a scenario file."""

Cohort: TypeAlias = "tuple[int, AnyPolicy] | Mapping[str, Any]"
"""Agents with the same policy: `(count, policy)`, or the keys of a cohort in a scenario file."""

_MEMORY: Final = "memory://"
_POPULATION: Final = ("count", "table", "policy")
_COHORT_FORM: Final = 'expected (count, policy) or {"count": ..., "policy": ...}'


@explain_keywords
class Simulation:
    """A world of agents with policies, run tick by tick in the caller's thread.

        def walk(view, intent):
            x, y, _ = view.state["world.agents"][view.agent_id]["position"]
            return [intent("Move", to=[x + 1, y])]

        simulation = Simulation(World(bounds=[[0, 0], [9, 9]]), {"folk": (50, walk)}, seed=1)
        print(simulation.run(ticks=12).refusals)  # 150 steps beyond the bounds
        print(simulation.state["world.agents"]["folk_7"]["position"])

    In a tick all policies see the state before it; their batches are decided in a fair order.

    Use it as a context manager where a store must be released at a certain point; otherwise the
    store is released with the object.

    Args:
        domain: The domain; or a scenario, which names domain and agents: `Scenario.load("town")`.
        agents: By name of a cohort, `(count, policy)`: its agents are `<cohort>_1`, `<cohort>_2`...
            A policy is a function of `(view)` or `(view, intent)`, a class made with `(member,
            scenario, intent)`, or the name of one. A mapping with the keys of a cohort in a
            scenario file gives them positions (`area`), `attributes`, `permissions`, `options`.
        seed: Seed of ties, of random draws and of positions; None is 0, or that of the scenario.
        store: Store of the log, as in `OrchestratorConfig`; None is memory. The run in it is
            continued.
        tick_s: Simulated seconds of a tick; None is 1, or as in the scenario.
        until: Ends the run after the first tick at which this is true: a function of the state
            that returns a bool, such as `lambda state: not state["flu.ill"]`, or
            `module:function`. None: after the last tick, or as in the scenario. Not recorded in
            the log of a domain and agents, so a continued run may have another one.
        quotas: As in `OrchestratorConfig`; None is none, or those of the scenario.
        staleness_threshold: As in `OrchestratorConfig`; None is off, or as in the scenario.
        check: Check each intent as a policy builds it, so that a mistake in its kind or payload is
            an error at its line, and no refusal. It costs another structure stage.
        on_rule_error: `raise` the exception of a rule or a hook, whose tick is undone as a whole;
            or `refuse` its batch as `rule_error` and continue; `report.rule_errors` counts. None
            is `raise`, or that of the scenario.
        name: Name of the world; None is `simulation`, or that of the scenario.
        snapshot_every_seqs: As in `OrchestratorConfig`.
        compact_log: As in `OrchestratorConfig`.
        collector: Collects rows at the ticks; its owner closes it. Of a run that is continued, it
            begins with the ticks in the log.
        populations: By name, `(count, table, policy)`: like agents `<name>:0`, `<name>:1`, ...
            whose fields are columns of a table. A policy is a function of a `PopulationView`,
            which returns payload arrays by kind. A mapping with the keys of a population in a
            scenario file gives them `permissions`, `quotas`, `options` and initial `columns`,
            each a constant or an array.
        workers: Number of processes that call the policies, or `Workers`; None calls them here.
            Digest and log are the same. Policies and the domain are then of a module.
        anyway: Continue the run of the store though its agents, settings, quotas or ticks differ
            from these; the log's next records are made by these. Not for a scenario.

    Raises:
        DomainError: The domain lacks an attribute, such as its name.
        ScenarioError: An argument is invalid, an agent cannot be registered, or the domain has
            effects, which need an `Orchestrator`; or the store holds a run that differs.
        StoreError: The store cannot be opened, or holds another world.
    """

    def __init__(
        self,
        domain: Domain | Scenario,
        agents: Mapping[str, Cohort] | None = None,
        *,
        seed: int | None = None,
        store: str | None = None,
        tick_s: float | None = None,
        until: EndCondition | str | None = None,
        quotas: Mapping[str, Mapping[str, float]] | None = None,
        staleness_threshold: int | None = None,
        check: bool = False,
        on_rule_error: OnRuleError | None = None,
        name: str | None = None,
        snapshot_every_seqs: int | None = EVERY_SEQS,
        compact_log: bool = False,
        collector: Collector | None = None,
        anyway: bool = False,
        populations: Mapping[str, PopulationSpec] | None = None,
        workers: Workers | int | None = None,
    ) -> None:
        options = {
            "name": name,
            "seed": seed,
            "tick_s": tick_s,
            "quotas": quotas,
            "staleness_threshold": staleness_threshold,
            "on_rule_error": on_rule_error,
            "until": name_of_condition(name, until, is_recorded=isinstance(domain, Scenario)),
        }
        changed = {key: value for key, value in options.items() if value is not None}
        if isinstance(domain, Scenario):
            if populations is not None:
                problem = "a scenario has its own populations; change them with `replace`"
                raise ScenarioError(domain.name, "populations", problem)
            if anyway:
                problem = "only a run of a domain and agents continues a run that differs"
                raise ScenarioError(domain.name, "anyway", problem)
            setup = _setup_of_scenario(domain, agents, changed, store or _MEMORY)
        else:
            setup = _setup_of_domain(
                domain, agents or {}, changed, store or _MEMORY, populations or {}
            )
            setup = _continued(setup, anyway=anyway)
            setup = replace(setup, ends=end_condition_of(setup.scenario, until))
        config = replace(
            setup.config, snapshot_every_seqs=snapshot_every_seqs, compact_log=compact_log
        )
        self._scenario = setup.scenario
        self._is_open_ended = setup.is_open_ended
        called_by = Workers.of(workers)
        if check and called_by is not None:
            problem = "it needs the kernel, which workers do not have; leave out check or workers"
            raise ScenarioError(setup.scenario.name, "check", problem)
        setup = replace(
            setup, config=config, collector=collector, checks_intents=check, workers=called_by
        )
        self._runner = KernelRunner(setup)
        self._goal = 0
        self._ended_at: int | None = None

    # running

    def run(
        self,
        ticks: int | None = None,
        *,
        on_tick: Callable[[int], None] = lambda _: None,
    ) -> RunReport:
        """Run a number of ticks, and return the report of all ticks that this object has run.

        A run with `until` ends earlier, after the first tick at which that is true.
        Ticks that the log of an earlier process has count: a program that was killed in
        `run(ticks=100)` ends at tick 100 when it is started again.

        Args:
            ticks: Number of ticks; None is that of the scenario.
            on_tick: Called with the number of completed ticks, after each tick.

        Raises:
            PolicyError: A policy raised, or returned no intents; the tick was not begun.
            StoreError: The log cannot be written.
            ValueError: `ticks` is negative, or simulated time ends before.
        """
        if ticks is None:
            if self._is_open_ended:
                raise ValueError("expected a number of ticks, such as run(ticks=100)")
            ticks = self._scenario.ticks
        for tick in self.ticks(ticks):
            on_tick(tick)
        return self.report

    def ticks(self, ticks: int, *, is_stopped: Callable[[], bool] = lambda: False) -> Iterator[int]:
        """Run a number of ticks, as `run`; yield the number of completed ticks after each.

        Raises:
            PolicyError: A policy raised, or returned no intents; the tick was not begun.
            StoreError: The log cannot be written.
            ValueError: `ticks` is negative, or simulated time ends before.
        """
        ticks = without_numpy(ticks)
        if type(ticks) is not int or ticks < 0:
            raise ValueError(f"ticks must be an int of at least 0, got {ticks!r}")
        to_come = self._goal + ticks - self.tick
        require_time_for(to_come, self._scenario.tick_s, self.kernel.ledger.now_ns)
        self._goal += ticks
        return self._run_to(self._goal)

    def _run_to(self, goal: int) -> Iterator[int]:
        while self.tick < goal:
            self._ended_at = self.tick if self._runner.has_ended else None
            if self._ended_at is not None:
                return
            self._run_tick()
            yield self.tick

    def _run_tick(self) -> None:
        try:
            self._runner.tick()
        except Exception as error:
            note_failure(self.store, error)
            raise

    def step(self) -> dict[str, Verdict]:
        """Run one tick, and return the verdict of each agent that proposed something.

        Raises:
            PolicyError: A policy raised, or returned no intents; the tick was not begun.
            StoreError: The log cannot be written.
        """
        self._run_tick()
        self._goal = max(self._goal, self.tick)
        return self.verdicts

    # reading

    @property
    def tick(self) -> int:
        """Number of completed ticks, those of earlier processes included."""
        return self._runner.report.ticks

    @property
    def sim_time(self) -> float:
        """Simulated time, seconds."""
        return self.kernel.sim_time

    @property
    def agents(self) -> list[str]:
        """The names of the registered agents: those of the cohorts in order, then those born."""
        return self._runner.population.names(self.kernel.ledger)

    @property
    def kernel(self) -> Kernel:
        """The kernel that decides; reading it is free of side effects."""
        return self._runner.world.kernel

    @property
    def state(self) -> WorldState:
        """The state as a live, read-only mapping `collection -> entity -> field -> value`."""
        return self.kernel.state

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """The verdict of each agent that proposed something in the latest tick."""
        return self._runner.verdicts

    @property
    def report(self) -> RunReport:
        """The report of all ticks that this object has run; a copy."""
        return self._runner.result()

    @property
    def store(self) -> str:
        """The URL of the log."""
        return self._runner.world.log.url

    def view(self, agent_id: str) -> View:
        """Return the view that the policy of an agent would be called with now.

        Raises:
            AgentError: There is no such agent.
        """
        if agent_id not in self.kernel.ledger.agents:
            hint = did_you_mean(agent_id, self.agents)
            raise AgentError(f"there is no agent {agent_id!r}; {hint}")
        return self._runner.view(agent_id)

    def population(self, name: str) -> "PopulationHandle":
        """Return a population, whose columns are read by field: `run.population("birds")["x"]`.

        Raises:
            KeyError: There is none of this name.
        """
        return self.kernel.population(name)

    @property
    def column_verdicts(self) -> "dict[str, list[ColumnVerdict]]":
        """The verdicts on the column batches of each population in the latest tick."""
        found: dict[str, list[ColumnVerdict]] = {}
        for batch, verdict in self._runner.column_verdicts:
            found.setdefault(str(batch.population), []).append(verdict)
        return found

    def digest(self) -> str:
        """Return the digest of the state, hexadecimal."""
        return self.kernel.digest()

    def __repr__(self) -> str:
        count = len(self._runner.population.agents)
        return (
            f"<Simulation {self._scenario.name!r} of {self._scenario.domain}: "
            f"{count} agents, tick {self.tick}, seq {self.kernel.seq}, {self.store}>"
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Simulation holds an open world and is not pickled; pickle its scenario or its "
            "arguments, and make it where it is to run"
        )

    # closing

    def close(self) -> None:
        """Release the store; harmless if called twice. The state can still be read."""
        self._runner.close()
        ended_at, until = self._ended_at, self._scenario.until
        if ended_at == self.tick and until is not None:
            note_end(self.store, ended_at, until)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _setup_of_scenario(
    scenario: Scenario,
    agents: Mapping[str, Cohort] | None,
    changed: Mapping[str, Any],
    store: str,
) -> RunSetup:
    if agents is not None:
        problem = "a scenario has its own; change them with `replace`, or pass a domain instead"
        raise ScenarioError(scenario.name, "agents", problem)
    changed_scenario = replace(scenario, **changed)
    setup = prepare(changed_scenario, store=store)
    recorded = setup.recorded
    if recorded is None:
        return setup
    was = from_text(store, recorded)
    if replace(was, on_rule_error=changed_scenario.on_rule_error) != changed_scenario:
        differing = "; ".join(differences_of_scenario(was, changed_scenario))
        problem = (
            f"the store {store} holds a run of another scenario, or of other settings: "
            f"{differing or f'its name is {was.name!r}'}; name a new store, or continue that run "
            "by `placet run --resume`"
        )
        raise ScenarioError(scenario.name, "", problem)
    return setup


def _continued(setup: RunSetup, *, anyway: bool) -> RunSetup:
    """Return the setup of a run that may continue the log of its store.

    Raises:
        ScenarioError: A name is no kind, or the log is of a run that differs, and `anyway` is not
            set.
        StoreError: The log cannot be read.
    """
    store, scenario = setup.config.store, setup.scenario
    recorded = recorded_world(store)
    if recorded is None:
        require_kinds_of(scenario, setup.domain)
        return setup
    if recorded.domain_names != [setup.domain.name] or recorded.config.seed != scenario.seed:
        return setup  # the kernel refuses it
    with closing(open_event_log(store)) as log:
        differing = differences_of_run(recorded, log, scenario, setup.config, setup.domain)
    if differing and not anyway:
        problem = (
            f"the store {store} holds a run that differs from this one: {'; '.join(differing)}. "
            "Name a new store, or pass the values of the log; anyway=True continues it with these"
        )
        raise ScenarioError(scenario.name, "", problem)
    was, now = recorded.rules.domains[0][1], setup.domain.version
    if was != now and not differing:
        differing = [f"the version of domain {setup.domain.name!r} is {now!r}, in the log {was!r}"]
    return replace(setup, notes=tuple(f"the log is continued: {one}" for one in differing))


def _setup_of_domain(
    domain: Domain,
    agents: Mapping[str, Cohort],
    changed: Mapping[str, Any],
    store: str,
    populations: Mapping[str, PopulationSpec],
) -> RunSetup:
    name = changed.get("name", "simulation")
    given: object = domain  # a caller may pass anything
    if isinstance(given, type) or not isinstance(given, Domain):
        problem = (
            "expected a domain such as World(), or a scenario such as Scenario.load('town'), got "
            f"{given!r}"
        )
        raise ScenarioError(name, "domain", problem)
    require_attributes(domain)
    cohorts, policies, given_policies = _cohorts_of(name, agents)
    tables, columns, column_policies = _populations_of(name, populations)
    raw = {"name": name, "domain": domain.name, "ticks": 0, "agents": cohorts}
    scenario = build_scenario(name, {**raw, **changed, "populations": tables})
    if not (scenario.agents_count or scenario.populations):
        problem = 'there are no agents; expected such as agents={"folk": (50, policy)}'
        raise ScenarioError(name, "agents", problem)
    config = replace(config_of(scenario, store, name), origin={})
    return RunSetup(
        scenario=scenario,
        domain=domain,
        config=config,
        policies=policies,
        populations=populations_of(scenario, columns, column_policies),
        is_open_ended=True,
        given_policies=given_policies,
        given_column_policies=column_policies,
    )


def _populations_of(
    name: str, populations: Mapping[str, PopulationSpec]
) -> tuple[dict[str, Json], dict[str, Mapping[str, object]], dict[str, Callable[..., Any]]]:
    """Return the populations as a scenario file has them, their columns, and their policies."""
    tables: dict[str, Json] = {}
    columns: dict[str, Mapping[str, object]] = {}
    policies: dict[str, Callable[..., Any]] = {}
    given: Any  # a caller may pass anything
    for population, given in populations.items():
        key = f"populations.{population}"
        if isinstance(given, tuple) and len(given) == len(_POPULATION):
            raw = dict(zip(_POPULATION, given, strict=True))
        elif isinstance(given, Mapping):
            raw = dict(given)
        else:
            problem = f'expected (count, table, policy) or {{"count": ..., ...}}, got {given!r}'
            raise ScenarioError(name, key, problem)
        columns[population] = raw.pop("columns", {})
        tables[population] = raw
        if "policy" not in raw:
            continue  # the validator of scenarios refuses it
        try:
            policies[population] = column_policy(raw["policy"])
        except LookupError as error:
            raise ScenarioError(name, f"{key}.policy", str(error.args[0])) from None
        raw["policy"] = name_of(raw["policy"])
    return tables, columns, policies


def _cohorts_of(
    name: str, agents: object
) -> tuple[dict[str, Json], dict[str, PolicyFactory], dict[str, AnyPolicy]]:
    """Return the cohorts as a scenario file has them, their policies, and these as given."""
    if not isinstance(agents, Mapping):
        problem = f'expected such as agents={{"folk": (50, policy)}}, got {agents!r}'
        raise ScenarioError(name, "agents", problem)
    cohorts: dict[str, Json] = {}
    policies: dict[str, PolicyFactory] = {}
    given_policies: dict[str, AnyPolicy] = {}
    given: Any  # a caller may pass anything
    for cohort, given in agents.items():
        key = f"agents.{cohort}"
        if isinstance(given, tuple) and len(given) == 2:  # noqa: PLR2004  # count and policy
            raw = dict(zip(("count", "policy"), given, strict=True))
        elif isinstance(given, Mapping):
            raw = dict(given)
        else:
            raise ScenarioError(name, key, f"{_COHORT_FORM}, got {given!r}")
        cohorts[cohort] = raw
        if "policy" not in raw:
            continue  # the validator of scenarios refuses it
        try:
            policies[cohort] = factory_of(raw["policy"])
        except LookupError as error:
            raise ScenarioError(name, f"{key}.policy", str(error.args[0])) from None
        given_policies[cohort] = raw["policy"]
        raw["policy"] = name_of(raw["policy"])
    return cohorts, policies, given_policies
