"""A grid of cells: numbers, coordinates, neighbors and distances."""

from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from operator import index
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

from placet.schemas.keywords import explain_keywords
from placet.schemas.name_suggestions import did_you_mean

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from placet.kernel.arrays.words import Array
    from placet.kernel.plugin.rows import Rows64

Neighborhood: TypeAlias = Literal["moore", "von_neumann"]
NEIGHBORHOODS: Final[tuple[Neighborhood, ...]] = get_args(Neighborhood)

CELLS_MAX: Final = 2**31 - 1
"""Cells of a grid, at most: the number of a cell fits into a field `i4`."""

_KEPT: Final = 64
"""Lists of offsets that are kept."""


@explain_keywords
@dataclass(frozen=True, slots=True)
class Grid:
    """A rectangle of cells, numbered from 0 row by row: the cell (x, y) is `y * width + x`.

    Attributes:
        width: Cells of a row.
        height: Rows of cells.
        torus: Whether opposite edges meet.
        neighborhood: `moore` has the diagonal cells too, eight at radius 1; `von_neumann` has four.

    Raises:
        ValueError: A size is below 1 or no int, the cells are too many, or the neighborhood is
            unknown.
    """

    width: int
    height: int
    _: KW_ONLY
    torus: bool = False
    neighborhood: Neighborhood = "moore"

    def __post_init__(self) -> None:
        for name, size in (("width", self.width), ("height", self.height)):
            if type(size) is not int or size < 1:
                raise ValueError(f"the {name} of a grid is an int >= 1, got {size!r}")
        if self.count > CELLS_MAX:
            raise ValueError(f"a grid has at most {CELLS_MAX} cells, got {self.count}")
        if type(self.torus) is not bool:
            raise ValueError(f"`torus` of a grid is True or False, got {self.torus!r}")
        if self.neighborhood not in NEIGHBORHOODS:
            hint = did_you_mean(str(self.neighborhood), NEIGHBORHOODS)
            raise ValueError(f"unknown neighborhood {self.neighborhood!r}; {hint}")

    @property
    def count(self) -> int:
        """Number of cells."""
        return self.width * self.height

    # one cell

    def cell(self, x: int, y: int) -> int:
        """Return the number of the cell at a column and a row; a torus wraps them around.

        Raises:
            IndexError: There is no such cell.
            TypeError: A coordinate is no int.
        """
        x, y = index(x), index(y)
        if self.torus:
            return y % self.height * self.width + x % self.width
        if not (0 <= x < self.width and 0 <= y < self.height):
            raise IndexError(
                f"there is no cell ({x}, {y}) in a grid of {self.width} x {self.height} cells"
            )
        return y * self.width + x

    def xy(self, cell: int) -> tuple[int, int]:
        """Return the column and the row of a cell.

        Raises:
            IndexError: There is no such cell.
            TypeError: The number is no int.
        """
        cell = index(cell)
        if not 0 <= cell < self.count:
            raise IndexError(
                f"a grid of {self.count} cells has the cells 0..{self.count - 1}, got {cell}"
            )
        return cell % self.width, cell // self.width

    def neighbors(self, cell: int, radius: int = 1) -> tuple[int, ...]:
        """Return the cells at most `radius` steps from a cell, without the cell itself.

        They are ordered row by row as seen from the cell. Each occurs once, also on a small torus.

        Raises:
            IndexError: There is no such cell.
            ValueError: The radius is below 1.
        """
        x, y = self.xy(cell)
        found = ((x + right, y + down) for right, down in self.offsets(radius))
        width, height = self.width, self.height
        if self.torus:
            return tuple([b % height * width + a % width for a, b in found])
        return tuple([b * width + a for a, b in found if 0 <= a < width and 0 <= b < height])

    def distance(self, one: int, other: int) -> int:
        """Return the number of steps between two cells, the shorter way on a torus.

        A step of `moore` may be diagonal.

        Raises:
            IndexError: There is no such cell.
        """
        (a, b), (c, d) = self.xy(one), self.xy(other)
        x, y = abs(a - c), abs(b - d)
        if self.torus:
            x, y = min(x, self.width - x), min(y, self.height - y)
        return max(x, y) if self.neighborhood == "moore" else x + y

    def offsets(self, radius: int = 1) -> tuple[tuple[int, int], ...]:
        """Return the steps (right, down) from a cell to its neighbors, row by row.

        Raises:
            ValueError: The radius is below 1.
        """
        if type(radius) is not int or radius < 1:
            raise ValueError(f"the radius of neighbors is an int >= 1, got {radius!r}")
        return _offsets(self, radius)

    # arrays

    def neighbor_array(self, cells: "ArrayLike", radius: int = 1) -> "Rows64":
        """Return the neighbors of each cell, `(n, k)`; -1 where there is none.

        Column i is the neighbor by the step `offsets(radius)[i]`. If no edge is within the radius
        of a cell, its row equals `neighbors(cell, radius)`. The number -1 has no neighbors.

        Raises:
            IndexError: A number is no cell, and is not -1.
            ValueError: The radius is below 1.
        """
        from placet.kernel.columns.space import grid_neighbors  # noqa: PLC0415  # numpy is an extra

        return grid_neighbors(self, self.offsets(radius), cells)

    def choose_neighbor(self, cells: "ArrayLike", unit: "ArrayLike", radius: int = 1) -> "Rows64":
        """Return one neighbor of each cell by a draw in [0, 1), `(n,)`; -1 if there is none.

        Args:
            cells: Numbers of cells.
            unit: Draws, such as `rows.random_unit("step")`.
            radius: Radius of the neighborhood.

        Raises:
            IndexError: A number is no cell, and is not -1.
            ValueError: The radius is below 1.
        """
        from placet.kernel.columns.space import grid_chosen  # noqa: PLC0415  # numpy is an extra

        return grid_chosen(self, self.offsets(radius), cells, unit)

    def distances(self, one: "ArrayLike", other: "ArrayLike") -> "Rows64":
        """Return the number of steps between cells, an item for each pair."""
        from placet.kernel.columns.space import grid_distances  # noqa: PLC0415  # numpy is an extra

        return grid_distances(self, one, other, is_moore=self.neighborhood == "moore")

    def sum_neighbors(self, layer: "ArrayLike", radius: int = 1) -> "Array":
        """Return the sum of a layer over the neighbors of each cell, `(cells,)`.

        Of a mask it is the number of neighbors. Booleans and integers are summed as `int64`, floats
        as `float64`, added in the order of `offsets`. O(cells x neighbors).

        Raises:
            ValueError: The layer has not one number a cell, or the radius is below 1.
        """
        from placet.kernel.columns.space import grid_sums  # noqa: PLC0415  # numpy is an extra

        return grid_sums(self, self.offsets(radius), layer)

    def diffuse(self, layer: "ArrayLike", rate: float, radius: int = 1) -> "NDArray[np.float64]":
        """Return a layer of which each cell has spread the share `rate` over its neighbors.

        Each neighbor gets an equal part; the parts beyond an edge stay in the cell. The sum of the
        layer is kept within rounding, and no value leaves the range of the layer.

        Args:
            layer: Floats, one a cell.
            rate: Share of each cell that is spread, 0..1.
            radius: Radius of the neighborhood.

        Raises:
            ValueError: The layer has not one float a cell, the rate is out of range, or the radius
                is below 1.

        Source: `diffuse` of NetLogo, Wilensky, 1999.
        """
        from placet.kernel.columns.space import diffused  # noqa: PLC0415  # numpy is an extra

        if not 0 <= rate <= 1:
            raise ValueError(f"the rate of diffusion is a share 0..1, got {rate!r}")
        return diffused(self, self.offsets(radius), layer, rate)


@lru_cache(maxsize=_KEPT)
def _offsets(grid: Grid, radius: int) -> tuple[tuple[int, int], ...]:
    """Return the steps to different cells that are not the cell itself.

    On a torus two steps may lead to one cell: the first one in the order of rows counts. Steps of a
    plane that leave it from every cell are left out.
    """
    x_max, y_max = min(radius, grid.width - 1), min(radius, grid.height - 1)
    seen = {(0, 0)}
    found: list[tuple[int, int]] = []
    for y in range(-y_max, y_max + 1):
        for x in range(-x_max, x_max + 1):
            place = (x % grid.width, y % grid.height) if grid.torus else (x, y)
            is_near = grid.neighborhood == "moore" or abs(x) + abs(y) <= radius
            if is_near and place not in seen:
                seen.add(place)
                found.append((x, y))
    return tuple(found)
