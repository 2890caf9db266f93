"""The domain and the configuration of a scenario's world."""

from typing import Final

from placet.kernel.domain import Domain
from placet.runtime.config import OrchestratorConfig
from placet.runtime.plugins import DomainNotFound, find_domain
from placet.scenarios.loader import as_text, open_domain
from placet.scenarios.scenario import Scenario, ScenarioError
from placet.schemas.limits import Limits

ORIGIN: Final = "scenario"
"""The key of the scenario in the header of a run's log."""

_BATCH_BYTES: Final = 4_096
"""Room in the queue for each agent's batch of a tick, on average."""


def domain_of(scenario: Scenario) -> Domain:
    """Build the domain of a scenario.

    Raises:
        ScenarioError: It does not exist, or rejects the scenario's settings.
    """
    try:
        return open_domain(scenario, find_domain(scenario.domain))
    except DomainNotFound as error:
        raise ScenarioError(scenario.name, "domain", str(error)) from None
    except TypeError as error:
        raise ScenarioError(scenario.name, "settings", str(error)) from error


def config_of(scenario: Scenario, store: str, world: str) -> OrchestratorConfig:
    """Return the world's configuration; its queue has room for a batch of every agent.

    Raises:
        ScenarioError: A value is invalid.
    """
    limits, agents = Limits(), scenario.agents_count
    try:
        return OrchestratorConfig(
            store=store,
            seed=scenario.seed,
            clock=scenario.clock,
            backpressure=scenario.backpressure,
            dilation_wait_ms=scenario.dilation_wait_ms,
            dilation_factor_min=scenario.dilation_factor_min,
            staleness_threshold=scenario.staleness_threshold,
            quotas=scenario.quotas,
            mailbox_batches_max=limits.mailbox_places(agents),
            mailbox_bytes_max=max(limits.mailbox_bytes_max, agents * _BATCH_BYTES),
            world=world,
            origin={ORIGIN: as_text(scenario)},
        )
    except ValueError as error:
        raise ScenarioError(scenario.name, "", str(error)) from error
