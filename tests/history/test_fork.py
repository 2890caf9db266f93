"""Laws of forks: a fork continues as its parent would have, and shares nothing with it."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Barrier
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings

from placet import Orchestrator, OrchestratorConfig
from placet.actors.ports import EventLog
from placet.domains.world import World
from placet.history import fork as forking
from placet.history.bisect import bisect
from placet.history.diff import diff
from placet.history.fork import ForkOptions, fork
from placet.history.reader import fold
from placet.history.verify_log import verify_log
from placet.kernel import Kernel
from placet.kernel.log.snapshot import dump, world_digest
from placet.schemas.codec import from_canonical
from placet.schemas.errors import AgentError, StoreError, ValidationError
from placet.schemas.limits import Limits
from placet.schemas.log.record import (
    Admitted,
    ForkAdopted,
    Forked,
    LogAppend,
    Refused,
    Scheduled,
    decode_record,
    encode_record,
    group_of,
    record_hash,
)
from placet.stores.snapshots.files import snapshots_of
from placet.stores.sqlite import layout as log_layout_sqlite
from placet.stores.sqlite.log import SqliteEventLog
from placet.stores.url import open_event_log
from tests.history.forks import DOMAINS, kernel_in, log_of, make_fork, records_in
from tests.kernel.builders import add, intent, kernel_of
from tests.kernel.domains import COUNTS, MAIL, THINGS
from tests.kernel.traces import SETTINGS, TRACES, random_trace, run_trace, time_of
from tests.stores.snapshots.logs import cut_at, files_of, snapshot_at, write_log

EACH_SETTING = pytest.mark.parametrize("setting", ["wide", "tight", "strict"])


def settings_of(setting: str) -> dict[str, Any]:
    chosen = {**SETTINGS[setting], "domain": DOMAINS}
    return {name: value for name, value in chosen.items() if name != "agents"}


def config_of(setting: str) -> dict[str, Any]:
    chosen = settings_of(setting)
    del chosen["domain"]
    chosen["limits"] = Limits(**chosen.get("limits", {}))
    return chosen


def ends_of_groups(records: list[bytes]) -> list[int]:
    """Seqs at which a batch ended and no group went on."""
    ends = []
    decoded = [decode_record(data) for data in records]
    for record, following in zip(decoded, [*decoded[1:], None], strict=True):
        is_inside = isinstance(following, Admitted | Refused | Scheduled) and group_of(
            following
        ) == group_of(record)
        if not is_inside and (following is None or following.seq > record.seq):
            ends.append(record.seq)
    return ends


# it goes on as its parent would have


@EACH_SETTING
@pytest.mark.slow
@settings(max_examples=5)
@given(trace=TRACES)
@example(trace=random_trace(1))
@example(trace=random_trace(2))
def test_a_fork_with_the_same_inputs_equals_its_parent(setting, trace):
    """A fork of what was recorded + the same inputs = the parent: state, books and seq."""
    places = sorted({0, len(trace) // 3, len(trace) * 2 // 3})
    log: list[bytes] = []
    parent = kernel_of(sink=log, agents=["alice", "bob", "carol"], **settings_of(setting))
    kept = []
    for place, step in enumerate(trace):
        if place in places:
            kept.append((place, parent.sim_time, list(log)))
        run_trace(parent, [step], time_of(trace[:place]))
    with TemporaryDirectory() as folder:
        for place, sim_time, records in kept:
            made = make_fork(records, Path(folder), name=f"{place}.db", effects="simulate")
            child = kernel_in(made, **config_of(setting))
            assert child.world_digest() == world_digest_of(records)
            assert child.record_count == len(records) + 1
            child.decide_group([], sim_time)  # what left no trace may have moved its clock
            run_trace(child, trace[place:], time_of(trace[:place]))
            assert (child.seq, child.digest()) == (parent.seq, parent.digest())
            assert whole(child) == whole(parent)


def whole(kernel: Kernel) -> Any:
    """Return state and ledger, without chain and record numbers of scheduled batches."""
    _, state, books = from_canonical(dump(kernel.tree, kernel.ledger))
    scheduled = [decode_record(data) for data in books["scheduled"]]
    books["scheduled"] = [msgspec.structs.replace(one, prev=b"", batch_id="") for one in scheduled]
    return state, books


def world_digest_of(records: list[bytes]) -> str:
    past = fold(log_of(records))
    return world_digest(past.state, past.ledger).hex()


@EACH_SETTING
@pytest.mark.parametrize("seed", [3, 4])
def test_what_if_without_a_change_repeats_the_parent_from_any_seq(setting, seed, tmp_path):
    """what-if without changes = the parent, also if batches without a record lay in between."""
    log: list[bytes] = []
    parent = kernel_of(sink=log, agents=["alice", "bob", "carol"], **settings_of(setting))
    run_trace(parent, random_trace(seed, 60))
    for at in ends_of_groups(log)[2::9]:
        made = make_fork(log, tmp_path, at, f"{at}.db", effects="simulate", is_replayed=True)
        report = made.counterfactual
        assert report is not None
        assert (report.stopped, report.notes) == ("", [])
        assert report.batches == report.same
        assert report.other_changes == report.effects_unanswered == 0
        assert (report.seq, report.digest) == (parent.seq, parent.digest())
        assert (report.parent_seq, report.parent_digest) == (report.seq, report.digest)
        assert diff(log_of(log), open_event_log(made.store)).is_empty


@EACH_SETTING
def test_a_fork_is_verified_and_verified_from_its_parents_beginning(setting, tmp_path):
    log: list[bytes] = []
    parent = kernel_of(sink=log, agents=["alice", "bob", "carol"], **settings_of(setting))
    run_trace(parent, random_trace(5, 60))
    at = ends_of_groups(log)[len(log) // 4]
    made = make_fork(
        log, tmp_path, at, put={f"{THINGS}/new": {"x": 1}}, effects="simulate", is_replayed=True
    )
    decided = verify_log(open_event_log(made.store), DOMAINS)
    assert decided.integrity.first_divergence is None
    assert decided.unverified == ()
    parting = bisect(log_of(log), open_event_log(made.store), DOMAINS)
    assert (parting.record, parting.seq) == (made.record, at)


# it says where it comes from


def a_lab(**options: Any) -> list[bytes]:
    """Decide an addition, a creation, and a mail effect that stays open."""
    log: list[bytes] = []
    kernel = kernel_of(DOMAINS, sink=log, **options)
    kernel.decide([add("a:0"), add("a:1")])
    kernel.decide([intent("Put", {"thing": "c", "field": "x", "value": [1, 2]}, "p")])
    kernel.decide([intent("Mail", {"count": 2}, "m")])
    kernel.decide({"intents": [add("late", agent_id="bob")], "sim_time": 50.0}, 1.0)
    return log


def test_a_fork_begins_with_its_parents_name_seq_and_hash(tmp_path):
    log = a_lab()
    made = make_fork(log, tmp_path)
    records = records_in(made.store)
    assert records[: len(log)] == log
    first = decode_record(records[len(log)])
    assert isinstance(first, ForkAdopted)
    assert first.prev == record_hash(log[-1]) == bytes.fromhex(made.chain)
    assert (first.parent, first.seq, made.record) == ("world", made.seq, len(log))
    assert first.world == made.world != "world"
    header = fold(open_event_log(made.store)).header
    assert isinstance(header, Forked)
    assert (header.world, header.forked_from) == (made.world, ("world", made.seq))


@pytest.mark.parametrize("name", ["a?b.db", "a%20b.db", "a#b.db"])
def test_a_fork_reports_its_path(name, tmp_path):
    log = a_lab()
    made = fork(log_of(log), str(tmp_path / name))
    assert (tmp_path / name).is_file()
    assert len(records_in(made.store)) == len(log) + 1


def test_two_forks_at_one_seq_have_different_names(tmp_path):
    log = a_lab()
    names = {make_fork(log, tmp_path, name=f"{n}.db").world for n in range(3)}
    assert len(names) == 3
    assert make_fork(log, tmp_path, name="named.db", world="mine").world == "mine"
    for name in ("world", "", "a/b", "x" * 129):
        with pytest.raises(ValueError, match="needs another name"):
            make_fork(log, tmp_path, name="no.db", world=name or "\n")


def test_a_fork_can_be_forked(tmp_path):
    log = a_lab()
    once = make_fork(log, tmp_path, name="once.db")
    twice = make_fork(records_in(once.store), tmp_path, name="twice.db")
    assert (once.parent, twice.parent) == ("world", once.world)
    assert verify_log(open_event_log(twice.store), DOMAINS).integrity.is_ok
    before = make_fork(records_in(twice.store), tmp_path, 3, "before.db", is_replayed=True)
    assert before.counterfactual is not None
    assert "fork it here or later" in before.counterfactual.stopped


# it shares nothing


def bytes_of(folder: Path, stem: str) -> dict[str, str]:
    files = [p for p in folder.rglob("*") if stem in str(p.relative_to(folder)) and p.is_file()]
    return {str(path): sha256(path.read_bytes()).hexdigest() for path in files}


def test_no_byte_of_the_parent_changes(tmp_path):
    log = write_log(tmp_path / "parent.db", a_lab())
    snapshot_at(log, records_in(log.url), 6)
    before = bytes_of(tmp_path, "parent")
    assert len(before) == 2
    made = fork(
        log,
        str(tmp_path / "child.db"),
        ForkOptions(put={f"{COUNTS}/alice/count": 40}, dropped=["bob"], is_replayed=True),
        at=6,
        domains=DOMAINS,
    )
    child: list[bytes] = []
    kernel = kernel_in(made, child)
    assert kernel.decide([add("more")]).admitted
    write_log(tmp_path / "child.db", [*records_in(made.store), *child])
    assert bytes_of(tmp_path, "parent") == before
    assert fold(log).state.get(COUNTS, "alice", "count") == 2


async def test_a_running_world_is_forked_and_continues(tmp_path):
    config = OrchestratorConfig(store=f"sqlite:///{tmp_path / 'town.db'}", world="town")
    async with Orchestrator(World(), config) as town:
        ann = await town.register_agent("ann", position=[0, 0])
        await ann.submit([ann.intent("Move", to=[1, 0])])
        live_fork = await town.fork(str(tmp_path / "live.db"))
        beside = fork(open_event_log(config.store), str(tmp_path / "beside.db"))
        await ann.submit([ann.intent("Move", to=[2, 0])])
        assert live_fork.seq == beside.seq == town.seq - 1
        assert await town.state("world.agents/ann/position") == [2, 0, 0]
    for made in (live_fork, beside):
        config = OrchestratorConfig(store=made.store, world=made.world)
        async with Orchestrator(World(), config) as options:
            assert await options.state("world.agents/ann/position") == [1, 0, 0]
            again = await options.register_agent("ann")
            assert (await again.submit([again.intent("Move", to=[9, 9])])).admitted
        assert verify_log(open_event_log(made.store)).integrity.is_ok


async def test_a_world_in_memory_is_forked_into_a_file(tmp_path):
    async with Orchestrator(World()) as world:
        await world.register_agent("ann", position=[3, 0])
        made = await world.fork(str(tmp_path / "kept.db"), ForkOptions(world="kept"), at=world.seq)
    assert fold(open_event_log(made.store)).state.exists("world.agents", "ann")


def test_a_fork_is_opened_by_its_own_name_only(tmp_path):
    made = make_fork(a_lab(), tmp_path)
    with pytest.raises(StoreError, match="open it with its own"):
        kernel_in(replace(made, world="world"))


# where, and into what


def test_a_seq_inside_a_batch_is_refused_with_the_seqs_around_it(tmp_path):
    log = a_lab()
    with pytest.raises(StoreError, match=r"inside a batch.* seq 4 or 6"):
        make_fork(log, tmp_path, 5)
    with pytest.raises(StoreError, match=r"it ends at seq \d+"):
        make_fork(log, tmp_path, 99)
    with pytest.raises(StoreError, match="is empty"):
        make_fork([], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_is_not_overwritten_by_a_fork(tmp_path):
    log = a_lab()
    made = make_fork(log, tmp_path)
    with pytest.raises(StoreError, match="it is there already"):
        make_fork(log, tmp_path)
    (tmp_path / "left.db.snapshots").mkdir()
    (tmp_path / "left.db.snapshots" / "of-another-log").touch()
    with pytest.raises(StoreError, match="it is there already"):
        make_fork(log, tmp_path, name="left.db")
    with pytest.raises(StoreError, match="no such directory"):
        make_fork(log, tmp_path / "nowhere")
    with pytest.raises(StoreError, match="a separate log in a file"):
        fork(log_of(log), "memory://")
    assert fork(log_of(log), str(tmp_path / "plain")).store.endswith("plain.db")
    assert made.store.endswith("f.db")


def test_a_fork_that_fails_leaves_nothing(tmp_path):
    log = a_lab()
    bent = encode_record(msgspec.structs.replace(decode_record(log[4]), now_ns=7))
    parent = write_log(tmp_path / "parent.db", log)
    snapshot_at(parent, log, 6)
    broken = stored_as_it_is(tmp_path / "bent.db", [*log[:4], bent, *log[5:]])
    files_of(parent).folder.rename(tmp_path / "bent.db.snapshots")
    there = sorted(tmp_path.iterdir())
    with pytest.raises(StoreError, match="chain is broken"):
        fork(broken, str(tmp_path / "child.db"))
    assert sorted(tmp_path.iterdir()) == there


def test_a_fork_that_cannot_start_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(log_layout_sqlite, "_SCHEMA", ("a disk that is full",))
    with pytest.raises(StoreError, match=r"cannot open .*unfinished"):
        fork(log_of(a_lab()), str(tmp_path / "child.db"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("is_cut", [False, True])
def test_only_one_of_two_concurrent_forks_to_a_path_succeeds(tmp_path, monkeypatch, is_cut):
    records = a_lab()
    parent = write_log(tmp_path / "parent.db", records)
    if is_cut:
        snapshot_at(parent, records, 6)
        snapshot_at(parent, records, len(records))
        cut_at(parent, 5)
    before = set(tmp_path.iterdir())
    require_free, both_looked = forking._require_free, Barrier(2, timeout=60)

    def looked(log: EventLog, path: Path) -> None:
        require_free(log, path)
        both_looked.wait()

    monkeypatch.setattr(forking, "_require_free", looked)
    with ThreadPoolExecutor(2) as pool:
        tried = [
            pool.submit(fork, parent, str(tmp_path / "a.db"), ForkOptions(world=name))
            for name in ("one", "other")
        ]
        failures = [one.exception() for one in tried]
    (failure,) = (one for one in failures if one is not None)
    assert isinstance(failure, StoreError)
    assert "cannot fork into" in str(failure)
    assert "another process made it meanwhile; give a new path" in str(failure)
    (made,) = (one.result() for one in tried if one.exception() is None)
    child = open_event_log(made.store)
    assert verify_log(child, DOMAINS).integrity.is_ok
    header = fold(child).header
    assert header is not None
    assert header.world == made.world
    there = {tmp_path / name for name in (["a.db", "a.db.snapshots"] if is_cut else ["a.db"])}
    assert set(tmp_path.iterdir()) - before == there
    if is_cut:
        assert len(list((tmp_path / "a.db.snapshots").iterdir())) == 2


def stored_as_it_is(path: Path, records: list[bytes]) -> EventLog:
    """Keep records in a file, whether or not they hold together."""
    log = open_event_log(f"sqlite:///{path}?synchronous=off")
    log.append(LogAppend(0, 0, decode_record(records[-1]).seq, tuple(records)), log.open())
    log.close()
    return log


def test_a_compacted_log_is_forked_from_its_remaining_records(tmp_path):
    records = a_lab()
    log = write_log(tmp_path / "parent.db", records)
    snapshot_at(log, records, 6)
    snapshot_at(log, records, len(records))
    cut_at(log, 5)
    made = fork(log, str(tmp_path / "child.db"), ForkOptions(effects="simulate"))
    child = open_event_log(made.store)
    assert child.start() == log.start() != (0, 0)
    past = fold(child)
    assert past.state.digest() == fold(log_of(records)).state.digest()
    assert verify_log(child, DOMAINS).integrity.is_ok
    with pytest.raises(StoreError, match="was compacted up to"):
        fork(log, str(tmp_path / "early.db"), at=3)


def test_a_fork_is_refused_without_the_snapshot_it_starts_from(tmp_path, monkeypatch):
    """Between its records and its snapshots, the parent's writer may compact again."""
    records = a_lab()
    log = write_log(tmp_path / "parent.db", records)
    place = snapshot_at(log, records, 6)
    cut_at(log, 5)
    there = sorted(tmp_path.iterdir())

    def gone(parent: EventLog) -> object:
        (tmp_path / "parent.db.snapshots" / place.name).unlink()
        return snapshots_of(parent)

    monkeypatch.setattr(forking, "snapshots_of", gone)  # asked when the records are copied
    with pytest.raises(StoreError, match="was compacted while it was read; fork again"):
        fork(log, str(tmp_path / "child.db"))
    assert sorted(tmp_path.iterdir()) == there


def test_a_fork_has_no_snapshot_of_later_refusals_of_its_parent(tmp_path, monkeypatch):
    """A refusal takes no seq: a snapshot after it stands at the seq of the fork."""
    records: list[bytes] = []
    kernel = kernel_of(DOMAINS, sink=records)
    shared = len(records)
    assert not kernel.decide([intent("Take", {"amount": 500}, "t")]).admitted
    log = write_log(tmp_path / "parent.db", records, to=shared)
    place = snapshot_at(log, records, 4)

    def meanwhile(parent: EventLog) -> object:
        write_log(tmp_path / "parent.db", records)
        assert snapshot_at(log, records, len(records)).seq == kernel.seq
        return snapshots_of(parent)

    monkeypatch.setattr(forking, "snapshots_of", meanwhile)  # as above
    made = fork(log, str(tmp_path / "child.db"))
    assert made.record == shared
    assert files_of(SqliteEventLog(tmp_path / "child.db")).places() == [place]


# what is otherwise


def test_the_record_of_a_fork_lists_set_values_and_dropped_agents(tmp_path):
    log = a_lab()
    made = make_fork(
        log,
        tmp_path,
        put={
            f"{COUNTS}/alice/count": 40,
            f"{THINGS}/a": None,
            f"{THINGS}/c": {"y": [1, {"z": None}]},
            f"{THINGS}/new": {},
        },
        dropped=["bob"],
    )
    past = fold(open_event_log(made.store))
    state = past.state
    assert state.get(COUNTS, "alice", "count") == 40
    stamp = state.collections[COUNTS].entities["alice"]
    assert (stamp.seq, stamp.by) == (made.seq, "operator")
    assert not state.exists(THINGS, "a")
    assert state.entity(THINGS, "c") == {"y": (1, {"z": None})}
    assert state.exists(THINGS, "new")
    assert not state.exists(COUNTS, "bob")
    assert past.ledger.seq == made.seq == decode_record(log[-1]).seq
    assert list(past.ledger.agents) == ["alice"]
    assert past.ledger.scheduled == {}  # what bob had there
    decided = verify_log(open_event_log(made.store), DOMAINS)
    assert decided.integrity.first_divergence is None
    kernel = kernel_in(made)
    assert kernel.decide([add("x", 15)]).admitted  # 40 + 15
    assert kernel.decide([add("y", 15)]).codes == ("invariant_violated",)


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"put": {f"{COUNTS}/alice/count": 61}}, ValidationError, "more than 60"),
        ({"put": {f"{COUNTS}/nobody/count": 1}}, ValidationError, "no entity lab.counts/nobody"),
        ({"put": {f"{THINGS}/z": None}}, ValidationError, "no entity lab.things/z"),
        ({"put": {f"{THINGS}/a": 3}}, ValidationError, "an object of all its fields"),
        ({"put": {THINGS: {}}}, ValidationError, "expected collection/entity"),
        ({"put": {f"{THINGS}/a/x": float("nan")}}, ValidationError, "plain JSON"),
        ({"put": {f"{THINGS}/a//": 1}}, ValidationError, "all its fields"),
        ({"dropped": ["nobody"]}, AgentError, "cannot be dropped"),
        ({"effects": "live"}, ValueError, "effects must be one of"),
    ],
)
def test_an_impossible_change_is_refused_and_creates_no_fork(options, error, said, tmp_path):
    with pytest.raises(error, match=said):
        make_fork(a_lab(), tmp_path, **options)
    assert list(tmp_path.iterdir()) == []


def test_a_forged_record_of_set_values_is_detected(tmp_path):
    log = a_lab()
    made = make_fork(log, tmp_path, put={f"{COUNTS}/alice/count": 40})
    *_, first = records_in(made.store)
    record = decode_record(first)
    assert isinstance(record, ForkAdopted)
    (change,) = record.changes.entities
    richer = msgspec.structs.replace(change, fields={"count": 50})
    changes = msgspec.structs.replace(record.changes, entities=[richer])
    forged = encode_record(msgspec.structs.replace(record, changes=changes))
    divergence = verify_log(log_of([*log, forged]), DOMAINS).integrity.first_divergence
    assert divergence is not None
    assert divergence["part"] == "lab.counts/alice count"
    assert "for a fork" in divergence["rule"]


def test_without_its_rules_a_fork_is_folded(tmp_path):
    made = make_fork(a_lab(), tmp_path, put={f"{COUNTS}/alice/count": 40}, dropped=["bob"])
    decided = verify_log(open_event_log(made.store), ())
    assert decided.integrity.is_ok
    assert decided.unverified
    with pytest.raises(StoreError, match="the given domains cannot re-execute the log"):
        fork_by_world(a_lab(), tmp_path)


def fork_by_world(log: list[bytes], folder: Path) -> None:
    fork(log_of(log), str(folder / "w.db"), ForkOptions(dropped=["bob"]), domains=[World()])


def test_effects_are_refused_in_a_fork_unless_simulated(tmp_path):
    log = a_lab()
    refusing = kernel_in(make_fork(log, tmp_path, name="refuse.db"))
    assert refusing.decide([intent("Mail", {"count": 1}, "n")]).codes == ("tool_unregistered",)
    made = make_fork(log, tmp_path, name="simulate.db", effects="simulate")
    simulating = kernel_in(made)
    assert simulating.decide([intent("Mail", {"count": 1}, "n")]).admitted
    assert made.open_effects == 2
    keys = {effect.key for effect in simulating.open_effects()}
    assert {key.world for key in keys} == {made.world}
    assert MAIL in simulating.ledger.executors
