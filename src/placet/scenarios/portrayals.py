"""The portrayals of a recorded run, whose log has none."""

from dataclasses import replace
from pathlib import Path

from placet.history.timeline.links import NetworkLike
from placet.plugins.domains import import_from_here
from placet.scenarios.loader import bundled, read_table
from placet.scenarios.scenario import Scenario, build_scenario
from placet.scenarios.values import ScenarioError
from placet.schemas.portrayal import Portrayals


def portrayals_of(scenario: str | Path) -> tuple[Portrayals, str]:
    """Return the portrayals of a scenario by its name or path, and the name of its domain.

    A file may have nothing but portrayals. Networks are found by their names.

    Raises:
        ScenarioError: It does not exist, is invalid, or names a network that does not exist.
    """
    source, raw = read_table(scenario)
    found = build_scenario(source, {"name": Path(source).stem, "ticks": 0, "agents": {}, **raw})
    return with_networks(source, found.portrayal), found.domain


def with_networks(source: str, portrayals: Portrayals) -> Portrayals:
    """Return portrayals with the networks that they name.

    Raises:
        ScenarioError: There is no such network.
    """
    return {
        name: replace(one, network=_network(source, f"portrayal.{name}.network", one.network))
        for name, one in portrayals.items()
    }


def _network(source: str, key: str, given: object) -> object:
    if not isinstance(given, str):
        found = given
    else:
        module_name, _, name = given.partition(":")
        try:
            found = getattr(import_from_here(module_name), name)
        except (ImportError, AttributeError, ValueError) as error:
            problem = f"{given!r} is no module:NAME of a network: {error}"
            raise ScenarioError(source, key, problem) from error
    if found is not None and not isinstance(found, NetworkLike):
        raise ScenarioError(source, key, f"expected a Network, got {found!r:.80}")
    return found


def bundled_portrayals(recorded: Scenario) -> Portrayals:
    """Return the portrayals of the bundled scenario of a recorded run; none of any other run."""
    if recorded.name not in bundled():
        return {}
    found, domain = portrayals_of(recorded.name)
    return found if domain == recorded.domain else {}
