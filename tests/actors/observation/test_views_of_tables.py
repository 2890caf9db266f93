"""Views of worlds with tables: the rows that the policies show, found by cells."""

from math import dist, floor

import numpy as np
import pytest

from placet.actors.observation.viewer import Viewer
from placet.kernel import ColumnBatch
from placet.kernel.state import table as table_module
from placet.kernel.visibility.policy import AllOf, AnyOf
from placet.kernel.visibility.positions import point_of
from placet.kernel.visibility.table_cells import TableCells
from placet.schemas.identity import Ref
from tests.actors.observation.flock import SIDE, flock_kernel, near_birds, near_walkers

AGENTS = ("birds:0", "birds:7", "w0", "w3", "nobody")
SIGHTS = {
    "none": lambda: None,
    "birds": near_birds,
    "walkers": near_walkers,
    "both": lambda: AllOf(near_birds(30.0), near_walkers(50.0)),
    "either": lambda: AnyOf(near_birds(), near_walkers()),
}


def moved(kernel, seed=2, some=None):
    """Move birds, all or some, and a walker."""
    rng = np.random.default_rng(seed)
    count = kernel.population("birds")["position"].shape[0]
    agents = None if some is None else rng.permutation(count)[:some]
    to = rng.uniform(0, SIDE, (count if some is None else some, 2))
    kernel.step(1.0, [ColumnBatch("Fly", "birds", {"to": to}, f"m:{seed}", agents=agents)])


def visible(kernel, agent_id):
    """Return what an agent may see, by asking about every entity."""
    registry, tree = kernel.registry, kernel.tree
    return {
        name: {
            entity: dict(row.fields)
            for entity, row in sorted(rows.entities.items())
            if registry.may_see(tree, agent_id, Ref(name, entity))
        }
        for name, rows in sorted(tree.collections.items())
    }


def distance(center, position):
    here, there = point_of(tuple(map(float, center))), point_of(position)
    assert here is not None
    assert there is not None
    return dist(here, there)


def shown(view):
    return {name: {e: dict(f) for e, f in rows.items()} for name, rows in view.state.items()}


@pytest.mark.parametrize("sight", SIGHTS)
def test_a_view_shows_the_rows_that_the_policy_shows(sight):
    kernel = flock_kernel(SIGHTS[sight]())
    viewer = Viewer(kernel)
    for seed in range(3):
        for agent in AGENTS:
            seen = {name: rows for name, rows in visible(kernel, agent).items() if rows}
            assert shown(viewer.view(kernel, agent)) == seen
        moved(kernel, seed, None if seed % 2 else 5)


@pytest.mark.parametrize("sight", [name for name in SIGHTS if name != "none"])
@pytest.mark.parametrize("radius", [0.0, 0.7, 9.0, 1e6])
def test_near_returns_the_visible_rows_within_the_radius(sight, radius):
    kernel = flock_kernel(SIGHTS[sight]())
    viewer = Viewer(kernel)
    for seed in range(3):
        for agent in AGENTS:
            for center in ([50.0, 50.0], list(kernel.population("birds")["position"][3])):
                expected = sorted(
                    Ref(name, entity)
                    for name, rows in visible(kernel, agent).items()
                    for entity, fields in rows.items()
                    if distance(center, fields["position"]) <= radius
                )
                view = viewer.view(kernel, agent)
                assert view.near(list(map(float, center)), radius) == expected
        moved(kernel, seed)


@pytest.mark.parametrize("dtype", ["f8", "f4", "i4"])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_at_returns_the_rows_in_the_cell(dtype, axes):
    kernel = flock_kernel(near_birds(500.0), dtype=dtype, axes=axes, n=300)
    view = Viewer(kernel).view(kernel, "birds:0")
    position = kernel.population("birds")["position"]
    corner = [floor(at) for at in position[5]]
    expected = [
        Ref("flock.birds", f"birds:{row}")
        for row in range(300)
        if [floor(at) for at in position[row]] == corner
    ]
    found = [ref for ref in view.at([*corner, 0, 0][:3]) if ref.collection == "flock.birds"]
    assert found == sorted(expected)


@pytest.mark.parametrize("dtype", ["f8", "f4", "i4"])
@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("side", [0.25, 3.0, 1e7])
def test_cells_find_every_row_in_a_box(dtype, axes, side):
    rng = np.random.default_rng(axes)
    column = rng.uniform(-50, 50, (400, axes)).astype(dtype)
    cells = TableCells(column, side)
    for _ in range(30):
        low = rng.uniform(-60, 40, 3)
        high = low + rng.uniform(0, 30, 3)
        if axes < 3:
            low[axes:], high[axes:] = -1.0, 1.0
        points = column.astype("f8")
        inside = ((points >= low[:axes]) & (points <= high[:axes])).all(axis=1)
        assert cells.in_box(tuple(low), tuple(high)).tolist() == np.flatnonzero(inside).tolist()


def test_cells_of_a_plane_hold_no_row_above_it():
    cells = TableCells(np.zeros((3, 2)), 1.0)
    assert cells.in_box((-1.0, -1.0, 2.0), (1.0, 1.0, 3.0)).tolist() == []
    assert cells.in_box((-1.0, -1.0, -1.0), (1.0, 1.0, 3.0)).tolist() == [0, 1, 2]


def test_cells_far_apart_compare_all_rows():
    cells = TableCells(np.array([[0.0, 0.0, 0.0], [1e18, 1e18, 1e18]]), 1e-9)
    assert cells.in_box((-1.0, -1.0, -1.0), (1.0, 1.0, 1.0)).tolist() == [0]
    assert TableCells(np.zeros((0, 2)), 1.0).in_box((0.0,) * 3, (1.0,) * 3).tolist() == []


def test_an_old_view_keeps_its_rows():
    kernel = flock_kernel(near_birds())
    viewer = Viewer(kernel)
    old, before = viewer.view(kernel, "birds:3"), visible(kernel, "birds:3")
    moved(kernel)
    after = viewer.view(kernel, "birds:3")
    assert shown(after) == {name: rows for name, rows in visible(kernel, "birds:3").items() if rows}
    assert shown(old) == {name: rows for name, rows in before.items() if rows}
    assert shown(old) != shown(after)


def test_a_view_of_the_neighbors_makes_entities_of_the_neighbors_alone(monkeypatch):
    """The cost of a view in a table of 100 000 rows, counted rather than measured."""
    count = 20_000
    kernel = flock_kernel(near_birds(1.0), n=count)
    viewer = Viewer(kernel)
    made = []
    whole = table_module.RowEntity.__init__

    def noted(self, table, row):
        made.append(row)
        whole(self, table, row)

    monkeypatch.setattr(table_module.RowEntity, "__init__", noted)
    view = viewer.view(kernel, "birds:17")
    seen = view.state["flock.birds"]
    assert 1 < len(seen) < 100
    assert view.near(kernel.population("birds")["position"][17].tolist(), 1.0)
    assert len(made) < count / 10
