"""The rows of a table that a policy may show to an agent; None where nothing narrows them."""

import pytest

from placet.kernel.visibility.distance import WithinDistance
from placet.kernel.visibility.policy import AllOf, AnyOf, Visibility, candidate_rows
from placet.kernel.visibility.table_cells import CellsOfTables
from tests.actors.observation.flock import flock_kernel, near_birds


class Plain:
    """A policy of a release without tables."""

    agent_collection, hides = "flock.birds", None


class OfOthers(Visibility):
    """A policy that hides entities of another collection."""

    hides = frozenset({"flock.walkers"})


@pytest.mark.parametrize(
    "policy",
    [
        Visibility(),
        Plain(),
        OfOthers(),
        WithinDistance(5.0, "flock.birds", "height"),
        WithinDistance(5.0, "flock.birds", "energy"),
        AnyOf(near_birds(), Visibility()),
    ],
)
def test_any_row_may_be_visible(policy):
    kernel = flock_kernel(None)
    assert candidate_rows(policy, kernel.tree, "birds:0", "flock.birds", CellsOfTables()) is None


def test_a_part_that_narrows_nothing_leaves_the_other():
    kernel, cells = flock_kernel(None), CellsOfTables()
    alone = candidate_rows(near_birds(), kernel.tree, "birds:0", "flock.birds", cells)
    both = AllOf(Visibility(), near_birds())
    rows = candidate_rows(both, kernel.tree, "birds:0", "flock.birds", cells)
    assert rows is not None
    assert alone is not None
    assert rows.tolist() == alone.tolist()


def test_the_sorts_that_are_kept_are_bounded():
    table, cells = flock_kernel(None).tree.tables["flock.birds"], CellsOfTables()
    first = cells.of(table, "position", 1.0)
    assert cells.of(table, "position", 1.0) is first
    for side in range(2, 30):
        cells.of(table, "position", float(side))
    assert cells.of(table, "position", 1.0) is not first


def test_an_observer_without_a_place_has_no_rows_near_it():
    kernel, cells = flock_kernel(None), CellsOfTables()
    rows = candidate_rows(near_birds(), kernel.tree, "nobody", "flock.birds", cells)
    assert rows is not None
    assert rows.tolist() == []


def test_the_rows_of_any_part_are_put_together():
    kernel, cells = flock_kernel(None), CellsOfTables()
    alone = candidate_rows(near_birds(), kernel.tree, "birds:0", "flock.birds", cells)
    both = AnyOf(near_birds(), near_birds())
    rows = candidate_rows(both, kernel.tree, "birds:0", "flock.birds", cells)
    assert rows is not None
    assert alone is not None
    assert rows.tolist() == sorted(alone.tolist())
