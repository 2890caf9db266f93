"""The setup of a run: the domain, the configuration of its world, its policies, and its position.

Both runners begin with it: `runner.py`, which runs the world of an `Orchestrator`, and
`kernel_runner.py`, which steps a kernel.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from placet.actors.ports import EventLog
from placet.history.position import divided_tick
from placet.kernel.plugin.domain import Domain, require_attributes
from placet.kernel.plugin.registry import declared_collections
from placet.runtime.config import OrchestratorConfig
from placet.runtime.recorded_world import recorded_world
from placet.scenarios.ending import EndCondition, end_condition_of
from placet.scenarios.opening import domain_of, require_kinds_of
from placet.scenarios.policies import AnyPolicy, PolicyFactory, column_policies_of, policies_of
from placet.scenarios.portrayals import table_problems, with_networks
from placet.scenarios.scenario import Scenario, as_text
from placet.scenarios.thinking import Workers
from placet.scenarios.ticks import tick_ns_of
from placet.scenarios.values import Member, ScenarioError
from placet.schemas.limits import Limits
from placet.stores.snapshots.writer import EVERY_SEQS
from placet.stores.url import open_event_log
from placet.tables.collector import Collector

if TYPE_CHECKING:
    from placet.scenarios.populations import Populations

ORIGIN: Final = "scenario"
"""The key of the scenario in the header of a run's log."""

REGISTERED_TOGETHER: Final = 512
"""Agents whose registration is written together."""

_BATCHES: Final = 16
"""Places in the queue for the column batches of a population in a tick."""

_BATCH_BYTES: Final = 4_096
"""Room in the queue for each agent's batch of a tick, on average."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSetup:
    """The domain and the configuration of a run's world, and the position at which it begins.

    Attributes:
        scenario: The scenario.
        domain: Its domain.
        config: Configuration of its world.
        policies: By cohort, the factory of its agents' policies.
        populations: The populations; None if there are none.
        ticks: Number of ticks that the log has, at most those of the scenario; of a run that is
            not stepped, 0.
        is_resumed: The log holds a run.
        recorded: The scenario of the run in the log, as text; None if there is none.
        checks_intents: Check each intent as a policy builds it.
        is_open_ended: The scenario has no last tick; the run begins at the end of the log.
        collector: Collects rows at the ticks of the run; None collects nothing.
        notes: Sentences about the log that is continued, which the runner logs.
        workers: The processes that call the policies; None calls them in this one.
        given_policies: By cohort, its policy as it was given.
        given_column_policies: By population, likewise.
        ends: The condition that ends the run before its last tick; None is none.
    """

    scenario: Scenario
    domain: Domain
    config: OrchestratorConfig
    policies: Mapping[str, PolicyFactory]
    populations: "Populations | None" = None
    ticks: int = 0
    is_resumed: bool = False
    recorded: str | None = None
    checks_intents: bool = False
    is_open_ended: bool = False
    collector: Collector | None = None
    notes: tuple[str, ...] = ()
    workers: Workers | None = None
    given_policies: Mapping[str, AnyPolicy] = field(default_factory=dict)
    given_column_policies: Mapping[str, str | Callable[..., Any]] = field(default_factory=dict)
    ends: EndCondition | None = None

    def __post_init__(self) -> None:
        require_attributes(self.domain)
        if self.workers is not None:
            self.workers.require_fit(self.scenario.name, self.scenario.clock)

    def has_ended(self, ticks: int, state: Mapping[str, Any]) -> bool:
        """Return whether the condition of the scenario ends the run at a state after ticks.

        Raises:
            ScenarioError: The condition raised, or returned no bool.
        """
        return self.ends is not None and ticks > 0 and self.ends(state)


def _require_portrayed(scenario: Scenario, domain: Domain) -> None:
    """Refuse a portrayal of a table by a field that it does not have, or by another width.

    Raises:
        ScenarioError: The field is unknown, or has several numbers in a row; the rows of the table
            are not whole rows of a grid of the width; or the network does not exist, or has
            another number of nodes.
    """
    portrayals = with_networks(scenario.name, scenario.portrayal)
    for name, key, problem in table_problems(portrayals, domain.tables):
        raise ScenarioError(scenario.name, f"portrayal.{name}.{key}", problem)


def prepare(
    scenario: Scenario,
    *,
    store: str,
    world: str | None = None,
    is_resumed: bool = False,
    metrics_port: int | None = None,
    snapshot_every_seqs: int | None = EVERY_SEQS,
    compact_log: bool = False,
    collector: Collector | None = None,
    workers: Workers | None = None,
) -> RunSetup:
    """Build the setup of a run, from its scenario and from its log, if there is one.

    Args:
        scenario: The scenario.
        store: URL of the log.
        world: Name of the world; None is the scenario's name.
        is_resumed: The store holds a run.
        metrics_port: As in `OrchestratorConfig`.
        snapshot_every_seqs: As in `OrchestratorConfig`.
        compact_log: As in `OrchestratorConfig`.
        collector: As in `RunSetup`. Of a run that is resumed, it is continued from the log here.
        workers: As in `RunSetup`.

    Raises:
        CollectError: The rows of a resumed run cannot be continued.
        ScenarioError: The domain or a policy does not exist, a setting is invalid, or the log ends
            inside a tick.
        StoreError: The log cannot be read.
    """
    domain = domain_of(scenario)
    _require_portrayed(scenario, domain)
    setup = RunSetup(
        scenario=scenario,
        domain=domain,
        config=replace(
            config_of(scenario, store, world or scenario.name),
            metrics_port=metrics_port,
            snapshot_every_seqs=snapshot_every_seqs,
            compact_log=compact_log,
        ),
        policies=policies_of(scenario.name, scenario.agents),
        populations=populations_of(scenario, {}),
        is_resumed=is_resumed,
        collector=collector,
        workers=workers,
        given_policies={name: one.policy for name, one in scenario.agents.items()},
        given_column_policies={n: one.policy for n, one in scenario.populations.items()},
        ends=end_condition_of(scenario),
    )
    is_stepped = scenario.clock == "stepped"
    recorded = recorded_world(store) if is_resumed or is_stepped else None
    if recorded is None:
        require_kinds_of(scenario, setup.domain)
        return setup
    # The settings may have changed since the run began.
    ticks = completed_ticks(scenario, open_event_log(store), recorded.ticks) if is_stepped else 0
    domains = (scenario.domain,) if ":" in scenario.domain else ()
    (domain,) = recorded.domains(domains)
    if collector is not None:
        collector.continue_from(open_event_log(store), declared_collections(domain))
    return replace(
        setup,
        domain=domain,
        config=recorded.continued_by(setup.config),
        recorded=recorded.origin.get(ORIGIN),
        ticks=min(ticks, scenario.ticks),
    )


def populations_of(
    scenario: Scenario,
    columns: Mapping[str, Mapping[str, object]],
    policies: Mapping[str, Callable[..., Any]] | None = None,
) -> "Populations | None":
    """Return the populations of a run; None if its scenario has none.

    Args:
        scenario: The scenario.
        columns: By population, initial columns that are no plain JSON.
        policies: By population, its policy; None finds them by the names in the scenario.
    """
    if not scenario.populations:
        return None
    from placet.scenarios.populations import Populations  # noqa: PLC0415  # numpy is an extra

    if policies is None:
        policies = column_policies_of(scenario.name, scenario.populations)
    return Populations(scenario, policies, columns)


def completed_ticks(scenario: Scenario, log: EventLog, ticks: int) -> int:
    """Return the number of ticks in the log of a stepped run, which must end between two ticks.

    Args:
        scenario: The scenario of the run.
        log: Its log.
        ticks: Number of ticks in the log.

    Raises:
        ScenarioError: The log ends inside a tick.
        StoreError: It cannot be read.
    """
    if divided_tick(log, log.count(), tick_ns_of(scenario)) is None:
        return ticks
    raise ScenarioError(
        scenario.name,
        "",
        f"{log.url} ends inside tick {ticks + 1}, some of whose agents have acted: it "
        "cannot be resumed. Fork its parent between two ticks: placet fork PARENT NEW "
        f"--at-tick {ticks}",
    )


def registration_error(scenario: Scenario, member: Member, error: Exception) -> ScenarioError:
    """Return the error of an agent that its domain refused."""
    problem = f"{member.agent_id} cannot be registered: {error}"
    return ScenarioError(scenario.name, f"agents.{member.cohort}", problem)


def config_of(scenario: Scenario, store: str, world: str) -> OrchestratorConfig:
    """Return the world's configuration; its queue has room for a batch of every agent.

    Raises:
        ScenarioError: A value is invalid.
    """
    limits, agents = Limits(), scenario.agents_count + _BATCHES * len(scenario.populations)
    try:
        return OrchestratorConfig(
            store=store,
            seed=scenario.seed,
            clock=scenario.clock,
            backpressure=scenario.backpressure,
            dilation_wait_ms=scenario.dilation_wait_ms,
            dilation_factor_min=scenario.dilation_factor_min,
            staleness_threshold=scenario.staleness_threshold,
            leases=scenario.leases,
            quotas=scenario.quotas,
            mailbox_batches_max=limits.mailbox_places(agents),
            mailbox_bytes_max=max(
                limits.mailbox_bytes_max,
                agents * _BATCH_BYTES + len(scenario.populations) * limits.column_bytes_max,
            ),
            world=world,
            origin={ORIGIN: as_text(scenario)},
        )
    except ValueError as error:
        raise ScenarioError(scenario.name, "", str(error)) from error
