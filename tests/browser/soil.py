"""A model with cells that are no square: people walk over soil that dries."""

from typing import Any

import numpy as np

from placet.domains.space import CellTable, Grid
from placet.kernel import Domain, Draft, Field, Kind, Table
from placet.kernel.plugin.domain import NewPopulation
from placet.kernel.plugin.rows import Rows

GRID = Grid(30, 20, torus=True)
CELLS = CellTable(
    GRID, "soil.cells", layers={"water": Field("f4", low=0), "kind": Field("u1", high=3)}
)


class Soil(Domain):
    """Soil whose water is a slope at first, in kinds of stripes."""

    name, version = "soil", "1"
    tables = (Table("soil.people", {"cell": CELLS.field}), CELLS.table)

    def __init__(self) -> None:
        self.kinds = (Kind("Go", {"cell": CELLS.field}, rows=self._go, table="soil.people"),)

    def settings(self) -> dict[str, Any]:
        return {}

    def on_open(self, draft: Draft) -> None:
        cells, numbers = draft.columns("soil.cells"), np.arange(GRID.count)
        cells.set("water", numbers // GRID.width)
        cells.set("kind", numbers % 3)

    def on_populate(self, draft: Draft, population: NewPopulation) -> None:
        CELLS.populate(draft, population, np.arange(population.count))

    def on_tick(self, draft: Draft, sim_time: float) -> None:
        cells = draft.columns("soil.cells")
        cells.set("water", cells["water"] * 0.5)

    def _go(self, rows: Rows) -> None:
        CELLS.move(rows, rows.payload["cell"])


def go(view: Any) -> dict[str, Any]:
    """Walk to the cell above."""
    return {"Go": {"cell": (view["cell"] + GRID.width) % GRID.count}}
