"""The agents of each cell, for ordinary rules over objects: plain Python, without a table.

The cell of an agent is a field of the agent's entity. The agents of a cell are a field of the
cell's entity, which is created with the first agent. So a rule finds the agents of a cell without a
search. A rule reads the moves of earlier rules, so the capacity is checked without a claim.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from operator import index
from typing import Final

from placet.domains.space.grid import Grid
from placet.domains.space.space_protocol import Space, require_capacity
from placet.kernel.plugin.refusals import RuleRefusal, refuse
from placet.kernel.state.draft import Draft
from placet.schemas.codec import Json
from placet.schemas.identity import Ref
from placet.schemas.keywords import explain_keywords
from placet.schemas.portrayal import Portrayal, Portrayals

NOWHERE: Final = -1
_AGENTS: Final = "agents"


@explain_keywords
@dataclass(frozen=True, slots=True)
class Occupancy:
    """The places of agents in the cells of a grid, or at the nodes of a network.

        GRID = Grid(25, 25, torus=True)
        PLACES = Occupancy(GRID, agents="forest.foxes", cells="forest.cells", capacity=None)

    Attributes:
        space: The grid or the network.
        agents: Collection of the agents, whose entities exist before they get a place.
        cells: Collection of the cells, of this object alone.
        capacity: Agents of a cell, at most; None is no bound.
        agent_field: Field of the agents that has the number of their cell.

    Raises:
        ValueError: The capacity is invalid, or the collections are one.
    """

    space: Space
    agents: str
    cells: str
    _: KW_ONLY
    capacity: int | None = 1
    agent_field: str = "cell"

    def __post_init__(self) -> None:
        require_capacity(self.capacity)
        if self.agents == self.cells:
            raise ValueError(f"agents and cells are two collections, got {self.cells!r} twice")

    @property
    def portrayals(self) -> Portrayals:
        """How a player draws the agents: in the cells of the grid; of a network, not at all."""
        if isinstance(self.space, Grid) and self.agent_field == "cell":
            return {self.agents: Portrayal(width=self.space.width)}
        return {}

    def key(self, cell: int) -> str:
        """Return the name of the entity of a cell: `cells:17` in `forest.cells`."""
        return f"{self.cells.rpartition('.')[2]}:{index(cell)}"

    def occupants(
        self, source: Draft | Mapping[str, Mapping[str, Mapping[str, Json]]], *cells: int
    ) -> tuple[str, ...]:
        """Return the agents in some cells, cell by cell, and sorted in each. O(cells).

        `PLACES.occupants(draft, *GRID.neighbors(cell))` are the agents around a cell.

        Args:
            source: The draft of a rule, or a state such as `view.state` of a policy.
            *cells: Numbers of cells.
        """
        found: list[str] = []
        if isinstance(source, Draft):
            for cell in cells:
                found += source.get(self.cells, self.key(cell), _AGENTS, ())
        else:
            rows = source.get(self.cells, {})
            for cell in cells:
                found += rows.get(self.key(cell), {}).get(_AGENTS, ())
        return tuple(found)

    def move(self, draft: Draft, agent_id: str, to: int) -> RuleRefusal | None:
        """Move an agent to a cell, from the cell where it is, or from none.

        Return it from a rule or from `on_register`: it is None, or the refusal `no_cell` or
        `occupied`. A move to the present cell changes nothing.

        Raises:
            KeyError: The agent has no entity.
            TypeError: The number is no int.
        """
        to = index(to)
        if not 0 <= to < self.space.count:
            return refuse("no_cell", f"there are the cells 0..{self.space.count - 1}, got {to}")
        if to == draft.get(self.agents, agent_id, self.agent_field, NOWHERE):
            return None
        there = self.occupants(draft, to)
        if self.capacity is not None and len(there) >= self.capacity:
            return refuse(
                "occupied",
                f"cell {to} is full, its capacity is {self.capacity}; choose another cell",
                changed=[Ref(self.cells, self.key(to))],
            )
        self._take_out(draft, agent_id)
        draft.put(self.agents, agent_id, self.agent_field, to)
        if not draft.exists(self.cells, self.key(to)):
            draft.create(self.cells, self.key(to))
        draft.put(self.cells, self.key(to), _AGENTS, tuple(sorted((*there, agent_id))))
        return None

    def leave(self, draft: Draft, agent_id: str) -> None:
        """Take an agent out of its cell, if it is in one: its field is then -1.

        Call it in `on_remove`, before the entity of the agent is deleted.

        Raises:
            KeyError: The agent has no entity.
        """
        self._take_out(draft, agent_id)
        draft.put(self.agents, agent_id, self.agent_field, NOWHERE)

    def _take_out(self, draft: Draft, agent_id: str) -> None:
        cell = draft.get(self.agents, agent_id, self.agent_field, NOWHERE)
        if cell != NOWHERE:
            rest = tuple(other for other in self.occupants(draft, cell) if other != agent_id)
            draft.put(self.cells, self.key(cell), _AGENTS, rest)
