"""`neighbors`: each near pair once, on a plane and on a torus, as a search of all pairs."""

import numpy as np
import pytest

from placet.scenarios import neighbors as module
from placet.scenarios.neighbors import neighbors


def by_hand(at, radius, box=None):
    vectors = at[None, :] - at[:, None]
    if box is not None:
        vectors = vectors - box * np.rint(vectors / box)
    near = (vectors * vectors).sum(axis=-1) <= radius * radius
    return {(i, j) for i, j in np.argwhere(near).tolist() if i < j}, vectors


def pairs_of(found):
    pairs = list(zip(found.first.tolist(), found.second.tolist(), strict=True))
    assert len(set(map(frozenset, pairs))) == len(pairs), "each pair once"
    return {(min(pair), max(pair)) for pair in pairs}


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("box", [None, 10.0])
@pytest.mark.parametrize("radius", [0.4, 1.0, 3.7, 6.0, 40.0])
@pytest.mark.parametrize("count", [0, 1, 2, 60])
def test_pairs_are_those_of_a_search_of_all_pairs(axes, box, radius, count):
    at = np.random.default_rng(count + axes).uniform(0, 10, (count, axes))
    found = neighbors(at, radius, box)
    expected, vectors = by_hand(at, radius, box)
    assert pairs_of(found) == expected
    assert np.allclose(found.vectors, vectors[found.first, found.second])
    assert found.rows == count


def test_box_may_differ_by_axis_and_rows_may_stand_on_its_edges():
    at = np.array([[0.0, 0.0], [20.0, 5.0], [10.0, 2.5], [19.7, 0.2]])
    found = neighbors(at, 0.6, (20, 5))
    assert pairs_of(found) == {(0, 1), (0, 3), (1, 3)}


def test_crowd_in_one_place_and_far_rows_make_no_grid_of_millions():
    at = np.concatenate([np.full((30, 2), 5.0), [[1e9, -1e9]]])
    assert len(neighbors(at, 0.1).first) == 30 * 29 // 2


def test_sums_add_what_each_neighbor_gives():
    at = np.random.default_rng(1).uniform(0, 10, (50, 2))
    near = neighbors(at, 2.0)
    pairs, vectors = by_hand(at, 2.0)
    count, toward = np.zeros(50), np.zeros((50, 2))
    for i, j in pairs:
        count[[i, j]] += 1
        toward[i] += vectors[i, j]
        toward[j] += vectors[j, i]
    assert (near.sums(1, 1) == count).all()
    assert np.allclose(near.sums(near.vectors, -near.vectors), toward)


@pytest.mark.parametrize(
    ("position", "radius", "box", "text"),
    [
        (np.zeros(3), 1, None, "an array of shape (3,)"),
        (np.zeros((3, 2)), 0, None, "must be above 0"),
        (np.zeros((3, 2)), float("nan"), None, "must be above 0"),
        (np.full((3, 2), 7.0), 1, 5, "0 to its size"),
    ],
)
def test_wrong_arguments_are_refused(position, radius, box, text):
    with pytest.raises(ValueError) as caught:  # noqa: PT011  # the text is compared
        neighbors(position, radius, box)
    assert text in str(caught.value)


def test_radius_that_lists_almost_all_pairs_is_refused(monkeypatch):
    monkeypatch.setattr(module, "PAIRS_MAX", 100)
    with pytest.raises(ValueError, match="radius of neighbors is too large"):
        neighbors(np.zeros((40, 2)), 1)
