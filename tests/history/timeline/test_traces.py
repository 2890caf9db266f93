"""The numbers of an entity along a log are those of its moments."""

import pytest

from placet.history.timeline import traces
from placet.history.timeline.timeline import Place
from placet.history.timeline.traces import trace_of
from tests.history.timeline.played_logs import log_of, world_records
from tests.history.timeline.test_timeline import played


def position_at(timeline, seq, entity):
    def look(moment):
        return moment.state.collections["world.agents"].get(entity, {}).get("position")

    return timeline.look(timeline.at_seq(seq), look)


@pytest.mark.parametrize("points", [3, 100])
def test_each_point_is_the_number_of_that_moment_and_the_last_tick_is_one(monkeypatch, points):
    monkeypatch.setattr(traces, "POINTS_MAX", points)
    timeline = played(log_of(world_records(ticks=6)))
    traced = trace_of(timeline, "world.agents", "bob")
    series, *texts = traced["series"]
    assert (traced["every"], traced["unit"]) == (6 // min(points, 6), "tick")
    assert (series["name"], [one["name"] for one in texts]) == ("position", ["team"])
    assert [line["name"] for line in series["lines"]] == ["[0]", "[1]", "[2]"]
    assert len(series["seqs"]) == min(points, 6)
    last = timeline.look(Place(timeline.index.ticks[-1]), lambda moment: moment.seq)
    assert series["seqs"][-1] == last
    shown = zip(*(line["values"] for line in series["lines"]), strict=True)
    expected = [position_at(timeline, seq, "bob") for seq in series["seqs"]]
    assert list(map(list, shown)) == expected
    assert len({tuple(one) for one in expected}) > 1


def test_an_entity_that_never_was_has_no_series():
    timeline = played(log_of(world_records()))
    assert trace_of(timeline, "world.agents", "zoe")["series"] == []


def drawn(values, names=(), *, is_category=False):
    """Draw a field; `...` is a moment without the field."""
    known = {at: value for at, value in enumerate(values) if value is not ...}
    return traces._drawn(traces._Seen("f", known, names, is_category), len(values))


@pytest.mark.parametrize(
    ("values", "names", "categories", "numbers"),
    [
        (["S", "S", "I", "R"], (), ["I", "R", "S"], [2, 2, 0, 1]),
        (["S", "I", "R"], ("S", "I", "R"), ["S", "I", "R"], [0, 1, 2]),
        ([0, 1, 2], ("S", "I", "R"), ["S", "I", "R"], [0, 1, 2]),
        ([True, ..., None, False], (), ["false", "true", "null"], [1, None, 2, 0]),
        ([None, None], (), ["null"], [0, 0]),
        ([1, True, "1"], (), ["1", "true", "1"], [0, 1, 2]),
        ([3, 0], ("S", "I"), ["S", "3"], [1, 0]),
    ],
)
def test_texts_booleans_and_named_numbers_are_categories(values, names, categories, numbers):
    found = drawn(values, names)
    assert [one["name"] for one in found["categories"]] == categories
    assert found["values"] == numbers


def test_the_commonest_values_have_a_category_and_the_rest_has_none():
    values = [*"abcdefghi", *"bcdefghi"]
    found = drawn(values)
    assert [one["name"] for one in found["categories"]] == list("bcdefghi")
    assert found["values"][0] == -1


def test_a_small_field_of_a_table_is_a_category_while_it_has_few_values():
    assert drawn([0, 1, 0], is_category=True)["values"] == [0, 1, 0]
    assert drawn(list(range(9)), is_category=True)["lines"][0]["values"] == list(range(9))


def test_numbers_and_short_lists_of_them_are_lines_with_gaps():
    assert drawn([1, None, ..., 2.5])["lines"] == [{"name": "f", "values": [1, None, None, 2.5]}]
    assert [line["values"] for line in drawn([[1, 2], [3, 4]])["lines"]] == [[1, 3], [2, 4]]


@pytest.mark.parametrize("values", [[[1, 2, 3, 4]], [[]], [["x"]], [{"a": 1}, "x"], ["x", [1]]])
def test_other_lists_and_mappings_are_left_out(values):
    assert drawn(values) is None
