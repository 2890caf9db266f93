"""The portrayals of a recorded run, whose log has none; and fields of tables that do not exist."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from placet.scenarios.loader import bundled, read_table
from placet.scenarios.scenario import Scenario, build_scenario
from placet.schemas.name_suggestions import did_you_mean
from placet.schemas.portrayal import Portrayals

if TYPE_CHECKING:
    from placet.kernel import Field


def portrayals_of(scenario: str | Path) -> tuple[Portrayals, str]:
    """Return the portrayals of a scenario by its name or path, and the name of its domain.

    Raises:
        ScenarioError: It does not exist, or is invalid.
    """
    source, raw = read_table(scenario)
    raw.setdefault("name", Path(source).stem)
    found = build_scenario(source, raw)
    return found.portrayal, found.domain


def bundled_portrayals(recorded: Scenario) -> Portrayals:
    """Return the portrayals of the bundled scenario of a recorded run; none of any other run."""
    if recorded.name not in bundled():
        return {}
    found, domain = portrayals_of(recorded.name)
    return found if domain == recorded.domain else {}


def table_problems(
    portrayals: Portrayals, tables: "Mapping[str, Mapping[str, Field]]"
) -> Iterator[tuple[str, str, str]]:
    """Yield collection, key and problem of each field of a portrayal that its table cannot show.

    The fields of entities of other collections are declared nowhere; a reader of a state names a
    field that none has.
    """
    for name, portrayal in portrayals.items():
        chosen: dict[str, str] = {str(mark): field for mark, field in portrayal.marks.items()}
        if portrayal.color is not None:
            chosen["color"] = portrayal.color
        for key, wanted in chosen.items() if name in tables else ():
            known = tables[name].get(wanted)
            if known is None:
                suggestion = did_you_mean(wanted, list(tables[name]))
                yield name, key, f"{name} has no field {wanted!r}; {suggestion}"
            elif key != "color" and known.sizes:
                problem = f"the field {wanted!r} of {name} has {known.sizes} numbers in a row; "
                yield name, key, f"{problem}expected a field of one"
