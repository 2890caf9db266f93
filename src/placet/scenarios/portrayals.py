"""The portrayals of a recorded run, whose log has none; and fields of tables that do not exist."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from placet.history.timeline.links import NetworkLike
from placet.plugins.domains import import_from_here
from placet.scenarios.loader import bundled, read_table
from placet.scenarios.scenario import Scenario, build_scenario
from placet.scenarios.values import ScenarioError
from placet.schemas.name_suggestions import did_you_mean
from placet.schemas.portrayal import Portrayal, Portrayals

if TYPE_CHECKING:
    from placet.kernel import Table


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


def merged(given: Portrayals, implied: Portrayals) -> Portrayals:
    """Return the given portrayals, with the grids that the model implies.

    A given width is kept, and a network has none.
    """
    found = dict(implied)
    for name, one in given.items():
        space = implied.get(name)
        if space is not None and one.width is None and one.network is None:
            one = replace(one, width=space.width)  # noqa: PLW2901
        found[name] = one
    return found


def names_by_field(portrayals: Portrayals) -> dict[str, tuple[str, ...]]:
    """Return the names of the values 0, 1, 2, ... of the fields that color marks.

    A field that two portrayals name differently has none.
    """
    given = {(one.color, one.names) for one in portrayals.values() if one.color and one.names}
    fields = [field for field, _ in given]
    return {field: names for field, names in given if field and fields.count(field) == 1}


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


def table_problems(
    portrayals: Portrayals, tables: "Iterable[Table]"
) -> Iterator[tuple[str, str, str]]:
    """Yield name, key and problem of each field, width or network that does not fit its table.

    The fields of entities of other collections are declared nowhere; a reader of a state names a
    field that none has.
    """
    for table in tables:
        if table.name in portrayals:
            for key, problem in _problems(portrayals[table.name], table):
                yield table.name, key, problem


def _problems(portrayal: Portrayal, table: "Table") -> Iterator[tuple[str, str]]:
    name, network = table.name, cast("NetworkLike | None", portrayal.network)
    if portrayal.width is not None and (table.rows or 0) % portrayal.width:
        problem = f"{name} has {table.rows} cells, which are no rows of {portrayal.width}"
        yield "width", problem
    if network is not None and table.rows not in {None, network.count}:
        yield "network", f"{name} has {table.rows} rows, and the network {network.count} nodes"
    chosen: dict[str, str | None] = {str(mark): field for mark, field in portrayal.marks.items()}
    chosen |= {"color": portrayal.color, "links": portrayal.links}
    for key, wanted in chosen.items():
        known = None if wanted is None else table.fields.get(wanted)
        if wanted is None:
            continue
        if known is None:
            suggestion = did_you_mean(wanted, list(table.fields))
            yield key, f"{name} has no field {wanted!r}; {suggestion}"
        elif key == "links" and not known.dtype.startswith(("i", "u")):
            problem = f"the field {wanted!r} of {name} has values of {known.dtype}; "
            yield key, f"{problem}expected the numbers of rows, such as i4"
        elif key not in {"color", "links"} and known.sizes:
            problem = f"the field {wanted!r} of {name} has {known.sizes} numbers in a row; "
            yield key, f"{problem}expected a field of one"
