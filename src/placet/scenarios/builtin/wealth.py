"""Boltzmann wealth: people walk on a grid, and each with a coin gives one to a person it meets.

A gift adds to one purse and takes from another. The bound of the field is its rule: no purse is
below 0, in whatever order many gifts meet.

Source: Dragulescu and Yakovenko, "Statistical mechanics of money", European Physical Journal B,
2000, on the grid of Mesa's example.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from placet.domains.space import Grid
from placet.kernel import Domain, Draft, Field, Kind, Table
from placet.kernel.arrays.words import Array
from placet.kernel.plugin.domain import NewPopulation
from placet.kernel.plugin.rows import Rows
from placet.kernel.state.tree import WorldState
from placet.scenarios.population_view import PopulationView

PEOPLE = "wealth.people"


class Wealth(Domain):
    """People with one coin each, on `side` times `side` cells that hold any number of them."""

    name, version = "wealth", "1"

    def __init__(self, side: int = 10) -> None:
        self._grid = Grid(side, side)
        cell = Field("i4", low=0, high=side * side - 1)
        self.tables = (Table(PEOPLE, {"cell": cell, "coins": Field("i4", default=1, low=0)}),)
        self.kinds = (
            Kind("Walk", {"cell": cell}, rows=self._walk, table=PEOPLE),
            Kind("Give", {"to": Field("i4", low=0)}, rows=give, table=PEOPLE),
        )

    def settings(self) -> Mapping[str, Any]:
        """Return the keywords that rebuild this domain."""
        return {"side": self._grid.width}

    def on_populate(self, draft: Draft, population: NewPopulation) -> None:
        """Place the people at random."""
        random = np.random.default_rng(draft.randint_below(2**32, "places"))
        cells = random.integers(0, self._grid.count, population.count)
        if "cell" not in population.given:
            draft.columns(population.table).set("cell", cells)

    def _walk(self, rows: Rows) -> None:
        to, home = rows.payload["cell"], rows.own["cell"]
        is_far = self._grid.distances(home, to) > 1
        rows.refuse(is_far, "too_far", "a step leads to an adjacent cell")
        rows.write("cell", to)


def give(rows: Rows) -> None:
    """Move a coin to the purse of a person in the same cell."""
    to = rows.payload["to"]
    rows.refuse(to == rows.numbers, "to_itself", "give to another person")
    there = rows.table(PEOPLE)["cell"][to % len(rows.table(PEOPLE)["cell"])]
    rows.refuse(there != rows.own["cell"], "elsewhere", "give to a person in the same cell")
    rows.add(PEOPLE, rows.numbers, "coins", -1)
    rows.add(PEOPLE, to, "coins", 1)


def walk_and_give(view: PopulationView) -> dict[str, Any]:
    """Return an adjacent cell of each person, and then the gifts to a person of the same cell."""
    side = view.settings["side"]
    cell = Grid(side, side).choose_neighbor(view["cell"], view.random_unit("step"))
    has_mate, mate = mates(cell, view.random_unit("mate"))
    is_giving = has_mate & (view["coins"] > 0)
    return {"Walk": {"cell": cell}, "Give": view.only(is_giving, to=mate[is_giving])}


def mates(cell: Array, unit: Array) -> tuple[Array, Array]:
    """Return whether each shares its cell, and another person of that cell, by a draw."""
    order = np.argsort(cell, kind="stable")
    held = np.bincount(cell)
    first = (np.cumsum(held) - held)[cell]
    rank = np.empty(len(cell), np.int64)
    rank[order] = np.arange(len(cell)) - first[order]
    others = held[cell] - 1
    place = np.floor(unit * others).astype(np.int64)
    place += place >= rank  # the person itself is passed over
    return others > 0, order[np.minimum(first + place, len(cell) - 1)]


def gini(coins: Array) -> float:
    """Return the Gini coefficient: 0 if all have the same, near 1 if one person has all."""
    count = len(coins)
    ranked = np.sort(coins) * (count - np.arange(count))
    return float(1 + 1 / count - 2 * ranked.sum() / (count * coins.sum()))


def inequality(state: WorldState) -> float:
    """Return the Gini coefficient of the coins."""
    return gini((state.columns(PEOPLE) or {})["coins"])
