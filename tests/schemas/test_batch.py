"""Sequences of req_ids."""

import pytest

from placet.schemas.batch import only_sequence, sequence_form, sequences_of


@pytest.mark.parametrize(
    ("req_id", "form"),
    [
        ("a:0", ("a", 0)),
        ("a:b:12", ("a:b", 12)),
        (":7", ("", 7)),
        ("a:" + "9" * 18, ("a", 10**18 - 1)),
        ("a:" + "9" * 19, None),
        ("a:01", None),
        ("a:", None),
        ("a", None),
        ("7", None),
        ("a:-1", None),
        ("a:٣", None),
        ("a:1x", None),
        ("", None),
    ],
)
def test_req_ids_of_the_sequence_form_are_recognized(req_id, form):
    assert sequence_form(req_id) == form
    assert sequences_of([req_id]) == ([] if form is None else [(form[0], form[1], form[1], True)])


def test_a_sequence_spans_its_lowest_to_its_highest():
    assert sequences_of(["a:3", "a:1", "a:12"]) == [("a", 1, 12, False)]
    assert sequences_of(["a:3", "b:1", "x", "a:0"]) == [("a", 0, 3, False), ("b", 1, 1, False)]
    assert sequences_of(["a:3", "a:x"]) == [("a", 3, 3, False)]


@pytest.mark.parametrize("first", [0, 1, 7])
def test_ids_of_one_sequence_are_recognized_in_any_order(first):
    ids = [f"plan:x:{number}" for number in range(first, first + 12)]
    assert only_sequence(ids) == ("plan:x", first, first + 11, True)
    assert sequences_of(ids[::-1]) == [("plan:x", first, first + 11, False)]
    assert sequences_of([*ids[:5], *ids[:5]]) == [("plan:x", first, first + 4, False)]
    swapped = [ids[0], ids[2], ids[1], *ids[3:]]
    assert sequences_of(swapped) == [("plan:x", first, first + 11, False)]
    assert only_sequence([*ids[:5], "plan:y:6"]) is None
    assert only_sequence([*ids[:5], f"plan:x:0{first + 6}"]) is None
