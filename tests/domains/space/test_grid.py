"""Grids in plain Python: coordinates, neighbors, distances, and the arguments that are refused."""

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.domains.space import Grid

GRIDS = st.builds(
    Grid,
    st.integers(1, 9),
    st.integers(1, 9),
    torus=st.booleans(),
    neighborhood=st.sampled_from(["moore", "von_neumann"]),
)
RADII = st.integers(1, 3)
grid_of: Any = Grid  # with arguments that its types forbid


@given(GRIDS)
def test_each_cell_has_a_number_and_coordinates(grid):
    cells = [grid.cell(x, y) for y, x in product(range(grid.height), range(grid.width))]
    assert cells == list(range(grid.count))
    assert [grid.cell(*grid.xy(cell)) for cell in cells] == cells


@given(GRIDS, RADII)
def test_neighbors_are_the_cells_at_most_a_radius_away(grid, radius):
    """And each cell is a neighbor of its neighbors, because a distance is symmetric."""
    for cell in range(grid.count):
        near = [c for c in range(grid.count) if 0 < grid.distance(cell, c) <= radius]
        assert sorted(grid.neighbors(cell, radius)) == near
        assert all(cell in grid.neighbors(other, radius) for other in near)


@given(GRIDS, st.data())
def test_distance_is_the_number_of_steps_from_neighbor_to_neighbor(grid, data):
    start = data.draw(st.integers(0, grid.count - 1))
    steps, reached = {start: 0}, [start]
    for cell in reached:
        for other in grid.neighbors(cell):
            if other not in steps:
                steps[other] = steps[cell] + 1
                reached.append(other)
    assert steps == {cell: grid.distance(start, cell) for cell in range(grid.count)}


def test_neighbors_are_ordered_row_by_row_as_seen_from_the_cell():
    assert Grid(5, 5).neighbors(12) == (6, 7, 8, 11, 13, 16, 17, 18)
    assert Grid(5, 5, neighborhood="von_neumann").neighbors(12) == (7, 11, 13, 17)
    assert Grid(5, 5).neighbors(0) == (1, 5, 6)
    assert Grid(5, 5, torus=True).neighbors(0) == (24, 20, 21, 4, 1, 9, 5, 6)
    assert Grid(2, 2, torus=True).neighbors(0) == (3, 2, 1)  # each once
    assert len(Grid(9, 9, neighborhood="von_neumann").neighbors(40, 2)) == 12


def test_torus_wraps_coordinates_around():
    assert Grid(4, 3, torus=True).cell(-1, 3) == 3
    with pytest.raises(IndexError, match=r"no cell \(-1, 0\) in a grid of 4 x 3 cells"):
        Grid(4, 3).cell(-1, 0)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: grid_of(0, 3), ValueError, "the width of a grid is an int >= 1, got 0"),
        (lambda: grid_of(3, -1), ValueError, "the height of a grid is an int >= 1, got -1"),
        (lambda: grid_of(3, 2.0), ValueError, r"got 2\.0"),
        (lambda: grid_of(2**16, 2**16), ValueError, "at most 2147483647 cells, got 4294967296"),
        (lambda: grid_of(3, 3, torus=1), ValueError, "`torus` of a grid is True or False, got 1"),
        (lambda: grid_of(3, 3, neighborhood="more"), ValueError, "did you mean 'moore'"),
        (lambda: grid_of(3, 3, wrap=True), TypeError, "has no parameter 'wrap'"),
        (lambda: grid_of(3, 3).neighbors(9), IndexError, r"has the cells 0\.\.8, got 9"),
        (lambda: grid_of(3, 3).neighbors(-1), IndexError, r"has the cells 0\.\.8, got -1"),
        (lambda: grid_of(3, 3).neighbors(1.5), TypeError, "integer"),
        (lambda: grid_of(3, 3).neighbors(1, 0), ValueError, "an int >= 1, got 0"),
    ],
)
def test_grid_that_cannot_be_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
