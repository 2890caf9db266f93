"""The portrayals that a model's own grids imply, without a `[portrayal]`.

A log has the number of an agent's cell, and not the width of the grid. The domain has both: in an
`Occupancy` or a `CellTable`, which is an attribute of the domain or a name of its module.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from placet.kernel.plugin.domain import Domain
from placet.schemas.portrayal import Portrayal, Portrayals

_CELL: Final = "cell"
"""The field with the number of an agent's cell, by which a map places it."""


def portrayals_of_spaces(domains: Iterable[Domain]) -> Portrayals:
    """Return a portrayal for each collection and table whose grid a domain has.

    They are those of the property `portrayals` of the spaces, and for the tables of agents of a
    domain with one grid its width.
    """
    found: dict[str, Portrayal] = {}
    for domain in domains:
        own: dict[str, Portrayal] = {}
        for portrayals in _of_spaces(domain):
            own |= {
                name: one for name, one in portrayals.items() if name.startswith(f"{domain.name}.")
            }
        found |= _of_agents(domain, own) | own
    return found


def _of_spaces(domain: Domain) -> Iterator[Portrayals]:
    """Yield the portrayals of the spaces of a domain: its own, its class's, its module's."""
    scopes: list[Mapping[str, object]] = [getattr(domain, "__dict__", {})]
    for cls in type(domain).__mro__[:-1]:
        module = sys.modules.get(cls.__module__)
        scopes += [vars(cls), {} if module is None else vars(module)]
    for scope in scopes:
        for value in list(scope.values()):
            # By its class: a module may have objects that make each attribute that they are asked.
            if isinstance(getattr(type(value), "portrayals", None), property):
                yield value.portrayals  # type: ignore[attr-defined]  # a property of its class


def _of_agents(domain: Domain, portrayals: Portrayals) -> dict[str, Portrayal]:
    """Return the portrayals of the tables of agents, if a domain has one table of cells."""
    tables = {table.name: table for table in domain.tables}
    widths = [one.width for name, one in portrayals.items() if name in tables]
    if len(widths) != 1 or widths[0] is None:
        return {}
    of_agents = (name for name, table in tables.items() if _CELL in table.fields)
    return {name: Portrayal(width=widths[0]) for name in of_agents if name not in portrayals}
