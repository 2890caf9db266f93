"""The time line of a log: every moment is that of a replay, and every step and search finds it."""

import tracemalloc
from copy import deepcopy
from zlib import compress

import msgspec
import pytest

from placet.domains.world import World
from placet.history.timeline import index
from placet.history.timeline.frames import (
    FrameFiles,
    compressed,
    decode_state,
    decompressed,
    encode_state,
    frames_of,
)
from placet.history.timeline.index import agents_in
from placet.history.timeline.moments import event_of
from placet.history.timeline.timeline import LAST, NoPlaceError, Place, Query, Timeline
from placet.kernel import Kernel
from placet.kernel.state.tree import WorldState
from placet.runtime.state_path import state_at
from placet.schemas.log.expand import expanded
from placet.schemas.log.record import (
    Admitted,
    Checkpoint,
    LogAppend,
    Refused,
    SingleBlock,
    Tick,
    decode_record,
)
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
    assert any(isinstance(decode_record(data), SingleBlock) for data in together)
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
    for place, _ in places:
        told = [
            at for at, record in places if at <= place and not isinstance(record, Tick | Checkpoint)
        ]
        for limit in (1, 4, 100):
            expected = told[-limit:]
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


def test_the_codes_count_the_intents_of_a_refused_batch():
    records: list[bytes] = []
    kernel = Kernel(World(max_step=5.0), sink=records.append)
    kernel.register_agent("ann", position=[0, 0])
    moves = [move("ann", f"{x}", [x, 0]) for x in (1, 2, 50)]
    kernel.step(1.0, [moves, [move("ann", "far", [60, 0])]])
    timeline = played(log_of(records))
    assert sum(bar[2] for bar in timeline.bars()[1]) == 4
    assert timeline.codes() == {"domain/world.step_too_long": 4}


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


def moved(state):
    state.collections["world.agents"][AGENTS[0]]["position"] = [99.0, 99.0]


def joined_by_a_stranger(state):
    state.collections["world.agents"]["stranger"] = {"position": [1.0, 1.0]}


def robbed(state):
    del state.collections["world.agents"][AGENTS[0]]


def forge(files, record, change):
    """Rewrite a key frame with another state and right checksums."""
    (head,) = (head for head in files.heads() if head.record == record)
    forged = decode_state(decompressed(files.packed(record), 1 << 20))
    change(forged)
    files.write(head, compressed(encode_state(forged)))


@pytest.mark.parametrize("forged", [moved, joined_by_a_stranger, robbed])
@pytest.mark.parametrize("groups", [2, 5])
def test_no_forged_state_is_shown_at_any_moment(many_frames, tmp_path, forged, groups):
    log = log_of(world_records(12, checkpoint_groups=groups))
    files = FrameFiles(tmp_path / "frames")
    truth = played(log, files)
    positions = [head.record for head in files.heads()]
    assert len(positions) > 4
    for position in positions:
        played(log, files)  # makes the frames again that the last one had removed
        forge(files, position, forged)
        said: list[str] = []
        timeline = Timeline(log, files, said.append)
        timeline.index.catch_up(records_max=0)
        for at in (log.count() - 1, position, position + 1, position - 1):
            place = Place(min(at, log.count() - 1))
            assert timeline.look(place, state) == truth.look(place, state)
        assert len(said) <= 1


def test_a_forged_key_frame_is_reported_once_and_made_again(many_frames, tmp_path):
    log = sqlite_log(tmp_path, world_records(20))
    files, said = FrameFiles(tmp_path / "frames"), list[str]()
    played(log, files)
    for head in files.heads():
        forge(files, head.record, moved)
    timeline = Timeline(log, files, said.append)
    timeline.index.catch_up()
    assert len(said) == 1
    assert "is not used: its state is not the one whose digest the log holds" in said[0]
    again = Timeline(log, files, said.append)
    again.index.catch_up(records_max=0)
    assert again.index.record == files.heads()[-1].record > 0
    assert len(said) == 1


def test_a_key_frame_of_a_log_without_a_digest_is_not_used(many_frames, tmp_path):
    log = sqlite_log(tmp_path, world_records(checkpoint_groups=256))
    files = FrameFiles(tmp_path / "frames")
    played(log, files)
    again = Timeline(log, files)
    again.index.catch_up(records_max=0)
    assert again.index.record == 0


def test_an_old_key_frame_elsewhere_is_compared_with_a_fold(many_frames, tmp_path):
    records = world_records(20, checkpoint_groups=7)
    log = sqlite_log(tmp_path, records)
    files = FrameFiles(tmp_path / "frames")
    first = played(log, files)
    marks = {at for at, data in enumerate(records) if isinstance(decode_record(data), Checkpoint)}
    heads = files.heads()
    assert {head.record - 1 in marks for head in heads} == {False, True}
    again, said = Timeline(log, files, pytest.fail), []
    again.index.catch_up(records_max=0)
    for head in (head for head in heads if head.record < again.index.record):
        assert again.look(Place(head.record), state) == first.look(Place(head.record), state)
        said.append(head.record)
    assert len(said) > 4


def test_a_head_that_names_another_seq_or_time_is_not_used(many_frames, tmp_path):
    log = sqlite_log(tmp_path, world_records(20))
    files = FrameFiles(tmp_path / "frames")
    played(log, files)
    for change in ({"seq": 1}, {"now_ns": 7}):
        first = files.heads()[0]
        files.write(msgspec.structs.replace(first, **change), files.packed(first.record))
        again = Timeline(log, files)
        again.index.catch_up(records_max=0)
        assert again.index.record == 0
        played(log, files)


@pytest.mark.parametrize("size", [0, 1, 4_096, 100_000])
def test_no_more_is_decompressed_than_the_bound(size):
    data = compress(bytes(size))
    assert decompressed(data, max(1, size)) == bytes(size)
    for bad in (data[:-1], data[:-6], b"no zlib", compress(bytes(max(1, size) + 1))):
        with pytest.raises(ValueError, match="decompressed"):
            decompressed(bad, max(1, size))


def test_a_decompression_bomb_holds_no_more_than_the_bound():
    bomb, bound = compress(bytes(50 << 20)), 1 << 20
    tracemalloc.start()
    with pytest.raises(ValueError, match="more than 1048576 bytes"):
        decompressed(bomb, bound)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3 * bound


def frames_folder_of(log):
    files = frames_of(log)
    assert files is not None
    return files.folder


def test_frames_in_a_folder_that_others_write_are_not_used(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    log = sqlite_log(tmp_path, world_records())
    beside = tmp_path / "run.db.frames"
    assert frames_folder_of(log) == beside
    beside.mkdir(mode=0o700)
    assert frames_folder_of(log) == beside
    beside.chmod(0o777)
    assert frames_folder_of(log).is_relative_to(tmp_path / "cache")
    beside.rmdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    beside.symlink_to(tmp_path / "elsewhere")
    assert frames_folder_of(log).is_relative_to(tmp_path / "cache")


def test_a_growing_log_is_followed(many_frames, tmp_path):
    records = world_records()
    log = log_of(records[:10])
    timeline = played(log)
    with pytest.raises(NoPlaceError, match="its last is 9"):
        timeline.look(Place(10), state)
    before = decode_record(records[9]).seq
    log.append(LogAppend(10, before, decode_record(records[-1]).seq, tuple(records[10:])), 1)
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


def test_an_intent_of_an_event_has_its_conditions_as_texts():
    records: list[bytes] = []
    kernel = Kernel(World(), sink=records.append)
    kernel.register_agent("ann", position=[0.0, 0.0])
    place = {"path": ["world.agents", "ann", "position", "0"], "op": "==", "value": 0}
    gone = {"path": ["world.agents", "bob"], "op": "absent"}
    kernel.decide([move("ann", "m", [1.0, 0.0], expect=[place, gone])])
    record = decode_record(records[-1])
    assert isinstance(record, Admitted)
    assert agents_in(record) == ["ann"]
    [intent] = event_of(Place(len(records) - 1), record)["intents"]
    assert intent["expect"] == ["world.agents/ann/position/0 == 0", "world.agents/bob absent"]


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
        log.append(LogAppend(first, seq, after, part), epoch)
        seq = after
    log.close()
    return SqliteEventLog(folder / name)
