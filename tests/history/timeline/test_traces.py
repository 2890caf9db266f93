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
    (series,) = trace_of(timeline, "world.agents", "bob")
    assert series["name"] == "position"
    assert [line["name"] for line in series["lines"]] == ["[0]", "[1]", "[2]"]
    assert len(series["seqs"]) == min(points, 6)
    last = timeline.look(Place(timeline.index.ticks[-1]), lambda moment: moment.seq)
    assert series["seqs"][-1] == last
    shown = zip(*(line["values"] for line in series["lines"]), strict=True)
    expected = [position_at(timeline, seq, "bob") for seq in series["seqs"]]
    assert list(map(list, shown)) == expected
    assert len({tuple(one) for one in expected}) > 1


def test_an_entity_that_never_was_has_no_series():
    assert trace_of(played(log_of(world_records())), "world.agents", "zoe") == []


def test_texts_and_long_lists_are_no_numbers():
    fields = {
        "a": 1,
        "b": "x",
        "c": True,
        "d": [1, 2],
        "e": [1, 2, 3, 4],
        "f": None,
        "g": [],
        "h": ["x"],
    }
    assert dict(traces._numbers(fields)) == {"a": [1], "d": [1, 2]}
