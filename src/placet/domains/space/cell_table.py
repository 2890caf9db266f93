"""A table of cells: each row has the agents of a population in the cell, and layers of values.

With capacity 1 a cell has a field `who`, the number of its agent; otherwise a field `count`. A rule
of rows claims the cells in the first case, and adds to `count` in the second. The bounds of the
field hold for every writer, so no rule can exceed the capacity.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING

from placet.domains.space.grid import Grid
from placet.domains.space.space_protocol import Space, require_capacity
from placet.kernel.arrays.field import Field, Table
from placet.kernel.plugin.domain import NewPopulation
from placet.kernel.state.draft import Draft
from placet.schemas.keywords import explain_keywords
from placet.schemas.portrayal import Portrayal, Portrayals

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from placet.kernel.columns.space import CellFields
    from placet.kernel.plugin.rows import Rows


@explain_keywords
@dataclass(frozen=True, slots=True)
class CellTable:
    """A table with a row for each cell of a grid, or each node of a network.

        GRID = Grid(50, 50, torus=True)
        CELLS = CellTable(GRID, "city.cells", layers={"sugar": Field("f8", low=0)})
        PEOPLE = Table("city.people", {"cell": CELLS.field})

    The agents of one population are in the cells. An agent that dies leaves its cell by `leave`.

    Attributes:
        space: The grid or the network.
        name: Name of the table, such as `city.cells`.
        capacity: Agents of a cell, at most; None is no bound.
        agent_field: Field of the agents that has the number of their cell.
        layers: Further field of the cells by name.

    Raises:
        ValueError: The name, the capacity or a layer is invalid.
    """

    space: Space
    name: str
    _: KW_ONLY
    capacity: int | None = 1
    agent_field: str = "cell"
    layers: Mapping[str, Field] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_capacity(self.capacity)
        occupancy = "who" if self.capacity == 1 else "count"
        if occupancy in self.layers:
            raise ValueError(
                f"the table {self.name!r} has a field {occupancy!r} for its agents; name the layer "
                "otherwise"
            )
        _ = self.table  # checks the name and the layers

    @property
    def table(self) -> Table:
        """The table, for `Domain.tables`: the field of the agents, and the layers."""
        if self.capacity == 1:
            occupancy = {"who": Field("i4", default=-1, low=-1)}
        else:
            occupancy = {"count": Field("i4", low=0, high=self.capacity)}
        return Table(self.name, {**occupancy, **self.layers}, rows=self.space.count)

    @property
    def field(self) -> Field:
        """The field of an agent with the number of its cell; -1 is none, and the default."""
        return Field("i4", default=-1, low=-1, high=self.space.count - 1)

    @property
    def portrayals(self) -> Portrayals:
        """How a player draws the cells: as areas of the grid; nodes of a network, not at all."""
        if isinstance(self.space, Grid):
            return {self.name: Portrayal(width=self.space.width)}
        return {}

    def move(self, rows: "Rows", to: "ArrayLike") -> None:
        """Move the agent of each row to a cell, in a rule of rows.

        The agent leaves its cell, if it has one. A move to the present cell changes nothing.
        Refusals: `no_cell`; `occupied`, if the cell was full before the batch; `conflict` (with a
        capacity above 1 `out_of_bounds`), if other rows of the batch fill the cell.

        Args:
            rows: The argument of the rule.
            to: Number of the cell of each row; -1, as of `neighbor_array`, is refused.
        """
        from placet.kernel.columns.space import move  # noqa: PLC0415  # numpy is an extra

        move(rows, self._cell_fields(), to)

    def leave(self, rows: "Rows") -> None:
        """Take the agent of each row out of its cell, in a rule of rows; its field is then -1."""
        from placet.kernel.columns.space import leave  # noqa: PLC0415  # numpy is an extra

        leave(rows, self._cell_fields())

    def populate(
        self, draft: Draft, population: NewPopulation, cells: "ArrayLike | None" = None
    ) -> None:
        """Put the members of a new population into their cells, in `on_populate`.

        Args:
            draft: The draft of the hook.
            population: The new population.
            cells: Number of the cell of each member, -1 for none; None takes the field of the
                members with which the population is registered.

        Raises:
            IndexError: A number is no cell, and is not -1.
            ValueError: A cell would have more agents than its capacity.
        """
        from placet.kernel.columns.space import populate  # noqa: PLC0415  # numpy is an extra

        people = draft.columns(population.table)
        populate(draft.columns(self.name), people, self._cell_fields(), cells)

    def _cell_fields(self) -> "CellFields":
        from placet.kernel.columns.space import CellFields  # noqa: PLC0415  # numpy is an extra

        return CellFields(self.name, self.agent_field, self.capacity)
