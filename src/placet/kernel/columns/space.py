"""Cells of grids and nodes of networks as arrays, and the rules of rows that move agents there.

`placet.domains.space` has the values that users make; the functions here receive their numbers and
load numpy. They are row-wise: a result for a row depends on that row and on the tables. Sums add
one array after another in a fixed order, so a sum has the same bits in any split of the rows.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from placet.kernel.arrays.words import Array
from placet.kernel.plugin.rows import Rows, Rows64
from placet.kernel.state.draft_columns import DraftColumns

Offsets: TypeAlias = Sequence[tuple[int, int]]

_BEYOND: Final = -(2**40)
"""Place beyond an edge: its sum with the place on the other axis is below 0."""


class Plane(Protocol):
    """The numbers of a grid that arrays are computed from."""

    @property
    def width(self) -> int:
        """Cells of a row."""

    @property
    def height(self) -> int:
        """Rows of cells."""

    @property
    def torus(self) -> bool:
        """Whether opposite edges meet."""


class Links(NamedTuple):
    """The links of a network in compressed sparse rows, in arrays of numpy.

    Attributes:
        offsets: Place of the first target of each node, and the number of targets, `(nodes + 1,)`.
        targets: Neighbors of node 0, of node 1 and on, each ascending, `(targets,)`.
        sources: Node whose neighbor each target is, `(targets,)`.
    """

    offsets: Rows64
    targets: Rows64
    sources: Rows64


# neighbors


def grid_neighbors(grid: Plane, offsets: Offsets, cells: ArrayLike) -> Rows64:
    """Return the neighbor of each cell by each offset, `(n, offsets)`; -1 beyond an edge.

    Raises:
        IndexError: A number is no cell, and is not -1.
    """
    return np.ascontiguousarray(_neighbors_by_offset(grid, offsets, cells).T)


def grid_chosen(grid: Plane, offsets: Offsets, cells: ArrayLike, unit: ArrayLike) -> Rows64:
    """Return one neighbor of each cell by a draw in [0, 1); -1 where there is none.

    Raises:
        IndexError: A number is no cell, and is not -1.
    """
    by_offset = _neighbors_by_offset(grid, offsets, cells)
    is_cell = by_offset >= 0
    rank = np.floor(np.asarray(unit) * is_cell.sum(axis=0)).astype(np.int64)
    chosen = np.full(by_offset.shape[1], -1)
    for column, is_some in zip(by_offset, is_cell, strict=True):
        chosen = np.where(is_some & (rank == 0), column, chosen)
        rank -= is_some
    return chosen


def _neighbors_by_offset(grid: Plane, offsets: Offsets, cells: ArrayLike) -> Rows64:
    """Return the neighbors as `(offsets, n)`, which is the order that they are computed in."""
    at = _numbers("cell", cells, grid.width * grid.height)
    x, y = at % grid.width, at // grid.width
    step = partial(_stepped, torus=grid.torus)
    rights, downs = sorted({right for right, _ in offsets}), sorted({down for _, down in offsets})
    to_x = {right: step(grid.width, right, 1).take(x) for right in rights}
    to_y = {down: step(grid.height, down, grid.width).take(y) for down in downs}
    found = np.empty((len(offsets), len(at)), np.int64)
    for row, (right, down) in zip(found, offsets, strict=True):
        np.add(to_x[right], to_y[down], out=row)
    np.maximum(found, -1, out=found)
    found[:, at < 0] = -1
    return found


def _stepped(size: int, step: int, stride: int, *, torus: bool) -> Rows64:
    """Return for each place of an axis the place after a step, times the stride."""
    to = np.arange(size) + step
    if torus:
        return to % size * stride
    return np.where((to < 0) | (to >= size), _BEYOND, to * stride)


def network_neighbors(links: Links, nodes: ArrayLike) -> Rows64:
    """Return the neighbors of each node, `(n, greatest degree)`; -1 after the last.

    Raises:
        IndexError: A number is no node, and is not -1.
    """
    at = _numbers("node", nodes, len(links.offsets) - 1)
    degree_max = np.diff(links.offsets).max()
    place = links.offsets[at][:, None] + np.arange(degree_max)
    is_link = (place < links.offsets[at + 1][:, None]) & (at >= 0)[:, None]
    padded = np.append(links.targets, -1)
    return padded[np.where(is_link, place, -1)]


def network_chosen(links: Links, nodes: ArrayLike, unit: ArrayLike) -> Rows64:
    """Return one neighbor of each node by a draw in [0, 1); -1 where there is none.

    Raises:
        IndexError: A number is no node, and is not -1.
    """
    at = _numbers("node", nodes, len(links.offsets) - 1)
    degree = np.where(at >= 0, links.offsets[at + 1] - links.offsets[at], 0)
    rank = np.floor(np.asarray(unit) * degree).astype(np.int64)
    padded = np.append(links.targets, -1)
    return padded[np.where(degree > 0, links.offsets[at] + rank, -1)]


def grid_distances(grid: Plane, one: ArrayLike, other: ArrayLike, *, is_moore: bool) -> Rows64:
    """Return the number of steps between cells, the shorter way on a torus."""
    a, b = np.asarray(one), np.asarray(other)
    x = np.abs(a % grid.width - b % grid.width)
    y = np.abs(a // grid.width - b // grid.width)
    if grid.torus:
        x, y = np.minimum(x, grid.width - x), np.minimum(y, grid.height - y)
    steps: Rows64 = np.maximum(x, y) if is_moore else x + y
    return steps


# layers


def grid_sums(grid: Plane, offsets: Offsets, layer: ArrayLike) -> Array:
    """Return the sum of a layer over the neighbors of each cell, `(cells,)`.

    Booleans and integers are summed as `int64`, floats as `float64`.

    Raises:
        ValueError: The layer has not one number a cell.
    """
    plane = _summed("cell", layer, grid.width * grid.height).reshape(grid.height, grid.width)
    total = np.zeros_like(plane)
    for x, y in offsets:
        if grid.torus:
            total += np.roll(plane, (-y, -x), (0, 1))
        else:
            to_y, from_y = _overlap(y, grid.height)
            to_x, from_x = _overlap(x, grid.width)
            total[to_y, to_x] += plane[from_y, from_x]
    return total.reshape(-1)


def _overlap(step: int, size: int) -> tuple[slice, slice]:
    """Return the places of an axis with a neighbor by a step, and those neighbors."""
    ahead, behind = max(step, 0), max(-step, 0)
    return slice(behind, size - ahead), slice(ahead, size - behind)


def diffused(grid: Plane, offsets: Offsets, layer: ArrayLike, rate: float) -> NDArray[np.float64]:
    """Return a layer of which each cell has spread the share `rate` over its neighbors.

    The shares beyond an edge stay in the cell. No value leaves the range of the layer.

    Raises:
        ValueError: The layer has not one float a cell.
    """
    values = np.asarray(layer)
    if values.dtype.kind != "f":
        raise ValueError(f"a layer that diffuses has floats, got {values.dtype}; declare it as f8")
    values = _summed("cell", values, grid.width * grid.height)
    degree = grid_sums(grid, offsets, np.ones(len(values)))
    # Of a layer >= 0 the rest is >= 0 after rounding too: a product is subtracted from 1.
    rest = values * (1 - rate * degree / max(len(offsets), 1))
    spread = rest + grid_sums(grid, offsets, values * (rate / max(len(offsets), 1)))
    # Rounding may pass the greatest value by a bit, which would be out of the field's bounds.
    return np.clip(spread, values.min(), values.max())


def network_sums(links: Links, values: ArrayLike) -> Array:
    """Return the sum of values over the neighbors of each node, `(nodes,)`.

    Booleans and integers are summed as `int64`, floats as `float64`.

    Raises:
        ValueError: There is not one number a node.
    """
    count = len(links.offsets) - 1
    given = _summed("node", values, count)
    total = np.zeros(count, given.dtype)
    np.add.at(total, links.sources, given[links.targets])  # one after another: the same bits
    return total


def links_of(offsets: bytes, targets: bytes) -> Links:
    """Return the arrays of a network from its numbers as bytes; they share the memory."""
    starts = np.frombuffer(offsets, np.int64)
    sources = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    sources.flags.writeable = False  # the others are views of bytes
    return Links(starts, np.frombuffer(targets, np.int64), sources)


def _numbers(what: str, given: ArrayLike, count: int) -> Rows64:
    """Return numbers of cells or nodes as an array; -1 stands for none."""
    numbers = np.asarray(given)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise ValueError(
            f"numbers of {what}s are integers (n,), got {numbers.dtype} of shape {numbers.shape}"
        )
    numbers = numbers.astype(np.int64, copy=False)
    wrong = (numbers < -1) | (numbers >= count)
    if wrong.any():
        raise IndexError(f"there are the {what}s 0..{count - 1}, got {numbers[wrong.argmax()]}")
    return numbers


def _summed(what: str, values: ArrayLike, count: int) -> NDArray[Any]:
    given = np.asarray(values)
    if given.shape != (count,) or given.dtype.kind not in "biuf":
        raise ValueError(
            f"values have one number for each of {count} {what}s, "
            f"got {given.dtype} of shape {given.shape}"
        )
    return given.astype(np.float64 if given.dtype.kind == "f" else np.int64, copy=False)


# agents in cells


class CellFields(NamedTuple):
    """The table of cells that agents are in, and their field that has the cell.

    Attributes:
        table: Name of the table of cells.
        field: Field of an agent with the number of its cell, -1 for none.
        capacity: Agents of a cell, at most; None is no bound.
    """

    table: str
    field: str
    capacity: int | None

    @property
    def occupancy(self) -> str:
        """Field of a cell: `who` is its one agent, `count` the number of its agents."""
        return "who" if self.capacity == 1 else "count"


def move(rows: Rows, fields: CellFields, to: ArrayLike) -> None:
    """Move the agent of each row to a cell, from the cell where it is, or from none."""
    held, home = rows.table(fields.table)[fields.occupancy], rows.own[fields.field]
    target = np.asarray(to)
    is_cell = (target >= 0) & (target < len(held))
    rows.refuse(~is_cell, "no_cell", "the cell must be one of the grid")
    is_moving = is_cell & (target != home)
    if fields.capacity is not None:
        there = held[np.where(is_cell, target, 0)]
        is_full = there >= (0 if fields.capacity == 1 else fields.capacity)
        rows.refuse(is_full & is_moving, "occupied", "the cell must have room for another agent")
    _change(rows, fields, np.where(is_moving, home, -1), np.where(is_moving, target, -1))
    rows.write(fields.field, target)


def leave(rows: Rows, fields: CellFields) -> None:
    """Take the agent of each row out of its cell, if it is in one."""
    _change(rows, fields, rows.own[fields.field], np.full(rows.n, -1))
    rows.write(fields.field, -1)


def _change(rows: Rows, fields: CellFields, left: Array, taken: Array) -> None:
    if fields.capacity == 1:
        rows.claim(fields.table, taken)
        rows.claim(fields.table, left)
        rows.put(fields.table, taken, "who", rows.numbers)
        rows.put(fields.table, left, "who", -1)
    else:
        rows.add(fields.table, left, "count", -1)
        rows.add(fields.table, taken, "count", 1)


def populate(
    cells: DraftColumns, people: DraftColumns, fields: CellFields, given: ArrayLike | None
) -> None:
    """Put each member of a new population into its cell.

    Args:
        cells: Columns of the table of cells.
        people: Columns of the table of the population.
        fields: The table of cells, the field of the members, and the capacity.
        given: Number of the cell of each member, -1 for none; None is the present field.

    Raises:
        IndexError: A number is no cell, and is not -1.
        ValueError: A cell would have more agents than its capacity.
    """
    wanted = people[fields.field] if given is None else given
    held = cells[fields.occupancy]
    at = _numbers("cell", wanted, len(held))
    before = (held >= 0).astype(np.int64) if fields.capacity == 1 else held
    after = before + np.bincount(at[at >= 0], minlength=len(held))
    if fields.capacity is not None and (after > fields.capacity).any():
        cell = int((after > fields.capacity).argmax())
        raise ValueError(
            f"cell {cell} of {fields.table} would have {after[cell]} agents, and has room for "
            f"{fields.capacity}; choose other cells"
        )
    if given is not None:
        people.set(fields.field, at)
    if fields.capacity == 1:
        inside = np.flatnonzero(at >= 0)
        cells.set("who", inside, at[inside])
    else:
        cells.set("count", after)
