"""Schelling's segregation: people move to a free cell where too few of their neighbors are alike.

A move claims the cell that is left and the cell that is taken, so no two people get one cell.

Source: Schelling, "Dynamic models of segregation", Journal of Mathematical Sociology, 1971.
"""

from collections.abc import Mapping
from math import isqrt
from typing import Any

import numpy as np

from placet.domains.space import CellTable, Grid
from placet.kernel import Domain, Draft, Field, Kind, Table
from placet.kernel.arrays.words import Array
from placet.kernel.plugin.domain import NewPopulation
from placet.kernel.plugin.rows import Rows
from placet.kernel.state.tree import WorldState
from placet.scenarios.population_view import PopulationView

PEOPLE, CELLS = "segregation.people", "segregation.cells"


class Segregation(Domain):
    """A town of `side` times `side` cells, with room for one person each."""

    name, version = "segregation", "1"

    def __init__(self, side: int = 20, minority: float = 0.5) -> None:
        self._side, self._minority = side, minority
        self._cells = cells = CellTable(Grid(side, side), CELLS)
        people = Table(PEOPLE, {"cell": cells.field, "group": Field("u1", high=1)})
        self.tables = (people, cells.table)
        self.kinds = (Kind("Settle", {"cell": cells.field}, rows=self._settle, table=PEOPLE),)

    def settings(self) -> Mapping[str, Any]:
        """Return the keywords that rebuild this domain."""
        return {"side": self._side, "minority": self._minority}

    def on_populate(self, draft: Draft, population: NewPopulation) -> None:
        """Place each person in a separate cell, and draw its group."""
        random = np.random.default_rng(draft.randint_below(2**32, "places"))
        cells = random.permutation(self._side * self._side)[: population.count]
        groups = random.random(population.count) < self._minority
        given = population.given
        self._cells.populate(draft, population, None if "cell" in given else cells)
        if "group" not in given:
            draft.columns(population.table).set("group", groups)

    def _settle(self, rows: Rows) -> None:
        self._cells.move(rows, rows.payload["cell"])


def move(view: PopulationView) -> dict[str, Any]:
    """Return a free cell, at random, of each person who is not content.

    Option: `homophily` is the least share of like neighbors with which a person is content.
    """
    who = view.table(CELLS)["who"]
    like, others = neighbors_of(view["cell"], view["group"], view.settings["side"])
    is_moving = like < view.options.get("homophily", 0.4) * np.maximum(like + others, 1)
    free = np.flatnonzero(who < 0)
    if not (len(free) and is_moving.any()):
        return {}
    chosen = free[view.randint_below(len(free), "cell")]
    return {"Settle": view.only(is_moving, cell=chosen[is_moving])}


def neighbors_of(cell: Array, group: Array, side: int) -> tuple[Array, Array]:
    """Return the number of like and of other people in the eight cells around each person."""
    lives = np.zeros((2, side * side), np.bool_)  # a layer for each group
    lives[group, cell] = True
    count = np.stack([Grid(side, side).sum_neighbors(layer) for layer in lives])
    return count[group, cell], count[1 - group, cell]


def like_share(cell: Array, group: Array, side: int) -> float:
    """Return the mean share of like neighbors over all people with neighbors."""
    like, others = neighbors_of(cell, group, side)
    has_some = like + others > 0
    return float((like[has_some] / (like + others)[has_some]).mean())


def alike(state: WorldState) -> float:
    """Return the mean share of like neighbors."""
    people, cells = state.columns(PEOPLE) or {}, state.columns(CELLS) or {}
    return like_share(people["cell"], people["group"], isqrt(len(cells["who"])))
