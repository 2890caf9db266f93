"""The time line of a log: every moment is that of a replay, and every step and search finds it."""

from copy import deepcopy

import pytest

from placet.domains.world import World
from placet.history.timeline import index
from placet.history.timeline.frames import FrameFiles, frames_of
from placet.history.timeline.moments import event_of
from placet.history.timeline.timeline import LAST, NoPlaceError, Place, Query, Timeline
from placet.kernel import Kernel
from placet.kernel.state.tree import WorldState
from placet.runtime.state_path import state_at
from placet.schemas.log.expand import expanded
from placet.schemas.log.record import Admitted, Group, LogGroup, Refused, Tick, decode_record
from placet.stores.snapshots.recovery import recover
from placet.stores.sqlite.log import SqliteEventLog
from tests.history.timeline.played_logs import AGENTS, log_of, move, ungrouped, world_records


@pytest.fixture
def many_frames(monkeypatch):
    """Make a key frame after every few records."""
    monkeypatch.setattr(index, "FRAME_WORK", 7)


def played(log, files=None):
    timeline = Timeline(log, files)
    while not timeline.index.catch_up():
        pass
    return timeline


def state(moment):
    return deepcopy(moment.state.collections)


def places_in(records):
    return [
        (Place(ordinal, at), record)
        for ordinal, data in enumerate(records)
        for at, record in enumerate(expanded(decode_record(data)))
    ]


def test_every_moment_has_the_state_of_a_replay(many_frames):
    records = world_records()
    log = log_of(records)
    timeline = played(log)
    assert len(timeline.index.frames) > 3
    order = list(range(len(records)))
    for record in [*order, *reversed(order), *order[::3], *order[::-5]]:
        past = recover(log, to_record=record + 1).past
        seen = timeline.look(
            Place(record), lambda m: (state(m), m.seq, m.now_ns, set(m.state.agents))
        )
        expected = {
            name: rows for name, rows in state_at(WorldState(past.state), "").items() if rows
        }
        assert seen == (expected, past.ledger.seq, past.ledger.now_ns, set(past.ledger.agents))


def test_a_step_by_record_goes_through_the_batches_of_a_group(many_frames):
    """A group has the same moments as the batches would have had by themselves."""
    alone, together = ungrouped(world_records()), world_records()
    assert any(isinstance(decode_record(data), Group) for data in together)
    first, second = played(log_of(alone)), played(log_of(together))
    places = [place for place, _ in places_in(together)]
    for one, other in zip([place for place, _ in places_in(alone)], places, strict=True):
        look = lambda moment: (moment.seq, moment.now_ns, state(moment))  # noqa: E731  # for both
        assert first.look(one, look) == second.look(other, look)
    at = places[0]
    for place in places[1:]:
        at = second.stepped(at, "record", 1)
        assert at == place
    for count in (1, 2, 5, 100):
        for number, place in enumerate(places):
            assert second.stepped(place, "record", -count) == places[max(0, number - count)]
            assert (
                second.stepped(place, "record", count)
                == places[min(len(places) - 1, number + count)]
            )


def test_steps_move_what_a_jump_shows(many_frames):
    """Positions carried forward by steps are those of the moment that they lead to."""
    for records in (ungrouped(world_records()), world_records()):
        timeline = played(log_of(records))
        for unit in ("tick", "record"):
            at = timeline.at_tick(0)
            shown = timeline.look(at, positions)
            for step in timeline.steps(at, unit, 200):
                shown |= step.moved
                shown = {key: value for key, value in shown.items() if value is not None}
                head = timeline.look(step.place, lambda m: (positions(m), m.seq, m.ticks, m.now_ns))
                assert head == (shown, step.seq, step.ticks, step.now_ns)
            assert step.place.record == len(records) - 1


def positions(moment):
    return {
        (name, entity): fields["position"]
        for name, rows in moment.state.collections.items()
        for entity, fields in rows.items()
        if fields.get("position") is not None
    }


def test_ticks_and_seqs_have_places():
    records = world_records(ticks=4)
    timeline = played(log_of(records))
    ticks = [place for place, record in places_in(records) if isinstance(record, Tick)]
    assert [timeline.at_tick(tick) for tick in range(1, 5)] == ticks
    assert timeline.look(timeline.at_tick(0), lambda m: (m.ticks, len(m.state.agents))) == (0, 3)
    assert timeline.stepped(ticks[1], "tick", -1) == ticks[0]
    inside = Place(ticks[1].record + 1, 0)
    assert timeline.stepped(inside, "tick", -1) == ticks[1]
    assert timeline.stepped(inside, "tick", 1) == ticks[2]
    for seq in range(1, timeline.index.seq + 1):
        place = timeline.at_seq(seq)
        assert timeline.look(place, lambda m: m.seq) == seq
    with pytest.raises(NoPlaceError, match="it ends at seq"):
        timeline.at_seq(timeline.index.seq + 1)
    with pytest.raises(NoPlaceError, match="it has 4 so far"):
        timeline.at_tick(5)


@pytest.mark.parametrize(
    "query",
    [
        Query(agent="bob"),
        Query(is_refused=True),
        Query(kind="Move"),
        Query("cyd", "Move", True),
        Query(kind="Fly"),
        Query("cyd", None, False),
    ],
)
def test_a_search_finds_the_next_and_the_one_before(many_frames, query):
    for records in (ungrouped(world_records()), world_records()):
        timeline = played(log_of(records))
        matching = [place for place, record in places_in(records) if query.matches(record)]
        for place, _ in places_in(records):
            later = next((one for one in matching if one > place), None)
            before = next((one for one in reversed(matching) if one < place), None)
            assert timeline.find(place, query) == later
            assert timeline.find(place, query, is_backward=True) == before


def test_the_latest_records_up_to_a_place_are_listed():
    records = world_records()
    timeline = played(log_of(records))
    places = places_in(records)
    for number, (place, _) in enumerate(places):
        for limit in (1, 4, 100):
            expected = [at for at, _ in places[max(0, number + 1 - limit) : number + 1]]
            assert [at for at, _ in timeline.records_to(place, limit)] == expected


def test_the_bars_count_every_intent():
    records = world_records()
    timeline = played(log_of(records))
    batches = [record for _, record in places_in(records)]
    _, bars = timeline.bars()
    admitted = sum(isinstance(one, Admitted) for one in batches)
    refused = sum(isinstance(one, Refused) for one in batches)
    assert sum(bar[1] for bar in bars) == admitted > 0
    assert sum(bar[2] for bar in bars) == refused > 0
    assert timeline.codes() == {"domain/world.out_of_bounds": refused}


def test_key_frames_are_kept_and_used_again(many_frames, tmp_path):
    records = world_records()
    log = sqlite_log(tmp_path, records)
    files = frames_of(log)
    assert files is not None
    first = played(log, files)
    again = Timeline(log, files)
    again.index.catch_up(records_max=0)
    kept = files.heads()
    assert again.index.record == kept[-1].record > 0
    again = played(log, files)
    for place, _ in places_in(records):
        assert again.look(place, state) == first.look(place, state)
    assert again.bars() == first.bars()
    assert list(again.index.ticks) == list(first.index.ticks)


@pytest.mark.parametrize("damage", ["cut", "byte", "gone", "other log"])
def test_a_key_frame_that_cannot_be_trusted_is_made_again(many_frames, tmp_path, damage):
    records = world_records()
    log = sqlite_log(tmp_path, records)
    expected = [played(log).look(Place(at), state) for at in range(len(records))]
    files = FrameFiles(tmp_path / "frames")
    played(log, files)
    paths = sorted(files.folder.iterdir())
    target = paths[len(paths) // 2]
    if damage == "gone":
        target.unlink()
    elif damage == "other log":
        other = world_records(y=20.0)
        played(sqlite_log(tmp_path, other, "other.db"), FrameFiles(tmp_path / "other"))
        target.write_bytes((tmp_path / "other" / target.name).read_bytes())
    else:
        data = target.read_bytes()
        changed = bytes([data[-9] ^ 1])
        target.write_bytes(data[:-9] + (b"" if damage == "cut" else changed + data[-8:]))
    again = played(log, files)
    assert [again.look(Place(at), state) for at in range(len(records))] == expected


def test_a_growing_log_is_followed(many_frames, tmp_path):
    records = world_records()
    log = log_of(records[:10])
    timeline = played(log)
    with pytest.raises(NoPlaceError, match="its last is 9"):
        timeline.look(Place(10), state)
    before = decode_record(records[9]).seq
    log.append(LogGroup(10, before, decode_record(records[-1]).seq, tuple(records[10:])), 1)
    assert timeline.index.catch_up()
    assert timeline.index.record == len(records)
    assert timeline.look(Place(len(records) - 1, LAST), lambda m: m.seq) == timeline.index.seq


def test_an_event_counts_all_intents_of_its_batch():
    records: list[bytes] = []
    kernel = Kernel(World(), sink=records.append)
    kernel.register_agent("ann", position=[0.0, 0.0])
    moves = [move("ann", f"m{number}", [float(number), 0.0]) for number in range(12)]
    speak = {"kind": "Speak", "payload": {"text": "hi", "channel": "public"}}
    kernel.decide([*moves, {**move("ann", "s", []), **speak}])
    event = event_of(Place(len(records) - 1), decode_record(records[-1]))
    assert len(event["intents"]) < 13
    assert event["intent_count"] == 13
    assert event["kinds"] == [["Move", 12], ["Speak", 1]]
    assert event["kind_count"] == 2


def test_agents_come_are_suspended_and_go():
    records = world_records()
    timeline = played(log_of(records))
    end = timeline.look(
        Place(len(records) - 1), lambda m: {n: a.is_suspended for n, a in m.state.agents.items()}
    )
    assert end == {AGENTS[0]: True, AGENTS[2]: False}


def sqlite_log(folder, records, name="run.db"):
    log = SqliteEventLog(folder / name)
    epoch, seq = log.open(), 0
    for first in range(0, len(records), 3):
        part = tuple(records[first : first + 3])
        after = decode_record(part[-1]).seq
        log.append(LogGroup(first, seq, after, part), epoch)
        seq = after
    log.close()
    return SqliteEventLog(folder / name)
