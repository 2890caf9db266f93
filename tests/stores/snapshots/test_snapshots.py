"""A world's snapshots: when they are due, the process that takes them, and failures."""

import os
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread

from placet import Orchestrator, OrchestratorConfig
from placet.actors.metrics import Counters
from placet.history.reader import check_integrity
from placet.kernel.log.replay import Replayer
from placet.runtime import world as open_world
from placet.schemas.errors import StoreError
from placet.schemas.log.record import LogAppend, LogStart
from placet.schemas.log.snapshot import SnapshotPosition
from placet.stores.snapshots import writer as snapshot_process
from placet.stores.snapshots.files import SnapshotFiles, snapshots_of
from placet.stores.snapshots.recovery import Recovery, recover
from placet.stores.snapshots.scheduler import SnapshotScheduler
from placet.stores.snapshots.writer import SnapshotProcess, WrittenSnapshot, take_snapshot
from placet.stores.sqlite.log import SqliteEventLog
from placet.stores.url import open_event_log
from tests.kernel.builders import add
from tests.kernel.domains import Lab
from tests.stores.snapshots.logs import cut_at, files_of, records_of_adds, snapshot_at, write_log

LATEST_SECONDS = 60

# the process


def test_a_separate_process_takes_a_snapshot_and_reports_it(tmp_path):
    records = records_of_adds(20)
    log = write_log(tmp_path / "a.db", records)
    snapshot_at(log, records, 10)
    taken = SnapshotProcess(log.url, 2, LATEST_SECONDS).run()
    assert taken is not None
    assert (taken.records, taken.seq, taken.folded) == (len(records), 24, len(records) - 10)
    assert taken.compact_before == 9
    assert recover(log).snapshot == SnapshotPosition(taken.records, taken.seq)


def test_a_failing_process_is_an_error_with_its_last_output(tmp_path):
    with pytest.raises(StoreError, match=r"code 1 and wrote: .*there is no file"):
        SnapshotProcess(f"sqlite:///{tmp_path}/gone.db", 2, LATEST_SECONDS).run()


def test_a_process_that_cannot_be_started_is_an_error(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(StoreError, match=r"it cannot be started: .*No such file"):
        SnapshotProcess("sqlite:///a.db", 2, LATEST_SECONDS).run()


def test_a_process_that_exceeds_its_time_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshot_process, "_PROGRAM", "import time; time.sleep(600)")
    with pytest.raises(StoreError, match=r"took longer than 0\.01 s"):
        SnapshotProcess("sqlite:///a.db", 2, 0.01).run()


def test_closing_the_world_ends_the_process(tmp_path, monkeypatch):
    program = f"open({str(tmp_path / 'begun')!r}, 'w').close(); import time; time.sleep(600)"
    monkeypatch.setattr(snapshot_process, "_PROGRAM", program)
    process = SnapshotProcess("sqlite:///a.db", 2, LATEST_SECONDS)
    outcome: list[WrittenSnapshot | None] = []
    thread = threading.Thread(target=lambda: outcome.append(process.run()))
    thread.start()
    while process._process is None:
        threading.Event().wait(0.001)
    process.stop()
    process.stop()
    thread.join(LATEST_SECONDS)
    assert outcome == [None]
    assert process.run() is None


def test_an_orphaned_process_takes_no_snapshot(tmp_path, monkeypatch, capsys):
    log = write_log(tmp_path / "a.db", records_of_adds(3))
    monkeypatch.setattr(sys, "argv", ["-c", log.url, "2", "1"])
    monkeypatch.setattr(os, "nice", lambda _: 0)
    monkeypatch.setattr(snapshot_process, "tune_gc", lambda: None)
    monkeypatch.setattr(os, "getppid", lambda: 2)
    assert snapshot_process.main() == 1
    assert "is not needed" in capsys.readouterr().err
    monkeypatch.setattr(os, "getppid", lambda: 1)
    assert snapshot_process.main() == 0
    assert capsys.readouterr().out.startswith('{"records":8,"seq":7,')
    assert len(files_of(log).places()) == 1


def test_a_delayed_process_keeps_the_snapshots_of_its_successor(tmp_path, monkeypatch):
    """The process belongs to a paused writer whose successor has compacted the log."""
    records = records_of_adds(40)
    log = write_log(tmp_path / "a.db", records, to=10)
    files = files_of(log)
    snapshot_at(log, records, 5)
    remove = files.remove

    def be_held_up(places: Iterable[SnapshotPosition]) -> None:
        monkeypatch.setattr(files, "remove", remove)
        write_log(tmp_path / "a.db", records, to=20)
        take_snapshot(log, files)
        write_log(tmp_path / "a.db", records, to=30)
        cut_at(log, take_snapshot(log, files).compact_before)
        remove(places)

    monkeypatch.setattr(files, "remove", be_held_up)
    take_snapshot(log, files)
    assert [place.records for place in files.places()] == [30, 20]
    assert recover(log).past.journal.count == 30


# the keeper


class FakeProcess:
    """A snapshot writer with given results that counts its calls."""

    def __init__(self, *outcomes: WrittenSnapshot | StoreError | None) -> None:
        self.outcomes = list(outcomes)
        self.runs = 0
        self.is_stopped = False

    def run(self) -> WrittenSnapshot | None:
        self.runs += 1
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, StoreError):
            raise outcome
        return outcome

    def stop(self) -> None:
        self.is_stopped = True


def taken(records: int, seq: int, before: int = 0) -> WrittenSnapshot:
    return WrittenSnapshot(records=records, seq=seq, size_bytes=1, folded=1, compact_before=before)


class Kept:
    """A snapshot scheduler and the events it reported."""

    def __init__(self, process: Any, log: Any = None, *, every: int = 10, **more: Any) -> None:
        self.counters = Counters([])
        self.faults: list[str] = []
        self.keeper = SnapshotScheduler(
            log,
            1,
            process,
            self.counters,
            every=every,
            recovery=more.get("recovery", Recovery(Replayer())),
            is_compacting=log is not None,
            on_fault=lambda where, error: self.faults.append(f"{where}: {error}"),
        )

    @property
    def is_due(self) -> bool:
        return self.keeper._is_due.is_set()

    def gauge(self, name: Any) -> float:
        return self.counters.gauges[name][""]()

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until something is so and no snapshot is due."""
        with anyio.fail_after(LATEST_SECONDS):
            while self.is_due or not is_so():
                await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize(("records", "seq"), [(3, 10), (10, 3)])
async def test_a_snapshot_is_due_after_a_number_of_seqs_or_records(records, seq):
    process = FakeProcess(taken(9, 10), taken(25, 21))
    kept = Kept(process)
    kept.keeper.note(9, 9)
    assert not kept.is_due
    kept.keeper.note(records, seq)
    await kept.until(lambda: process.runs == 1 and kept.gauge("snapshot_seq") == 10)
    kept.keeper.note(18, 19)
    assert not kept.is_due
    kept.keeper.note(18, 20)
    await kept.until(lambda: kept.gauge("snapshot_seq") == 21)
    assert kept.counters.snapshots == {"written": 2, "failed": 0}
    assert kept.counters.snapshot_seconds.count == 2


async def test_a_failure_is_reported_counted_and_not_repeated_at_once():
    process = FakeProcess(StoreError("the disk is full"), None, taken(60, 60))
    kept = Kept(process)
    kept.keeper.note(35, 35)
    await kept.until(lambda: kept.counters.snapshots["failed"] == 1)
    assert kept.faults == ["snapshots: the disk is full"]
    kept.keeper.note(44, 44)
    assert not kept.is_due
    kept.keeper.note(45, 45)
    await kept.until(lambda: process.runs == 2)
    assert kept.counters.snapshots == {"written": 0, "failed": 1}
    kept.keeper.close()
    assert process.is_stopped


async def test_compaction_removes_in_slices_the_records_before_two_snapshots(tmp_path):
    path = tmp_path / "a.db"
    log = SqliteEventLog(path)
    epoch = log.open()
    for number in range(200):
        log.append(LogAppend(number, number, number + 1, [b"x"]), epoch)
    kept = Kept(FakeProcess(taken(200, 200, before=150)), log)
    kept.keeper.note(200, 200)
    await kept.until(lambda: kept.gauge("log_first_record") == 150)
    assert log.start() == LogStart(150, 150)
    log.close()


async def test_a_failed_compaction_is_reported_and_snapshots_continue(tmp_path):
    log = SqliteEventLog(tmp_path / "a.db")
    log.open()
    other = SqliteEventLog(tmp_path / "a.db")
    other.open(take_over=True)
    process = FakeProcess(taken(10, 10, before=5), taken(30, 30, before=5))
    kept = Kept(process, log)
    kept.keeper.note(10, 10)
    await kept.until(lambda: len(kept.faults) == 1)
    assert "compaction: cannot append" in kept.faults[0]
    kept.keeper.note(30, 30)
    await kept.until(lambda: process.runs == 2)
    log.close()
    other.close()


# in a world


class InThisProcess(SnapshotProcess):
    """Takes the snapshot in a thread of the test's own process, which is quicker."""

    def run(self) -> WrittenSnapshot | None:
        log = open_event_log(self._url)
        files = snapshots_of(log)
        assert files is not None
        return take_snapshot(log, files, kept_count=self._kept)


@pytest.fixture
def in_this_process(monkeypatch):
    monkeypatch.setattr(open_world, "SnapshotProcess", InThisProcess)


def config_in(folder: Path, **more: Any) -> OrchestratorConfig:
    return OrchestratorConfig(store=f"sqlite:///{folder}/w.db?synchronous=off", **more)


async def add_until(world: Orchestrator, numbers: range, is_so: Callable[[], bool]) -> int:
    """Submit adds until something is so; gives how many it took."""
    for count, number in enumerate(numbers):
        if is_so():
            return count
        assert (await world.submit([add(f"r:{number}")])).admitted
        await to_thread.run_sync(lambda: None)
    raise AssertionError("it never was so")


@pytest.mark.usefixtures("in_this_process")
async def test_a_world_takes_snapshots_and_opens_from_the_newest(tmp_path):
    config = config_in(tmp_path, snapshot_every_seqs=20)
    async with Orchestrator(Lab(), config) as world:
        await world.register_agent("alice")
        counters = world._open.counters
        await add_until(world, range(5_000), lambda: counters.snapshots["written"] >= 3)
        digest = await world.digest()
    log = open_event_log(config.store)
    recovered = recover(log)
    assert recovered.snapshot is not None
    assert recovered.past.state.digest().hex() == digest
    assert recovered.folded == log.count() - recovered.snapshot.records
    report = check_integrity(log)
    assert (report.is_ok, report.snapshots, report.warnings) == (True, 2, ())
    async with Orchestrator(Lab(), config) as world:
        assert world._open.counters.gauges["snapshot_seq"][""]() == recovered.snapshot.seq
        assert await world.digest() == digest


@pytest.mark.usefixtures("in_this_process")
async def test_a_compacting_world_keeps_two_snapshots_and_the_records_after_the_older(tmp_path):
    config = config_in(tmp_path, snapshot_every_seqs=20, compact_log=True)
    async with Orchestrator(Lab(), config) as world:
        await world.register_agent("alice")
        begins = world._open.counters.gauges["log_first_record"][""]
        await add_until(world, range(5_000), lambda: begins() > 60)
        digest = await world.digest()
        events = [event.seq async for event in _soon(world, since=0)]
        assert events[0] > 50  # what is gone is not made up
    log = open_event_log(config.store)
    assert check_integrity(log).is_ok
    assert log.start().record > 60
    async with Orchestrator(Lab(), config) as world:
        assert await world.digest() == digest


def goes_elsewhere(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(folder)
    return "sqlite:///w.db"


def leads_elsewhere(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    link = folder.parent / "link.db"
    link.unlink(missing_ok=True)
    link.symlink_to(folder / "w.db")
    (folder / "w.db").touch()  # no log is made through a link that leads nowhere
    return f"sqlite:///{link}"


@pytest.mark.parametrize("named", [goes_elsewhere, leads_elsewhere])
@pytest.mark.usefixtures("in_this_process")
async def test_a_log_of_the_same_name_elsewhere_is_not_mistaken_for_the_worlds(
    tmp_path, monkeypatch, named
):
    """Otherwise snapshots of another log would determine how much is compacted."""
    here, other = tmp_path / "here", tmp_path / "other"
    for folder in (here, other):
        folder.mkdir()
    write_log(other / "w.db", records_of_adds(200))
    config = OrchestratorConfig(
        store=named(here, monkeypatch), snapshot_every_seqs=20, compact_log=True
    )
    async with Orchestrator(Lab(), config) as world:
        named(other, monkeypatch)
        await world.register_agent("alice")
        begins = world._open.counters.gauges["log_first_record"][""]
        await add_until(world, range(5_000), lambda: begins() > 0)
        digest = await world.digest()
    assert [file.name for file in other.iterdir()] == ["w.db"]
    assert recover(SqliteEventLog(here / "w.db")).past.state.digest().hex() == digest


async def _soon(world: Orchestrator, since: int) -> Any:
    """Return the events so far."""
    end = world.seq
    async for event in world.events(since):
        yield event
        if event.seq >= end:
            return


@pytest.mark.usefixtures("in_this_process")
async def test_a_world_with_a_long_tail_takes_a_snapshot_when_opened(tmp_path):
    off = config_in(tmp_path, snapshot_every_seqs=None)
    async with Orchestrator(Lab(), off) as world:
        await world.register_agent("alice")
        for number in range(30):
            await world.submit([add(f"r:{number}")])
    assert not (tmp_path / "w.db.snapshots").exists()
    async with Orchestrator(Lab(), config_in(tmp_path, snapshot_every_seqs=10)) as world:
        counters = world._open.counters
        await add_until(world, range(30, 5_000), lambda: counters.snapshots["written"] == 1)


async def test_a_failing_snapshot_process_does_not_affect_the_world(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(snapshot_process, "_PROGRAM", "import sys; sys.exit('no room')")
    config = config_in(tmp_path, snapshot_every_seqs=5)
    async with Orchestrator(Lab(), config) as world:
        await world.register_agent("alice")
        counters = world._open.counters
        await add_until(world, range(5_000), lambda: counters.snapshots["failed"] >= 1)
        assert (await world.submit([add("last")])).admitted
    assert "no room" in capsys.readouterr().err


async def test_a_skipped_snapshot_is_logged(tmp_path, capsys):
    config = config_in(tmp_path, snapshot_every_seqs=None)
    async with Orchestrator(Lab(), config) as world:
        await world.register_agent("alice")
    log = open_event_log(config.store)
    files = snapshots_of(log)
    assert isinstance(files, SnapshotFiles)
    take_snapshot(log, files)
    (files.folder / files.places()[0].name).write_bytes(b"damaged")
    async with Orchestrator(Lab(), config) as world:
        assert world.seq == 2
    said = capsys.readouterr()
    assert "is not used: it does not begin as a snapshot does" in said.err + said.out


async def test_a_log_in_memory_has_no_snapshots():
    config = OrchestratorConfig(snapshot_every_seqs=1)
    async with Orchestrator(Lab(), config) as world:
        await world.register_agent("alice")
        assert world._open.counters.snapshots == {"written": 0, "failed": 0}


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"snapshot_every_seqs": 0}, "snapshot_every_seqs must be None or an int >= 1, got 0"),
        ({"snapshots_kept": 1}, "snapshots_kept must be an int >= 2, got 1"),
        ({"compact_log": True}, "needs a store on disk"),
        ({"compact_log": True, "store": "a.db", "snapshot_every_seqs": None}, "snapshot_every"),
    ],
)
def test_invalid_snapshot_options_are_refused_at_construction(config, said):
    with pytest.raises(ValueError, match=said):
        OrchestratorConfig(**config)
