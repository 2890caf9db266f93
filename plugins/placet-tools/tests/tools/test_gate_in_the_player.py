"""The log of a gate in the player: held calls are apart, and noted refusals are refusals."""

from contextlib import closing

import pytest
from tests.tools.shop_log import make_log

from placet.history.timeline.moments import event_of, history_of
from placet.history.timeline.timeline import Place, Query, Timeline
from placet.schemas.log.expand import expanded
from placet.schemas.log.record import intents_of
from placet.server.runs.summary import RunCount
from placet.stores.reading import log_to_read
from placet.stores.snapshots.recovery import decode


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("past") / "shop.db"
    make_log(path)
    with closing(log_to_read(str(path))) as opened:
        yield opened


@pytest.fixture
def timeline(log):
    played = Timeline(log, None)
    while not played.index.catch_up():
        pass
    return played


def record_at(log, place):
    _, data = next(log.read(place.record))
    return expanded(decode(data, place.record))[place.batch]


def found(timeline, query, *, is_backward=False):
    """Return the places of a search from an end of the log to the other."""
    at = Place(timeline.log.count(), 0) if is_backward else Place(0, 0)
    places = []
    while (at := timeline.find(at, query, is_backward=is_backward)) is not None:
        places.append(at)
    return places


def test_the_counts_have_held_calls_apart_and_noted_refusals(log, timeline):
    history = history_of(timeline)
    refused = sum(bar[2] for bar in history["bars"])
    # `again` by a rule; `wrong` and `other` by the schema, which the gate has noted.
    assert (refused, history["held"]) == (3, 2)
    assert history["codes"] == {"structure/payload_invalid": 2, "domain/shop.same_done": 1}
    counts = RunCount()
    while not counts.read_on(log, 1_000):
        pass
    assert counts.counts.refused == refused
    assert counts.counts.admitted == sum(bar[1] for bar in history["bars"])


@pytest.mark.parametrize("is_backward", [False, True])
def test_the_next_refusal_is_never_a_held_call(log, timeline, is_backward):
    def kinds(query):
        places = found(timeline, query, is_backward=is_backward)
        return sorted(intents_of(record_at(log, one))[0]["kind"] for one in places)

    noted = "shop.refuse_calls"
    assert kinds(Query(is_refused=True)) == ["shop.refund", noted, noted]
    assert kinds(Query("support", is_refused=True)) == ["shop.refund", noted]
    assert kinds(Query("sales", is_refused=True)) == [noted]


def test_an_event_says_that_it_is_held_and_why_a_person_is_asked(log, timeline):
    events = [
        event_of(Place(ordinal, 0), record)
        for ordinal, data in log.read()
        for record in expanded(decode(data, ordinal))
    ]
    assert [one["is_held"] for one in events if one["type"] == "refused"] == [False, True, True]
    asked = [one["asks"] for one in events if "asks" in one]
    assert asked == [["refund (risk medium): euro > 100"]] * 2
    first, second = [one["noted"] for one in events if "noted" in one]
    assert (first[0]["agent"], first[0]["tool"]) == ("support", "refund")
    assert first[0]["refusal"][:3] == [None, "structure", "payload_invalid"]
    assert second[0]["agent"] == "sales"
