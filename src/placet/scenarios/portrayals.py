"""The portrayals of a recorded run, whose log has none."""

from collections.abc import Sequence
from pathlib import Path

from placet.scenarios.loader import bundled, read_table
from placet.scenarios.scenario import Scenario, build_scenario
from placet.scenarios.values import ScenarioError
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


def given_portrayals(scenario: str | Path) -> Portrayals:
    """Return the portrayals of a scenario that a person names.

    Raises:
        ScenarioError: It does not exist, is invalid, or has none.
    """
    found, _ = portrayals_of(scenario)
    if not found:
        problem = 'is missing; add [portrayal."COLLECTION"]'
        raise ScenarioError(str(scenario), "portrayal", problem)
    return found


def names_by_field(portrayals: Portrayals) -> dict[str, tuple[str, ...]]:
    """Return the names of the values 0, 1, 2, ... of the fields that color marks."""
    return {one.color: one.names for one in portrayals.values() if one.color and one.names}


def shown_value(value: str, names: Sequence[str]) -> str:
    """Return the name of a value of a field: that of its portrayal, if it numbers its names."""
    is_number = value.isdecimal() and int(value) < len(names)
    return names[int(value)] if is_number else value


def bundled_portrayals(recorded: Scenario) -> Portrayals:
    """Return the portrayals of the bundled scenario of a recorded run; none of any other run."""
    if recorded.name not in bundled():
        return {}
    found, domain = portrayals_of(recorded.name)
    return found if domain == recorded.domain else {}
