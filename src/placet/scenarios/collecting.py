"""The collector of a scenario: its `[collect]` table as a `Collector`."""

from importlib.util import find_spec
from pathlib import Path

from placet.scenarios.scenario import Scenario
from placet.scenarios.values import Collect, ScenarioError
from placet.tables.collector import Collector
from placet.tables.parts import CollectError


def is_left_out(scenario: Scenario) -> bool:
    """Return whether an optional `[collect]` table cannot be collected here.

    True of a bundled scenario without pyarrow, or under `--set clock=realtime`.
    """
    collect = scenario.collect
    if collect is None or not collect.optional:
        return False
    return scenario.clock != "stepped" or find_spec("pyarrow") is None


def collector_of(scenario: Scenario, to: str | Path | None) -> Collector | None:
    """Return the collector of a scenario; None if it collects nothing.

    The functions of the world are imported. An optional table that cannot be collected here is
    nothing, unless a folder is named.

    Args:
        scenario: The scenario.
        to: Folder of the tables; None keeps them in memory.

    Raises:
        ScenarioError: The clock does not wait for ticks, or a function cannot be imported.
        MissingExtraError: pyarrow is not installed.
    """
    if scenario.collect is None or (to is None and is_left_out(scenario)):
        return None
    if scenario.clock != "stepped":
        problem = f'rows are taken at ticks, which need clock = "stepped", got {scenario.clock!r}'
        raise ScenarioError(scenario.name, "collect", problem)
    try:
        return collector_for(scenario.collect, to)
    except CollectError as error:
        raise ScenarioError(scenario.name, "collect", str(error)) from error


def collector_for(collect: Collect, to: str | Path | None) -> Collector:
    """Return a collector of the values of a `[collect]` table.

    Raises:
        CollectError: There is nothing to collect, or a function cannot be imported.
        MissingExtraError: pyarrow is not installed.
    """
    return Collector(
        every=collect.every,
        ends=collect.ends,
        agents=collect.agents,
        world=collect.world,
        refusals=collect.refusals,
        to=to,
    )
