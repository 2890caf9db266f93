"""The grids of a domain portray its agents and cells without a `[portrayal]`."""

import pytest

from placet.domains.space import CellTable, Grid, Occupancy, ring_lattice
from placet.kernel import Domain, Field, Table
from placet.scenarios.portrayals import merged
from placet.scenarios.space_portrayals import portrayals_of_spaces
from placet.schemas.portrayal import Portrayal
from tests.browser.forest import Forest

RING = ring_lattice(8, 2)


class Plain(Domain):
    name, version = "plain", "1"
    kinds = ()

    def __init__(self, *spaces: object, tables: tuple[Table, ...] = ()) -> None:
        self.__dict__.update({f"space_{number}": one for number, one in enumerate(spaces)})
        self.tables = tables


def test_an_occupancy_in_the_module_of_a_domain_is_found():
    assert portrayals_of_spaces([Forest()]) == {"forest.foxes": Portrayal(width=7)}


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        (Occupancy(Grid(5, 2), "plain.a", "plain.b"), {"plain.a": Portrayal(width=5)}),
        (Occupancy(RING, "plain.a", "plain.b"), {}),
        (Occupancy(Grid(5, 2), "plain.a", "plain.b", agent_field="home"), {}),
        (Occupancy(Grid(5, 2), "other.a", "other.b"), {}),
        (CellTable(Grid(5, 2), "plain.ground"), {"plain.ground": Portrayal(width=5)}),
        (CellTable(RING, "plain.hosts"), {}),
    ],
)
def test_a_space_of_a_domain_itself_portrays_its_collections(space, expected):
    assert portrayals_of_spaces([Plain(space)]) == expected


def test_the_agents_of_the_only_table_of_cells_have_its_width():
    cells = CellTable(Grid(5, 2), "plain.ground")
    people = Table("plain.people", {"cell": Field("i4")})
    found = portrayals_of_spaces([Plain(cells, tables=(people, cells.table))])
    assert found["plain.people"] == Portrayal(width=5)


def test_a_given_portrayal_keeps_its_width_and_gets_the_one_of_the_model_if_it_has_none():
    implied = {name: Portrayal(width=7) for name in "abc"}
    given = {"a": Portrayal(color="x"), "b": Portrayal(width=3), "d": Portrayal(color="y")}
    assert merged(given, implied) == {
        "a": Portrayal(color="x", width=7),
        "b": Portrayal(width=3),
        "c": Portrayal(width=7),
        "d": Portrayal(color="y"),
    }
