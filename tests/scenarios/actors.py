"""Runs of scenarios by the actors of a world, also of scenarios that need none."""

from collections.abc import Callable
from typing import Any

from placet.scenarios.runner import ScenarioRunner
from placet.scenarios.scenario import Scenario
from placet.scenarios.setup import prepare


def by_actors(
    scenario: Scenario,
    *,
    store: str = "memory://",
    on_tick: Callable[[int], None] = lambda _: None,
    is_stopped: Callable[[], bool] = lambda: False,
    **options: Any,
) -> ScenarioRunner:
    """Return a runner; the options are those of `prepare`."""
    setup = prepare(scenario, store=store, **options)
    return ScenarioRunner(setup, on_tick=on_tick, is_stopped=is_stopped)
