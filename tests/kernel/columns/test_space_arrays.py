"""Laws of grids and networks as arrays: they are what plain Python says of one cell or node."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.domains.space import Grid, Network, random_network

GRIDS = st.builds(
    Grid,
    st.integers(1, 8),
    st.integers(1, 8),
    torus=st.booleans(),
    neighborhood=st.sampled_from(["moore", "von_neumann"]),
)
RADII = st.integers(1, 3)
ALL_GRIDS = [
    Grid(width, height, torus=torus, neighborhood=neighborhood)  # type: ignore[arg-type]
    for (width, height), torus, neighborhood in product(
        [(1, 1), (2, 3), (5, 4), (9, 9)], [False, True], ["moore", "von_neumann"]
    )
]
UNITS = np.linspace(0, 1, 400, endpoint=False)


@pytest.mark.parametrize("radius", [1, 2, 3])
@pytest.mark.parametrize("grid", ALL_GRIDS, ids=str)
def test_array_of_neighbors_has_the_cells_of_plain_python_for_every_cell(grid, radius):
    rows = grid.neighbor_array(np.arange(grid.count), radius)
    assert rows.shape == (grid.count, len(grid.offsets(radius)))
    for cell, row in enumerate(rows.tolist()):
        assert tuple(other for other in row if other >= 0) == grid.neighbors(cell, radius)


@given(GRIDS, RADII, st.data())
def test_sum_over_neighbors_is_that_of_plain_python(grid, radius, data):
    cells = st.lists(st.integers(-9, 9), min_size=grid.count, max_size=grid.count)
    layer = data.draw(cells)
    expected = [sum(layer[n] for n in grid.neighbors(c, radius)) for c in range(grid.count)]
    total = grid.sum_neighbors(np.array(layer, "i1"), radius)
    assert total.tolist() == expected
    assert total.dtype == np.int64
    mask = np.array(layer) > 0
    counts = [sum(layer[n] > 0 for n in grid.neighbors(c, radius)) for c in range(grid.count)]
    assert grid.sum_neighbors(mask, radius).tolist() == counts


@given(GRIDS, RADII, st.data())
def test_distances_are_those_of_plain_python(grid, radius, data):
    cells = st.integers(0, grid.count - 1)
    pairs = data.draw(st.lists(st.tuples(cells, cells), min_size=1))
    one, other = np.array(pairs).T
    expected = [grid.distance(a, b) for a, b in pairs]
    assert grid.distances(one, other).tolist() == expected


@given(GRIDS, RADII)
def test_each_neighbor_is_chosen_by_an_equal_part_of_the_draws(grid, radius):
    for cell in range(grid.count):
        chosen = grid.choose_neighbor(np.full(len(UNITS), cell), UNITS, radius)
        among = grid.neighbors(cell, radius)
        assert tuple(dict.fromkeys(chosen.tolist())) == (among or (-1,))
        counts = np.unique(chosen, return_counts=True)[1]
        assert counts.max() - counts.min() <= 1


def test_no_cell_has_no_neighbors():
    grid = Grid(3, 3)
    assert grid.neighbor_array([4, -1])[1].tolist() == [-1] * 8
    assert grid.choose_neighbor([-1, 4], [0.5, 0.0]).tolist() == [-1, 0]
    network = Network(3, [(0, 1), (1, 2)])
    assert network.neighbor_array([1, -1, 0]).tolist() == [[0, 2], [-1, -1], [1, -1]]
    assert network.choose_neighbor([-1, 1, 1], [0.5, 0.0, 0.9]).tolist() == [-1, 0, 2]


# diffusion


@given(GRIDS, RADII, st.floats(0, 1), st.integers(0, 2**32 - 1))
def test_diffusion_keeps_the_sum_within_rounding_and_the_range(grid, radius, rate, seed):
    layer = np.random.default_rng(seed).uniform(0, 10, grid.count)
    after = grid.diffuse(layer, rate, radius)
    exact = sum(map(Fraction, layer.tolist())), sum(map(Fraction, after.tolist()))
    # Each cell is the sum of a product and of at most 48 shares, each rounded by 2**-53 of 10.
    assert abs(exact[0] - exact[1]) <= grid.count * 100 * 10 * 2.0**-53
    assert layer.min() <= after.min()
    assert after.max() <= layer.max()


def test_diffusion_spreads_equal_parts_and_keeps_what_an_edge_does_not_take():
    layer = np.zeros(9)
    layer[4] = 8.0
    assert Grid(3, 3).diffuse(layer, 0.5).tolist() == [0.5] * 4 + [4.0] + [0.5] * 4
    corner = np.zeros(9)
    corner[0] = 8.0
    after = Grid(3, 3).diffuse(corner, 0.5)
    assert after[[0, 1, 3, 4]].tolist() == [4.0 + 5 * 0.5, 0.5, 0.5, 0.5]
    assert Grid(1, 1).diffuse([3.0], 1.0).tolist() == [3.0]
    full = np.full(25, 1.0)  # rounding passes no bound: 0.7 + 8 * (0.3 / 8) may be above 1
    for rate in UNITS:
        assert Grid(5, 5).diffuse(full, float(rate)).max() <= 1.0


@given(GRIDS, RADII, st.integers(0, 2**32 - 1))
def test_bits_of_a_sum_are_those_of_one_addition_after_another(grid, radius, seed):
    """So they do not depend on how an array is split, as those of a pairwise sum do."""
    layer = np.random.default_rng(seed).uniform(-1, 1, grid.count)
    total = grid.sum_neighbors(layer, radius)
    for cell in range(grid.count):
        one_by_one = 0.0
        for other in grid.neighbors(cell, radius):
            one_by_one += float(layer[other])
        assert total[cell] == one_by_one


# networks


@given(st.integers(1, 12), st.data())
def test_arrays_of_a_network_are_its_neighbors_in_plain_python(count, data):
    nodes = st.integers(0, count - 1)
    drawn = data.draw(st.lists(st.tuples(nodes, nodes), max_size=30))
    is_directed = data.draw(st.booleans())
    order = (lambda pair: pair) if is_directed else (lambda pair: tuple(sorted(pair)))
    edges = sorted({order(pair) for pair in drawn if pair[0] != pair[1]})
    network = Network(count, edges, directed=is_directed)
    assert network.edges() == tuple(edges)
    rows = network.neighbor_array(np.arange(count)).tolist()
    found = [tuple(other for other in row if other >= 0) for row in rows]
    assert found == [network.neighbors(node) for node in range(count)]
    links = network.links
    pairs = list(zip(links.sources.tolist(), links.targets.tolist(), strict=True))
    assert pairs == [(a, b) for a in range(count) for b in network.neighbors(a)]
    values = np.random.default_rng(count).uniform(-1, 1, count)
    for node, total in enumerate(network.sum_neighbors(values)):
        one_by_one = 0.0
        for other in network.neighbors(node):
            one_by_one += float(values[other])
        assert total == one_by_one
    counts = [sum(values[b] > 0 for b in network.neighbors(a)) for a in range(count)]
    assert network.sum_neighbors(values > 0).tolist() == counts
    for node in range(count):
        chosen = network.choose_neighbor(np.full(len(UNITS), node), UNITS)
        assert tuple(dict.fromkeys(chosen.tolist())) == (network.neighbors(node) or (-1,))


def test_bits_of_a_sum_over_many_neighbors_are_those_of_ascending_additions():
    network = random_network(100, 30, seed=1)
    values = np.random.default_rng(1).uniform(-1, 1, 100)
    for node, total in enumerate(network.sum_neighbors(values)):
        one_by_one = 0.0
        for other in network.neighbors(node):
            one_by_one += float(values[other])
        assert total == one_by_one


def test_arrays_of_a_network_cannot_be_written():
    for each in random_network(9, 3, seed=1).links:
        with pytest.raises(ValueError, match="read-only"):
            each[0] = 1


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: Grid(3, 3).neighbor_array([0, 9]), IndexError, r"the cells 0\.\.8, got 9"),
        (lambda: Grid(3, 3).neighbor_array([-2]), IndexError, r"the cells 0\.\.8, got -2"),
        (lambda: Grid(3, 3).neighbor_array([0.5]), ValueError, "integers .*, got float64"),
        (lambda: Grid(3, 3).neighbor_array([[1]]), ValueError, r"shape \(1, 1\)"),
        (lambda: Network(2).neighbor_array([2]), IndexError, r"the nodes 0\.\.1, got 2"),
        (lambda: Grid(3, 3).sum_neighbors([1, 2]), ValueError, r"each of 9 cells, .*\(2,\)"),
        (lambda: Network(2).sum_neighbors(["a", "b"]), ValueError, "each of 2 nodes, got <U1"),
        (lambda: Grid(2, 1).diffuse([1, 2], 0.1), ValueError, "has floats, got int64"),
        (lambda: Grid(2, 1).diffuse([1.0], 0.1), ValueError, "each of 2 cells"),
        (lambda: Grid(2, 1).diffuse([1.0, 2.0], 1.5), ValueError, r"a share 0\.\.1, got 1\.5"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
