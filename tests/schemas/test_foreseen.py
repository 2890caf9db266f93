"""What of a preview is definite, and how the batch that is applied is compared with it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.schemas.foreseen import FieldChange, Op, Preview, foresee, is_foreseen

OLD = 7


def preview(*changes, effects=()):
    """Build a preview of `entity.field=value`; a value of None deletes."""
    return Preview([_change(*change) for change in changes], effects)


def _change(entity, field, value, old=OLD):
    op: Op = "remove" if value is None else "replace"
    return FieldChange("c", entity, field, op, old, value)


def shown(changes):
    return [(change.path, change.op, change.new) for change in changes]


HIDDEN = "c/(decided when applied)/f"

ROWS = [
    # what each run changes, and what is shown of it
    ([[("a", "f", 1)]], [("c/a/f", "replace", 1)]),
    ([[("a", "f", 1)], [("a", "f", 1)]], [("c/a/f", "replace", 1)]),
    ([[("a", "f", 1)], [("a", "f", 2)]], [("c/a/f", "undecided", None)]),
    ([[("a", "f", 1)], [("a", "f", True)]], [("c/a/f", "undecided", None)]),
    ([[("a", "f", 1)], [("a", "f", 1.0)]], [("c/a/f", "undecided", None)]),
    ([[("a", "f", 1)], [("a", "f", 1, 8)]], [("c/a/f", "undecided", None)]),
    ([[("a", "f", 1)], [("a", "f", None)]], [("c/a/f", "undecided", None)]),
    ([[("a", "f", 1)], []], [("c/a/f", "undecided", None)]),
    ([[], [("a", "f", 1)]], [("c/a/f", "undecided", None)]),
    (
        [[("a", "f", 1), ("b", "g", 2)], [("a", "f", 9), ("b", "g", 2)]],
        [("c/a/f", "undecided", None), ("c/b/g", "replace", 2)],
    ),
    # another entity in each run
    ([[("a", "f", 1)], [("b", "f", 1)]], [(HIDDEN, "replace", 1)]),
    ([[("a", "f", 1)], [("b", "f", 2)]], [(HIDDEN, "undecided", None)]),
    (
        [[("a", "f", 1), ("b", "f", 2)], [("a", "f", 1), ("c", "f", 3)]],
        [(HIDDEN, "undecided", None)],
    ),
    (
        [[("x", "f", 1), ("a", "f", 1)], [("x", "f", 1), ("b", "f", 1)]],
        [(HIDDEN, "replace", 1), (HIDDEN, "replace", 1)],
    ),
    # a run that leaves an entity as it is
    (
        [[("a", "f", 1)], [("a", "f", 1), ("b", "f", 2)], []],
        [("c/a/f", "undecided", None), ("c/b/f", "undecided", None)],
    ),
]


@pytest.mark.parametrize(("runs", "expected"), ROWS)
def test_a_change_is_definite_where_all_runs_agree(runs, expected):
    now, *others = (preview(*run) for run in runs)
    foreseen = foresee(now, others)
    assert shown(foreseen.changes) == expected
    for run in (now, *others):
        definite = {change for change in foreseen.changes if change.op != "undecided"}
        is_possible = all(change in run.changes for change in definite if change.entity)
        assert is_foreseen(run, foreseen.digest, foreseen.undecided) == is_possible


EFFECTS = [
    ([("wire", {"to": "a"})], [("wire", {"to": "a"})], True),
    ([("wire", {"to": "a"})], [("wire", {"to": "b"})], False),
    ([("wire", {"to": "a"})], [("mail", {"to": "a"})], False),
    ([("wire", {"to": "a"})], [], False),
    ([("wire", {})], [("wire", {}), ("wire", {})], False),
    ([("wire", {"of": {"to": "a", "n": 1}})], [("wire", {"of": {"to": "a", "n": 2}})], False),
    ([("wire", {"of": {}})], [("wire", {"of": {"n": 2}})], False),
    ([("wire", {}), ("mail", {})], [("mail", {}), ("wire", {})], False),
]


@pytest.mark.parametrize(("then", "now", "is_same"), EFFECTS)
def test_effects_are_compared_by_kind_order_and_field(then, now, is_same):
    foreseen = foresee(preview(effects=then))
    assert is_foreseen(preview(effects=now), foreseen.digest, foreseen.undecided) == is_same


def test_an_undecided_field_of_an_effect_does_not_hide_its_neighbors():
    effect = {"of": {"to": "a", "at": 1}}
    runs = [preview(effects=[("wire", {"of": {"to": "a", "at": at}})]) for at in (1, 2)]
    foreseen = foresee(runs[0], runs[1:])
    later = {"of": {**effect["of"], "at": 3}}
    other = {"of": {**effect["of"], "to": "b"}}
    for payload, is_same in [(later, True), (other, False)]:
        applied = preview(effects=[("wire", payload)])
        assert is_foreseen(applied, foreseen.digest, foreseen.undecided) == is_same


changes = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from("fg"), st.integers(0, 2)),
    max_size=5,
    unique_by=lambda change: change[:2],
)


@given(changes, st.lists(changes, max_size=3), changes)
def test_an_applied_batch_has_every_definite_change_and_no_other_path(now, others, applied):
    foreseen = foresee(preview(*now), [preview(*run) for run in others])
    made = {(change[0], change[1]): change[2] for change in applied}
    if not is_foreseen(preview(*applied), foreseen.digest, foreseen.undecided):
        assert applied != now or any(change.entity is None for change in foreseen.changes)
        return
    for change in foreseen.changes:
        if change.op != "undecided" and change.entity is not None:
            assert made.pop((change.entity, change.field)) == change.new
    hidden = {change.field for change in foreseen.changes if change.entity is None}
    paths = {(change.entity, change.field) for change in foreseen.changes}
    assert all(path in paths or path[1] in hidden for path in made)


def test_a_path_names_what_is_known():
    assert FieldChange("c", "a", None, "add", None, None).path == "c/a"
    assert FieldChange("c", None, "f", "add", None, 1).path == HIDDEN
