"""Dry runs: a definite value is what the batch does at any later moment of the same state."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from placet.kernel import Kernel
from tests.kernel.builders import intent
from tests.kernel.maze import STEPS, Maze, require_definite


def opened():
    kernel = Kernel(Maze())
    kernel.register_agent("alice")
    kernel.change_executor("wire", 100)
    return kernel


def batch(plan, dry_run=False, first=0):
    intents = [intent("Go", {"steps": steps}, f"r{first + n}") for n, steps in enumerate(plan)]
    return {"intents": intents, "dry_run": dry_run}


@given(
    st.lists(STEPS, min_size=1, max_size=3),
    st.floats(0.0, 40.0),
    st.sampled_from([0.0, 1e-9, 0.5, 3.0, 700.0, 90_000.0]),
    st.integers(0, 2),
)
def test_a_definite_value_of_a_dry_run_is_applied_at_any_later_moment(plan, now, later, others):
    kernel = opened()
    dry = kernel.decide(batch(plan, dry_run=True), now)
    assume(dry.admitted)  # a name is made once
    for n in range(others):  # they change nothing but the seq, the tick and the ordinals
        kernel.decide([intent("Go", {"steps": []}, f"o{n}")], now)
    kernel.step(1.0) if others == 2 else None
    checked = kernel.check(batch(plan))
    checked.shows_changes = True
    real = kernel.decide(checked, now + later)
    if real.admitted:
        require_definite(dry.diff, real.diff)
        for shown, result in zip(dry.results, real.results, strict=True):
            is_undecided = "undecided" in {warning.code for warning in shown.warnings}
            assert shown.output is None if is_undecided else shown.output == result.output


@pytest.mark.parametrize(
    ("steps", "shown"),
    [
        ([["constant", "a", 3]], [("maze.rows/a/value", "replace", 3)]),
        ([["draw", "a", 3]], [("maze.rows/a/drawn", "undecided", None)]),
        ([["rare", "b", 3]], [("maze.rows/b/rare", "undecided", None)]),
        ([["until", "b", 3]], [("maze.rows/b/tries", "undecided", None)]),
        ([["pick", "a", 3]], [("maze.rows/(decided when applied)/hit", "add", 3)]),
        (
            [["make", "a", 3]],
            [
                ("maze.rows/(decided when applied)/at", "undecided", None),
                ("maze.rows/(decided when applied)/euro", "add", 3),
            ],
        ),
        (
            [["maybe", "a", 0]],  # the entity may be deleted
            [
                ("maze.rows/spare/start", "undecided", None),
                ("maze.rows/spare/value", "undecided", None),
            ],
        ),
        ([["late", "a", 0], ["constant", "a", 3]], [("maze.rows/a/value", "replace", 3)]),
    ],
)
def test_a_dry_run_shows_the_path_of_what_is_not_decided(steps, shown):
    dry = opened().decide(batch([steps], dry_run=True), 2.0)
    assert [(change.path, change.op, change.new) for change in dry.diff] == shown


def test_an_undecided_output_is_replaced_by_a_warning():
    dry = opened().decide(batch([[["answer", "a", 3]], [["answer", "a", 4]]], dry_run=True), 0.0)
    drawn, plain = dry.results
    assert (drawn.output, [warning.message for warning in drawn.warnings]) == (
        None,
        ["the output is decided when applied"],
    )
    assert (plain.output, plain.warnings) == (4, ())


def test_a_dry_run_leaves_the_world_as_it_was():
    kernel, other = opened(), opened()
    plan = [[["draw", "a", 9], ["make", "a", 1], ["pick", "a", 1]]]
    for _ in range(3):
        assert kernel.decide(batch(plan, dry_run=True), 1.0).admitted
    for world in (kernel, other):
        world.decide(batch(plan), 1.0)
    assert kernel.digest() == other.digest()
    assert kernel.world_digest() == other.world_digest()


def test_a_dry_run_counts_the_work_of_each_decision():
    kernel = opened()
    [plain] = _unpaid(kernel, [[["constant", "a", 1]]])
    runs = _unpaid(kernel, [[["draw", "a", 1]]])
    assert len(runs) == 5
    assert {one.work for one in runs} == {runs[0].work}
    assert plain.work > 0


def _unpaid(kernel, plan):
    checked = kernel.check(batch(plan, dry_run=True))
    return kernel.decide_checked([checked], 0).unpaid
