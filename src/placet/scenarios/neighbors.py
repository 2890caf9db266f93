"""Pairs of near rows by a uniform grid, for the policies of populations."""

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]

_CELLS_A_ROW: Final = 4
"""Cells of the grid a row, at most: a small radius in a wide plane would make a grid of no use."""

_ON_A_RING: Final = 3
"""Cells of an axis of a torus, at least: with fewer, a cell would be its neighbor on both sides."""

PAIRS_MAX: Final = 1 << 27
"""Pairs in adjacent cells that are looked at for one direction, at most: 3 GiB of arrays."""


class Pairs(NamedTuple):
    """Pairs of rows at most a radius apart, each pair once.

    Attributes:
        first: Number of one row of each pair.
        second: Number of the other.
        vectors: Vector from the first to the second, `(pairs, dimensions)`.
        rows: Number of rows.
    """

    first: Numbers
    second: Numbers
    vectors: Floats
    rows: int

    def sums(self, to_first: ArrayLike, to_second: ArrayLike) -> Floats:
        """Return for each row a sum over its neighbors, `(rows, ...)`.

        Args:
            to_first: Summand of the first row of each pair: a number, or an array with an item for
                each pair.
            to_second: Summand of the second row, likewise.
        """
        given = np.concatenate([self._spread(to_first), self._spread(to_second)])
        receivers = np.concatenate([self.first, self.second])
        flat = given.reshape(len(given), -1)
        sums = np.empty((self.rows, flat.shape[1]))
        for place, part in enumerate(flat.T):
            sums[:, place] = np.bincount(receivers, part, self.rows)
        return sums.reshape(self.rows, *given.shape[1:])

    def _spread(self, values: ArrayLike) -> Floats:
        given = np.asarray(values, np.float64)
        return given if given.ndim else np.full(len(self.first), given)


def neighbors(position: ArrayLike, radius: float, box: ArrayLike | None = None) -> Pairs:
    """Return the pairs of rows at most `radius` apart. O(rows + pairs in adjacent cells).

    The order of the pairs depends on the positions alone.

    Args:
        position: Positions, `(rows, dimensions)`.
        radius: Greatest distance of a pair, above 0.
        box: Size of a torus, one number or one an axis, whose positions are 0 to its size; pairs
            are then measured the shorter way. None is a plane.

    Raises:
        ValueError: The radius, the box or the positions do not fit, or the radius is so large that
            almost all pairs would be listed.
    """
    at = np.asarray(position, np.float64)
    if at.ndim != 2:  # noqa: PLR2004  # rows and axes
        raise ValueError(f"positions are (rows, dimensions), got an array of shape {at.shape}")
    if not radius > 0:
        raise ValueError(f"the radius of neighbors must be above 0, got {radius!r}")
    size = None if box is None else np.broadcast_to(np.asarray(box, np.float64), at.shape[1:])
    if size is not None and not (len(at) == 0 or ((at >= 0) & (at <= size)).all()):
        raise ValueError(f"positions on a torus must be 0 to its size {size.tolist()}")
    return _pairs(at, float(radius), size)


def _pairs(at: Floats, radius: float, size: Floats | None) -> Pairs:
    count, axes = at.shape
    cells, cell = _grid(at, radius, size)
    strides = np.cumprod([1, *cells[:-1]])
    ids = cell @ strides
    order = np.argsort(ids, kind="stable")
    held = np.bincount(ids, minlength=int(np.prod(cells)))
    start = np.cumsum(held) - held
    sorted_at, sorted_cell, places = at[order], cell[order], np.arange(count)
    parts: list[tuple[Numbers, Numbers, Floats]] = []
    for offset in _half_of(axes):
        other = sorted_cell + offset
        if size is None:
            is_inside = ((other >= 0) & (other < cells)).all(axis=1)
            target = np.where(is_inside, other @ strides, 0)
            held_there = np.where(is_inside, held[target], 0)
        else:
            target = (other % cells) @ strides
            held_there = held[target]
        begin, end = start[target], start[target] + held_there
        if not offset.any():
            begin = places + 1  # the later rows of the same cell
        i, j = _listed(begin, np.maximum(end - begin, 0))
        vectors = sorted_at[j] - sorted_at[i]
        if size is not None:
            vectors -= size * np.rint(vectors / size)
        near = np.flatnonzero((vectors * vectors).sum(axis=1) <= radius * radius)
        parts.append((order[i[near]], order[j[near]], vectors[near]))
    first, second, vectors = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Pairs(first, second, vectors, count)


def _grid(at: Floats, radius: float, size: Floats | None) -> tuple[Numbers, Numbers]:
    """Return the number of cells of each axis, and the cell of each row; a cell spans a radius."""
    count, axes = at.shape
    low = np.zeros(axes) if size is not None or not count else at.min(axis=0)
    extent = size if size is not None else (at.max(axis=0) - low if count else np.ones(axes))
    most = max(_ON_A_RING, int((_CELLS_A_ROW * count + 1) ** (1 / axes)))
    cells = np.clip(extent // radius, 1 if size is None else _ON_A_RING, most).astype(np.int64)
    width = np.where(extent > 0, extent, 1.0) / cells
    cell = np.minimum(((at - low) / width).astype(np.int64), cells - 1)
    return cells, cell


def _half_of(axes: int) -> list[Any]:
    """Return the own cell and half of the adjacent ones: the other half meets this cell."""
    offsets = np.stack(np.meshgrid(*[[-1, 0, 1]] * axes, indexing="ij"), -1).reshape(-1, axes)
    return list(offsets[len(offsets) // 2 :])


def _listed(begin: Numbers, counts: Numbers) -> tuple[Numbers, Numbers]:
    """Return the pairs of each row with the rows of a range of places."""
    total = int(counts.sum())
    if total > PAIRS_MAX:
        raise ValueError(
            f"the radius of neighbors is too large: {total} pairs are in adjacent cells, and at "
            f"most {PAIRS_MAX} are looked at; choose a smaller one"
        )
    i = np.repeat(np.arange(len(counts)), counts)
    j = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(begin, counts)
    return i, j
