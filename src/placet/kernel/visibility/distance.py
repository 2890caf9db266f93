"""Visibility by distance: an area of interest around each agent, on a uniform grid.

A cell is as long as the reach, so all visible entities are in the 27 cells around an agent. A move
costs O(entities in these cells, before and after), independent of the number of agents.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from math import dist, floor
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from placet.kernel.state.tree import State
from placet.kernel.visibility.index import NO_AGENTS, Buckets, named
from placet.kernel.visibility.policy import Visibility
from placet.kernel.visibility.protocols import InterestIndex
from placet.schemas.identity import Ref
from placet.schemas.keywords import explain_keywords

if TYPE_CHECKING:
    from placet.kernel.visibility.table_cells import CellsOfTables, Rows

Place: TypeAlias = Sequence[float]
"""One to three finite coordinates."""
_Point: TypeAlias = tuple[float, float, float]
_ORIGIN: Final = (0.0, 0.0, 0.0)
_EMPTY: Final[Mapping[Ref, _Point]] = MappingProxyType({})

_SLACK: Final = 1 + 1e-9
"""Relative tolerance, as in the rules of a world: a distance equal to the limit is allowed."""
_CELL_SLACK: Final = 1 + 1e-6
"""Cells are longer than the reach by this factor, so a visible entity is at most one cell away."""
_CELLS_MAX: Final = 1e9
"""Entities farther out than this many cells are in the last cell, because floats are too coarse."""
_ROW: Final = 1 << 32
_AROUND: Final = tuple(
    (x * _ROW + y) * _ROW + z for x in (-1, 0, 1) for y in (-1, 0, 1) for z in (-1, 0, 1)
)


@explain_keywords
class WithinDistance(Visibility):
    """An agent sees entities within a distance, and entities without a position.

    Attributes:
        square: Square of the reach, with the tolerance for rounding.

    Args:
        reach: Maximum distance, in the unit of the world.
        agent_collection: Collection of the agents' own entities.
        field: Field of an entity with its position.
    """

    is_indexed = True

    def __init__(self, reach: float, agent_collection: str, field: str = "position") -> None:
        if not 0 < reach < float("inf"):
            raise ValueError(f"sight must reach a finite distance above 0, got {reach!r}")
        self.reach = reach
        self.agent_collection = agent_collection
        self.depends_on = self.indexed_by = frozenset({field})
        self._field = self.position_field = field
        self.square = (reach * _SLACK) ** 2

    def place(self, state: State, ref: Ref) -> Place | None:
        """Return the position of an entity, or None. Override it if agents carry entities."""
        if ref.entity is None:
            return None
        place: Place | None = state.get(ref.collection, ref.entity, self._field)
        return place

    def may_see(self, state: State, agent_id: str, ref: Ref) -> bool:
        """Return whether the entity is within the reach, or has no position.

        Nothing tells where a deleted entity was, so it is hidden from all agents but its own. So is
        a collection as a whole: entities out of reach come and go there.
        """
        there = self.place(state, ref)
        if there is None:
            entity = ref.entity
            is_there = entity is not None and state.exists(ref.collection, entity)
            return entity == agent_id or is_there
        here = self.place(state, Ref(self.agent_collection, agent_id))
        return here is not None and _square(_point(here), _point(there)) <= self.square

    def relevance(self, state: State, agent_id: str, ref: Ref) -> float:
        """Return 1 / (1 + (distance / reach)^2); 1 for an entity without a position."""
        here, there = self._places(state, agent_id, ref)
        if here is None or there is None:
            return 1.0
        return 1.0 / (1.0 + _square(_point(here), _point(there)) / self.square)

    def distance(self, state: State, agent_id: str, ref: Ref) -> float | None:
        """Return the distance from the agent's own entity; None if one of them has no position."""
        here, there = self._places(state, agent_id, ref)
        return None if here is None or there is None else distance_between(here, there)

    def _places(self, state: State, agent_id: str, ref: Ref) -> tuple[Place | None, Place | None]:
        return self.place(state, Ref(self.agent_collection, agent_id)), self.place(state, ref)

    def candidate_rows(
        self, state: State, agent_id: str, table: str, cells: "CellsOfTables"
    ) -> "Rows | None":
        """Return the rows within the reach; None where the rows have no positions."""
        rows = state.tables[table]
        field = rows.fields.get(self._field)
        if field is None or type(self).place is not WithinDistance.place:
            return None
        if len(field.sizes) != 1 or field.sizes[0] > len(_ORIGIN):
            return None
        here = self.place(state, Ref(self.agent_collection, agent_id))
        if here is None:
            return cells.rows(())
        reach = self.reach * _CELL_SLACK
        x, y, z = _point(here)
        low, high = (x - reach, y - reach, z - reach), (x + reach, y + reach, z + reach)
        return cells.of(rows, self._field, reach).in_box(low, high)

    def new_index(self) -> InterestIndex:
        """Return an empty interest index: a grid of cells."""
        return _Grid(self)


class _Grid:
    """Positions in a grid of cells.

    The neighborhood of a cell is computed once between two changes.
    """

    def __init__(self, sight: WithinDistance) -> None:
        self._sight = sight
        self._cell_length = sight.reach * _CELL_SLACK
        self._square = sight.square
        self._buckets: Buckets[int, _Point] = Buckets(sight.agent_collection)
        self._near: dict[_Point, dict[Ref, None]] = {}

    def observers_of(self, ref: Ref) -> Set[str] | None:
        """Return the agents within reach of an entity; an empty set if it does not exist.

        For an entity without a position return None: every agent.
        """
        held = self._buckets.find(ref)
        if held is None:
            return None if ref in self._buckets.everywhere else NO_AGENTS
        agent_collection = self._sight.agent_collection
        return named(
            who
            for where, who in self._around(*held)
            if where == agent_collection and who is not None
        )

    def candidates_for(self, agent_id: str) -> Set[Ref] | None:
        """Return the entities around an agent, and those without a position."""
        held = self._buckets.find(Ref(self._sight.agent_collection, agent_id))
        everywhere = self._buckets.everywhere
        near = {} if held is None else self._around(*held)
        return {**near, **everywhere}.keys() if everywhere else near.keys()

    def update(self, state: State, refs: Iterable[Ref]) -> None:
        """Move the changed entities to their cells."""
        sight, buckets = self._sight, self._buckets
        self._near.clear()
        for ref in refs:
            if ref.entity is None or not state.exists(ref.collection, ref.entity):
                buckets.remove(ref)
                continue
            place = sight.place(state, ref)
            if place is None:
                buckets.put_everywhere(ref)
            else:
                x, y, z = point = _point(place)
                buckets.put(ref, (self._row(x) * _ROW + self._row(y)) * _ROW + self._row(z), point)

    def _row(self, at: float) -> int:
        return floor(min(max(at / self._cell_length, -_CELLS_MAX), _CELLS_MAX))

    def _around(self, cell: int, point: _Point) -> dict[Ref, None]:
        near = self._near.get(point)
        if near is None:
            near = self._near[point] = {}
            x, y, z = point
            square, find = self._square, self._buckets.entities.get
            for step in _AROUND:
                for ref, (a, b, c) in find(cell + step, _EMPTY).items():
                    if (a - x) * (a - x) + (b - y) * (b - y) + (c - z) * (c - z) <= square:
                        near[ref] = None
        return near


def distance_between(first: Place, second: Place) -> float:
    """Return the distance between two positions of one to three coordinates."""
    return dist(_point(first), _point(second))


def _square(first: _Point, second: _Point) -> float:
    (a, b, c), (x, y, z) = first, second
    return (a - x) * (a - x) + (b - y) * (b - y) + (c - z) * (c - z)


def _point(place: Place) -> _Point:
    if len(place) != 3:  # noqa: PLR2004  # one or two coordinates are on a line or a plane
        place = (*place, 0.0, 0.0)
    return (place[0], place[1], place[2])
