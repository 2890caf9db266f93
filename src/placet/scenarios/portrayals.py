"""The portrayals of a recorded run, whose log has none."""

from pathlib import Path

from placet.scenarios.loader import bundled, read_table
from placet.scenarios.scenario import Scenario, build_scenario
from placet.schemas.portrayal import Portrayals


def portrayals_of(scenario: str | Path) -> tuple[Portrayals, str]:
    """Return the portrayals of a scenario by its name or path, and the name of its domain.

    A file may have nothing but portrayals.

    Raises:
        ScenarioError: It does not exist, or is invalid.
    """
    source, raw = read_table(scenario)
    found = build_scenario(source, {"name": Path(source).stem, "ticks": 0, "agents": {}, **raw})
    return found.portrayal, found.domain


def bundled_portrayals(recorded: Scenario) -> Portrayals:
    """Return the portrayals of the bundled scenario of a recorded run; none of any other run."""
    if recorded.name not in bundled():
        return {}
    found, domain = portrayals_of(recorded.name)
    return found if domain == recorded.domain else {}
