"""Starts the workers of a run."""

from functools import partial

from placet.kernel.plugin.registry import Registry
from placet.runtime.config import OrchestratorConfig
from placet.scenarios.population import Population
from placet.scenarios.setup import RunSetup
from placet.scenarios.thinking import Workers
from placet.scenarios.workers.job import job_of
from placet.scenarios.workers.pool import WorkerThinkers
from placet.scenarios.workers.processes import Processes


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
    job = job_of(setup, registry, declared)
    return WorkerThinkers(
        Processes(job, workers.count),
        workers.count,
        population,
        setup.populations,
        source=scenario.name,
        timeout_s=workers.timeout_s,
        on_notice=partial(_warn, setup.config),
    )


def _warn(config: OrchestratorConfig, sentence: str) -> None:
    from placet.runtime.telemetry.world_logger import WorldLogger  # noqa: PLC0415  # 209 ms

    WorldLogger(config.log_format, config.log_level, config.world).warning(sentence)
