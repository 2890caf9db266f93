"""Positions of entities, and a grid of cells that finds the entities in a box.

A position is the value of an entity's position field: one to three finite numbers, in the unit of
the world. Missing coordinates are 0, so [x, y] lies in the plane of [x, y, 0]. An entity with any
other value in that field has no position.
"""

from collections.abc import Callable, Iterable
from math import floor, isfinite, prod
from typing import Final, TypeAlias

from placet.kernel.state.tree import State
from placet.kernel.visibility.index import Buckets
from placet.schemas.codec import Json
from placet.schemas.identity import Ref

Point: TypeAlias = tuple[float, float, float]
_Cell: TypeAlias = tuple[int, int, int]

_COORDINATES_MAX: Final = 3
_CELLS_MAX: Final = 1e9
"""Positions farther out than this many cells are in the last cell, where floats are too coarse."""


def point_of(value: Json) -> Point | None:
    """Return the value of a position field as a point; None if it is no position."""
    if not isinstance(value, tuple | list) or not 0 < len(value) <= _COORDINATES_MAX:
        return None
    for number in value:
        if type(number) is not float and type(number) is not int:
            return None
    try:
        x, y, z, *_ = (*map(float, value), 0.0, 0.0)
    except OverflowError:  # of an int
        return None
    return (x, y, z) if isfinite(x) and isfinite(y) and isfinite(z) else None


class PositionGrid:
    """The positions of entities in cells of one side.

    Args:
        side: Length of a cell's side, in the unit of the world.
        field_of: Returns the position field of a collection; None if it has none.
    """

    def __init__(self, side: float, field_of: Callable[[str], str | None]) -> None:
        self._side = side
        self._field_of = field_of
        self._buckets: Buckets[_Cell, Point] = Buckets("")

    def update(self, state: State, refs: Iterable[Ref]) -> None:
        """Move the changed entities to their cells; `state` is the state after the change."""
        for ref in refs:
            field = self._field_of(ref.collection)
            if field is None or ref.entity is None:
                continue
            point = point_of(state.get(ref.collection, ref.entity, field))
            if point is None:
                self._buckets.remove(ref)
            else:
                self._buckets.put(ref, self._cell(point), point)

    def in_box(self, low: Point, high: Point) -> list[tuple[Ref, Point]]:
        """Return the entities between two corners, and perhaps others around, with their positions.

        O(entities in the cells of the box), or O(entities) if there are fewer.
        """
        cells = self._buckets.entities
        axes = [
            range(least, most + 1)
            for least, most in zip(self._cell(low), self._cell(high), strict=True)
        ]
        if prod(map(len, axes)) > len(cells):
            return [item for entities in cells.values() for item in entities.items()]
        xs, ys, zs = axes
        boxes = (cells.get((x, y, z)) for x in xs for y in ys for z in zs)
        return [item for entities in boxes if entities for item in entities.items()]

    def _cell(self, point: Point) -> _Cell:
        x, y, z = (floor(min(max(at / self._side, -_CELLS_MAX), _CELLS_MAX)) for at in point)
        return x, y, z
