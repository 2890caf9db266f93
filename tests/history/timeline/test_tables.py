"""The time line of a log with tables: column batches are folded as arrays, rows read when asked."""

from base64 import b64decode
from typing import Any

import numpy as np
import pytest

from placet.history.timeline import index, moments
from placet.history.timeline import timeline as timeline_module
from placet.history.timeline.fold import PlayedState
from placet.history.timeline.frames import FrameFiles, decode_state, encode_state
from placet.history.timeline.index import state_in
from placet.history.timeline.timeline import Moment, Place, Query, Timeline
from placet.kernel.log.replay import Replayer, folded
from placet.kernel.log.snapshot import take
from placet.schemas.codec import Json, thaw
from placet.schemas.errors import StoreError
from placet.schemas.log.expand import expanded
from placet.schemas.log.record import Checkpoint, Columns, TableMade, Tick, decode_record
from tests.golden.make import square
from tests.history.forks import log_of
from tests.kernel.columns.test_verify_columns import CELLS, LOG, N, rechained, weathered

SQUARE: list[bytes] = []
square(SQUARE)
LOGS = {"lab": list(LOG), "square": SQUARE, "weather": list(weathered())}


def plain(moment: Moment) -> dict[str, dict[str, Json]]:
    state = moment.state
    assert decode_state(encode_state(state)) == state
    return {
        name: {key: dict(fields) for key, fields in rows.items()}
        for name, rows in state.entities().items()
    }


def timeline_of(records: list[bytes]) -> Timeline:
    timeline = Timeline(log_of(records), None)
    timeline.index.catch_up()
    return timeline


def place_of(records: list[bytes], wanted: Any) -> tuple[int, Any]:
    decoded = map(decode_record, records)
    return next((n, record) for n, record in enumerate(decoded) if wanted(record))


@pytest.mark.parametrize("name", LOGS)
def test_every_moment_has_the_replayed_state(name, monkeypatch):
    monkeypatch.setattr(index, "FRAME_WORK", 30)
    records = LOGS[name]
    timeline, past = timeline_of(records), Replayer()
    assert len(timeline.index.frames) > 1
    seen = []
    for ordinal, data in enumerate(records):
        past.apply(data)
        expected = thaw(past.state.as_dict())
        digest = past.state.digest()

        def look(moment: Moment, digest: bytes = digest) -> Any:
            assert moment.state.digest() == digest
            return plain(moment)

        seen.append(expected)
        assert timeline.look(Place(ordinal), look) == expected
    for ordinal in (len(records) - 2, 7, 4):  # backwards, from key frames
        assert timeline.look(Place(ordinal), plain) == seen[ordinal]


def test_key_frames_with_tables_are_read_from_their_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(index, "FRAME_WORK", 30)
    log, files = log_of(SQUARE), FrameFiles(tmp_path / "frames")
    Timeline(log, files).index.catch_up()
    faults: list[str] = []
    again = Timeline(log, files, faults.append)
    again.index.catch_up()
    kept = [frame for frame in again.index.frames if frame.packed is None]
    assert kept
    for frame in kept:
        expected = folded(SQUARE[: frame.head.record]).state.digest()
        at = Place(frame.head.record - 1)
        assert again.look(at, lambda moment: moment.state.digest()) == expected
    assert not faults


def test_the_state_of_a_snapshot_has_its_tables_and_members():
    past = folded(SQUARE[:10])
    state, played = state_in(take(past)), PlayedState()
    for data in SQUARE[:10]:
        for record in expanded(decode_record(data)):
            played.apply(record)
    assert state.digest() == played.digest() == past.state.digest()
    assert state == played
    assert state.populations["sellers"].suspended == [4]


def test_members_are_agents_of_a_moment():
    timeline = timeline_of(SQUARE)
    number, _ = place_of(SQUARE, lambda r: getattr(r, "what", "") == "suspended")

    def look(moment: Moment) -> Any:
        page = moments.agents_of(moment, 0, 200, "sellers:")
        assert moment.state.agent("sellers:12") is None
        assert moment.state.agent("sellers:4") is not None
        return moments.moment_head(moment)["agent_count"], page

    count, page = timeline.look(Place(number), look)
    assert (count, page["total"]) == (13, 12)
    suspended = [row["agent_id"] for row in page["rows"] if row["suspended"]]
    assert suspended == ["sellers:4"]
    assert {row["owner"] for row in page["rows"]} == {"ann"}
    _, page = timeline.look(Place(len(SQUARE) - 1), look)
    assert not any(row["suspended"] for row in page["rows"])


def test_a_moment_is_shown_with_its_tables():
    timeline = timeline_of(LOGS["lab"])

    def look(moment: Moment) -> Any:
        assert moment.state.agent("birds:1") is not None
        head = moments.moment_head(moment)
        entities = moment.state.entities()
        assert "birds:0" in entities["lab.agents"]
        assert "birds:99" not in entities["lab.agents"]
        assert entities["lab.agents"].get("rats:0") is None
        page = moments.table_of(entities, "lab.agents", 2, 3, "")
        return head, moments.map_of(moment.state)["map"], page

    head, layers, page = timeline.look(Place(len(LOG) - 1), look)
    assert {"name": "lab.cells", "count": CELLS, "of_agents": False} in head["collections"]
    assert head["agent_count"] == N
    (layer,) = layers
    state = folded(LOG).state
    assert (layer["stem"], layer["count"], layer["total"]) == ("birds", N, N)
    expected = [state.get("lab.agents", f"birds:{number}", "position")[0] for number in range(N)]
    assert decoded(layer["x"]) == np.array(expected, np.float32).tolist()
    assert page["total"] == N
    entity, cells = page["rows"][0]
    assert dict(zip(page["fields"], cells, strict=True))["money"] == state.get(
        "lab.agents", entity, "money"
    )


def decoded(column: str) -> list[float]:
    return list(map(float, np.frombuffer(b64decode(column), "<f4")))


def test_steps_have_the_tables_that_a_column_batch_wrote():
    records = LOGS["lab"]
    timeline = timeline_of(records)
    ordinal, record = place_of(
        records, lambda r: isinstance(r, Columns) and r.kind == "Move" and r.changes
    )
    (step,) = timeline.steps(Place(ordinal - 1), "record", 1)
    assert step.tables == {"lab.agents"}
    assert not step.moved
    assert step.admitted > 0
    assert step.refused == len(record.codes) - record.codes.count(0)
    event = moments.step_json(step)["events"][0]
    assert event["kinds"] == [["Move", step.admitted + step.refused]]
    assert event["changes"] == [{"entity": "lab.agents/position"}]
    (made,) = timeline.steps(Place(place_of(records, is_population)[0] - 1), "record", 1)
    assert "lab.agents" in made.tables


def test_steps_have_the_tables_that_a_hook_wrote():
    timeline = timeline_of(LOGS["weather"])
    (step,) = timeline.steps(Place(len(LOGS["weather"]) - 2), "record", 1)
    assert step.tables == {"lab.agents"}

    def look(moment: Moment) -> Any:
        return moments.map_of(moment.state, None, step.tables)["map"]

    (layer,) = timeline.look(step.place, look, is_ahead=True)
    assert set(decoded(layer["x"])) == {4.0}


def test_a_step_ends_early_where_tables_have_many_rows(monkeypatch):
    monkeypatch.setattr(timeline_module, "_STEP_WORK_MAX", N // 4 + 1)
    timeline = timeline_of(LOGS["lab"])
    ordinal, _ = place_of(LOG, lambda r: isinstance(r, Columns) and r.kind == "Move" and r.changes)
    assert len(timeline.steps(Place(ordinal - 1), "record", 10)) == 1


def test_the_latest_records_leave_out_ticks_that_changed_nothing():
    timeline = timeline_of(LOGS["lab"])
    shown = [record for _, record in timeline.records_to(Place(len(LOG) - 1), 1_000)]
    everything = [decode_record(data) for data in LOG]
    assert any(isinstance(record, Tick) for record in everything)
    silent = [
        record
        for record in everything
        if isinstance(record, Checkpoint)
        or (isinstance(record, Tick) and not record.changes.entities)
    ]
    assert len(shown) == len(everything) - len(silent)


def test_a_look_ahead_leaves_the_moment_that_is_looked_at():
    timeline = timeline_of(SQUARE)
    early, late = Place(6), Place(len(SQUARE) - 1)
    expected = timeline.look(early, lambda moment: moment.state.digest())
    timeline.look(late, lambda _: None, is_ahead=True)
    timeline.index.frames.clear()  # a look that begins anew would have to read the log from there
    assert timeline.look(early, lambda moment: moment.state.digest()) == expected


def is_population(record: Any) -> bool:
    return isinstance(record, TableMade) and record.members is not None


def test_the_bars_and_codes_count_rows():
    timeline = timeline_of(SQUARE)
    codes = timeline.codes()
    columns = [r for r in map(decode_record, SQUARE) if isinstance(r, Columns)]
    refused = sum(len(each.codes) - each.codes.count(0) for each in columns)
    assert sum(codes.values()) == refused
    assert codes["domain/square.out_of_bounds"] == sum(each.codes.count(8) for each in columns)
    assert codes["domain/conflict"] == sum(each.codes.count(7) for each in columns)
    _, bars = timeline.bars()
    assert sum(count for _, _, count in bars) == refused
    assert timeline.at_tick(0) == Place(place_of(SQUARE, lambda r: isinstance(r, Columns))[0] - 1)


@pytest.mark.parametrize("is_backward", [False, True])
@pytest.mark.parametrize(
    "query",
    [
        Query(agent="sellers:3"),
        Query(agent="sellers:7", kind="Walk"),
        Query(agent="sellers:11", is_refused=True),
        Query(agent="sellers:12"),
        Query(agent="sellers:99999999999"),
        Query(agent="buyers:1"),
        Query(kind="Sing", is_refused=True),
    ],
)
def test_a_search_finds_the_column_batches_of_a_member(query, is_backward, monkeypatch):
    monkeypatch.setattr(index, "FRAME_WORK", 30)
    timeline = timeline_of(SQUARE)
    expected = []
    for ordinal, data in enumerate(SQUARE):
        for at, record in enumerate(expanded(decode_record(data))):
            if is_match(record, query):
                expected.append(Place(ordinal, at))
    place = Place(len(SQUARE)) if is_backward else Place(0)
    found = []
    while (nearest := timeline.find(place, query, is_backward=is_backward)) is not None:
        found.append(nearest)
        place = nearest
    assert found == (expected[::-1] if is_backward else expected)
    assert bool(expected) == (query.agent not in {"sellers:12", "sellers:99999999999", "buyers:1"})


def is_match(record: Any, query: Query) -> bool:
    """Decide by rows whether a record is looked for; the reference of `Query.matches`."""
    if not isinstance(record, Columns):
        return query.matches(record)
    numbers = np.frombuffer(record.agents, "<u4") if record.agents else np.arange(12)
    codes = record.codes or bytes(len(numbers))
    return any(
        query.agent in {None, f"sellers:{number}"}
        and query.kind in {None, record.kind}
        and (code or not query.is_refused)
        for number, code in zip(numbers, codes, strict=True)
    )


def test_a_column_batch_that_does_not_fit_is_reported():
    ordinal, record = place_of(SQUARE, lambda r: isinstance(r, Columns) and r.changes)
    forged = rechained(SQUARE, ordinal, population="nobody")
    state = PlayedState()
    for data in forged[:ordinal]:
        state.apply(decode_record(data))
    with pytest.raises(StoreError, match="does not fit its tables"):
        state.apply(decode_record(forged[ordinal]))
    assert record.population == "sellers"
