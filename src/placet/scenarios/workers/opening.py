"""Starts the workers of a run."""

from functools import partial

from placet.kernel.plugin.registry import Registry
from placet.plugins.entry_points import POLICIES, load_named
from placet.runtime.config import OrchestratorConfig
from placet.scenarios.on_ray.errors import RayUnusable
from placet.scenarios.on_ray.session import require_ray
from placet.scenarios.policies import BUNDLED
from placet.scenarios.population import Population
from placet.scenarios.setup import RunSetup
from placet.scenarios.thinking import Workers
from placet.scenarios.values import ScenarioError
from placet.scenarios.workers.job import job_of
from placet.scenarios.workers.pool import WorkerThinkers
from placet.scenarios.workers.processes import Processes
from placet.scenarios.workers.transport import Transport


def open_workers(
    setup: RunSetup,
    workers: Workers,
    registry: Registry,
    declared: frozenset[str],
    population: Population,
) -> WorkerThinkers:
    """Start the workers of a run.

    Args:
        setup: The setup of the run.
        workers: How many, and where.
        registry: The domains of its world.
        declared: As in `Kernel`.
        population: Its agents.

    Raises:
        ScenarioError: A policy or the domain cannot travel, or a worker cannot work for the run.
    """
    scenario = setup.scenario
    return WorkerThinkers(
        _transport(setup, workers, registry, declared),
        workers.count,
        population,
        setup.populations,
        source=scenario.name,
        timeout_s=workers.timeout_s,
        on_notice=partial(_warn, setup.config),
    )


def _transport(
    setup: RunSetup, workers: Workers, registry: Registry, declared: frozenset[str]
) -> Transport:
    if workers.on == "here":
        return Processes(job_of(setup, registry, declared), workers.count)
    try:
        require_ray(workers.address)
    except RayUnusable as error:
        raise ScenarioError(setup.scenario.name, "workers", str(error)) from error
    from placet.scenarios.workers.on_ray import RayWorkers, by_value  # noqa: PLC0415  # an extra

    job = job_of(setup, registry, declared, by_value)
    given = (*setup.given_policies.values(), *setup.given_column_policies.values())
    policies = (
        load_named(POLICIES, p, "policy", BUNDLED) if isinstance(p, str) else p for p in given
    )
    return RayWorkers(job, workers, [*registry.domains, *policies])


def _warn(config: OrchestratorConfig, sentence: str) -> None:
    from placet.runtime.telemetry.world_logger import WorldLogger  # noqa: PLC0415  # 209 ms

    WorldLogger(config.log_format, config.log_level, config.world).warning(sentence)
