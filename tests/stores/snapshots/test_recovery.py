"""A world is recovered from the newest valid snapshot and the log after it."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec.structs import replace as changed

from placet.history.reader import (
    check_integrity,
    config_from,
    config_of,
    fold,
)
from placet.history.selection import Selection, selected_records
from placet.kernel.log import snapshot as snapshots
from placet.kernel.log.replay import Divergence, Replayer, folded
from placet.kernel.state.collection import Entity
from placet.schemas.errors import StoreError
from placet.schemas.log.record import Checkpoint, LogAppend, LogStart, decode_record, encode_record
from placet.schemas.log.snapshot import Snapshot, SnapshotPosition
from placet.stores.files import Disk
from placet.stores.memory import MemoryEventLog
from placet.stores.snapshots.files import SnapshotFiles
from placet.stores.snapshots.recovery import recover, trusted_places
from placet.stores.snapshots.writer import take_snapshot
from placet.stores.sqlite import layout as log_layout_sqlite
from placet.stores.sqlite.log import SqliteEventLog
from placet.stores.url import open_event_log
from tests.kernel.builders import add, kernel_of
from tests.stores.snapshots.logs import cut_at, files_of, records_of_adds, snapshot_at, write_log

RECORDS = records_of_adds(40)
END = len(RECORDS)


@pytest.fixture
def log(tmp_path):
    """A log of 45 records, one to a group and, from the second on, one seq each."""
    return write_log(tmp_path / "a.db", RECORDS)


def facts(past: Replayer) -> list[object]:
    return [snapshots.take(past), past.ledger.policy]


WHOLE = facts(folded(RECORDS))


# the tail


@pytest.mark.parametrize("at", [1, 2, 20, END - 1, END])
def test_recovery_from_a_snapshot_folds_the_tail_and_gives_the_whole_world(log, at):
    place = snapshot_at(log, RECORDS, at)
    recovered = recover(log)
    assert (recovered.snapshot, recovered.folded, recovered.skipped) == (place, END - at, [])
    assert facts(recovered.past) == WHOLE


def test_recovery_without_a_snapshot_folds_the_whole_log(log):
    recovered = recover(log)
    assert (recovered.snapshot, recovered.folded, recovered.skipped) == (None, END, [])
    assert facts(recovered.past) == WHOLE


def test_an_empty_log_and_a_log_in_memory_have_no_snapshots(tmp_path):
    assert recover(write_log(tmp_path / "b.db", [])).past.header is None
    assert recover(MemoryEventLog()).folded == 0


def test_opening_a_long_log_folds_only_its_tail(tmp_path):
    """Only the records after the snapshot are folded, for a log of any length."""
    records = records_of_adds(800)
    for length in (200, 400, 800):
        log = write_log(tmp_path / "long.db", records, to=length)
        snapshot_at(log, records, length - 7)
        assert recover(log).folded == 7


@pytest.mark.parametrize(("to_seq", "at"), [(0, None), (9, 5), (10, 11), (30, 31), (43, 31)])
def test_reading_up_to_a_seq_starts_at_the_nearest_earlier_snapshot(log, to_seq, at):
    for place in (5, 11, 31):
        snapshot_at(log, RECORDS, place)
    recovered = recover(log, to_seq=to_seq)
    assert (recovered.snapshot and recovered.snapshot.records) == at
    assert recovered.past.ledger.seq == to_seq
    assert recovered.folded == to_seq + 1 - (at or 0)
    assert fold(log, to_seq).state.digest() == recovered.past.state.digest()


# what cannot be trusted


def test_damaged_snapshots_are_skipped_for_an_older_one_or_the_log(log):
    old, new = snapshot_at(log, RECORDS, 10), snapshot_at(log, RECORDS, 30)
    folder = files_of(log).folder
    (folder / new.name).write_bytes((folder / new.name).read_bytes()[:-1] + b"?")
    recovered = recover(log)
    assert (recovered.snapshot, recovered.folded) == (old, END - 10)
    assert len(recovered.skipped) == 1
    assert new.name in recovered.skipped[0]
    assert "fails its checksum" in recovered.skipped[0]
    (folder / old.name).write_bytes(b"")
    recovered = recover(log)
    assert (recovered.snapshot, recovered.folded, len(recovered.skipped)) == (None, END, 2)
    assert facts(recovered.past) == WHOLE


def test_an_intact_snapshot_with_false_content_is_skipped(log):
    past = folded(RECORDS[:30])
    lie = changed(snapshots.take(past), state_digest=bytes(16))
    files_of(log).write(lie)
    recovered = recover(log)
    assert recovered.snapshot is None
    assert "not the one that it tells of" in recovered.skipped[0]
    assert (
        check_integrity(log).warnings == ()
    )  # whole, and its world is the fold's; its digest is not used


@pytest.mark.parametrize("at", range(4, 13))
@pytest.mark.parametrize("has_older", [False, True])
def test_a_forged_state_is_never_what_a_world_is_opened_with(tmp_path, at, has_older):
    """Its own checksums and digest are right, and it stands on a record of the log."""
    records = records_of_adds(12, checkpoint_groups=3)
    log = write_log(tmp_path / "w.db", records)
    if has_older:
        snapshot_at(log, records, 2)
    past = folded(records[:at])
    name, rows = next(iter(past.state.collections.items()))
    rows.entities["stranger"] = forged = Entity({"value": 99})
    past.state.mark_dirty(name, "stranger", forged)
    files_of(log).write(snapshots.take(past))
    recovery = recover(log)
    assert recovery.past.state.digest() == folded(records).state.digest()
    assert recovery.snapshot == (SnapshotPosition(2, 1) if has_older else None)
    assert len(recovery.skipped) == 1
    assert "digest" in recovery.skipped[0]


def test_a_log_with_a_false_digest_is_not_blamed_on_its_snapshots(tmp_path):
    records = records_of_adds(12, checkpoint_groups=3)
    marks = [at for at, data in enumerate(records) if isinstance(decode_record(data), Checkpoint)]
    false = changed(decode_record(records[marks[-1]]), state_digest=bytes(16))
    log = write_log(tmp_path / "w.db", records[: marks[-1]])
    snapshot_at(log, records, 5)
    epoch = log.open()
    log.append(LogAppend(marks[-1], false.seq, false.seq, [encode_record(false)]), epoch)
    log.compact(4, epoch, appends_max=99)
    log.close()
    with pytest.raises(Divergence, match="the state digest is"):
        recover(log)


def test_a_snapshot_of_another_log_is_skipped(log, tmp_path):
    others: list[bytes] = []
    kernel = kernel_of(sink=others, seed=5)
    for number in range(40):
        kernel.decide(add(f"x:{number}"))
    snapshot_at(log, others, 20)
    recovered = recover(log)
    assert recovered.snapshot is None
    assert "the snapshot is of another log" in recovered.skipped[0]


def test_a_snapshot_beyond_the_end_of_the_log_is_skipped(tmp_path):
    log = write_log(tmp_path / "short.db", RECORDS, to=20)
    snapshot_at(log, RECORDS, 30)
    recovered = recover(log)
    assert (recovered.snapshot, recovered.folded) == (None, 20)
    assert "the log ends at record 20, before it" in recovered.skipped[0]


@pytest.mark.parametrize("size", [0, 1])
def test_a_log_truncated_to_nothing_is_not_opened_as_new(tmp_path, size):
    path = tmp_path / "cut.db"
    log = write_log(path, RECORDS, to=40)
    snapshot_at(log, RECORDS, 30)
    os.truncate(path, size)
    cut = open_event_log(f"sqlite:///{path}")
    cut.open()
    with pytest.raises(StoreError, match=r"is empty, but the snapshots in .*cut\.db\.snapshots"):
        recover(cut)
    cut.close()


def test_an_unreadable_folder_is_a_store_error(log, monkeypatch):
    def refuse(_self: object, _folder: Path) -> list[str]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Disk, "list", refuse)
    with pytest.raises(StoreError, match=r"cannot list .*a\.db\.snapshots"):
        recover(log)


class Fleeting(SnapshotFiles):
    """Lists a snapshot that is removed before it is read, a number of times."""

    def __init__(self, folder: Path, times: int) -> None:
        super().__init__(folder)
        self._times = times

    def places(self) -> list[SnapshotPosition]:
        self._times -= 1
        gone = [SnapshotPosition(99, 99)] if self._times >= 0 else []
        return [*gone, *super().places()]


def test_a_snapshot_removed_during_the_read_is_replaced_by_a_newer_one(log):
    place = snapshot_at(log, RECORDS, 10)
    folder = files_of(log).folder
    recovered = recover(log, files=Fleeting(folder, 2))
    assert (recovered.snapshot, recovered.skipped) == (place, [])
    with pytest.raises(StoreError, match="are removed while they are read"):
        recover(log, files=Fleeting(folder, 99))


# compacted


def test_a_compacted_log_starts_at_its_oldest_snapshot(log):
    old, new = snapshot_at(log, RECORDS, 10), snapshot_at(log, RECORDS, 30)
    config = config_of(log)
    cut_at(log, 9)
    assert log.start() == LogStart(9, 8)
    assert facts(recover(log).past) == WHOLE
    assert recover(log).snapshot == new
    assert recover(log, to_seq=15).snapshot == old
    assert config_of(log) == config is not None
    assert [ordinal for ordinal, _ in selected_records(log, Selection())] == list(range(9, END))
    with pytest.raises(StoreError, match=r"up to seq 8, and the first seq at .* is 9; give"):
        recover(log, to_seq=5)


def test_a_compacted_log_without_a_valid_snapshot_is_an_error(log):
    places = [snapshot_at(log, RECORDS, at) for at in (10, 30)]
    cut_at(log, 9)
    folder = files_of(log).folder
    for place in places:
        (folder / place.name).write_bytes(b"nothing")
    for read in (recover, check_integrity, config_of):
        with pytest.raises(StoreError, match=r"no snapshot of it is valid.*from a copy.*000010-"):
            read(log)
    for place in places:
        (folder / place.name).unlink()
    with pytest.raises(StoreError, match="There is none"):
        recover(log)


def test_a_snapshot_before_the_cut_is_not_used(log):
    early = snapshot_at(log, RECORDS, 5)
    snapshot_at(log, RECORDS, 10)
    cut_at(log, 9)
    assert "begins at record 9, after it" in check_integrity(log).warnings[0]
    assert early.name in check_integrity(log).warnings[0]
    with pytest.raises(StoreError, match="begins at record 9, after it"):
        recover(log, to_seq=6)


# compacted by another, while it is read


def compacts_at(log: SqliteEventLog, at_reading: int) -> None:
    """Take two snapshots and compact before record 25 when a read begins."""
    genuine = log.read

    def read(from_record: int = 0) -> Iterator[tuple[int, bytes]]:
        if from_record == at_reading and not log.start().record:
            for at in (26, 30):
                snapshot_at(log, RECORDS, at)
            cut_at(log, 25)
        return genuine(from_record)

    log.read = read  # type: ignore[method-assign]  # a writer at its worst moment


def test_a_tail_compacted_after_its_snapshot_was_read_is_read_from_a_newer_one(log):
    snapshot_at(log, RECORDS, 10)
    compacts_at(log, 10)
    recovered = recover(log)
    assert recovered.snapshot is not None
    assert recovered.snapshot.records == 30
    assert facts(recovered.past) == WHOLE


def test_verify_does_not_report_a_concurrent_compaction_as_damage(log):
    snapshot_at(log, RECORDS, 10)
    compacts_at(log, 0)
    with pytest.raises(
        StoreError, match="the log was compacted meanwhile and now begins at record 25"
    ):
        check_integrity(log)
    assert check_integrity(log).is_ok


def test_verify_reports_that_a_log_was_compacted_before_its_reader(log, monkeypatch):
    monkeypatch.setattr(log_layout_sqlite, "PAGE_BYTES", 1)  # a group to a page
    genuine = log.read

    def read(place: int = 0) -> Iterator[tuple[int, bytes]]:
        for ordinal, data in genuine(place):
            yield ordinal, data
            if ordinal == 3:
                cut_at(log, 20)

    log.read = read
    with pytest.raises(StoreError, match=r"cannot continue at record 4 .* compacted meanwhile"):
        check_integrity(log)


# verify


def test_verify_compares_every_snapshot_with_the_fold(log):
    for at in (10, 30):
        snapshot_at(log, RECORDS, at)
    report = check_integrity(log)
    assert (report.is_ok, report.records, report.snapshots) == (True, END, 2)
    liar = folded(RECORDS[:30])
    liar.ledger.agents["alice"].priority_max = 7
    files_of(log).write(snapshots.take(liar))
    report = check_integrity(log)
    assert not report.is_ok
    assert report.first_divergence == {
        "record": 29,
        "seq": 29,
        "why": "record 29, after seq 29: the snapshot taken here is of another world",
    }


def test_verify_of_a_compacted_log_checks_the_remaining_records(log):
    for at in (10, 30):
        snapshot_at(log, RECORDS, at)
    cut_at(log, 5)
    report = check_integrity(log)
    assert (report.is_ok, report.records, report.start) == (True, END - 5, LogStart(5, 4))
    assert report.as_dict()["compacted"] == {"first_record": 5, "after_seq": 4}
    assert report.snapshots == 2


def test_a_record_before_the_oldest_snapshot_is_checked_by_the_chain(tmp_path):
    broken = [*RECORDS[:7], records_of_adds(2)[6], *RECORDS[8:]]
    log = write_log(tmp_path / "a.db", RECORDS)
    snapshot_at(log, RECORDS, 10)
    cut_at(log, 5)
    genuine = log.read
    log.read = lambda from_record=0: (  # type: ignore[method-assign]  # a disk that lies soundly
        (ordinal, broken[ordinal]) for ordinal, _ in genuine(from_record)
    )
    report = check_integrity(log)
    assert report.first_divergence is not None
    assert (report.is_ok, report.first_divergence["record"]) == (False, 7)
    assert "names another record" in report.first_divergence["why"]


def test_an_empty_log_has_no_configuration():
    assert config_from(Replayer()) is None


# taking


def test_a_snapshot_is_taken_at_the_end_of_the_log_and_the_newest_are_kept(tmp_path):
    taken = []
    log = write_log(tmp_path / "a.db", [])
    for length in (10, 20, 30):
        write_log(tmp_path / "a.db", RECORDS, to=length)
        taken.append(take_snapshot(log, files_of(log)))
    assert [(one.records, one.folded, one.compact_before) for one in taken] == [
        (10, 10, 0),
        (20, 10, 9),
        (30, 10, 19),
    ]
    assert all(one.size_bytes > 100 for one in taken)
    assert [place.records for place in files_of(log).places()] == [30, 20]


def test_every_kept_snapshot_is_usable_after_a_compaction(tmp_path):
    log = write_log(tmp_path / "a.db", [])
    for length in (10, 20, 30, 40):
        write_log(tmp_path / "a.db", RECORDS, to=length)
        cut_at(log, take_snapshot(log, files_of(log), kept_count=3).compact_before)
    assert log.start().record == 19
    report = check_integrity(log)
    assert (report.is_ok, report.snapshots, report.warnings) == (True, 3, ())


def test_no_snapshot_is_written_without_new_records(log):
    files = files_of(log)
    first = take_snapshot(log, files)
    again = take_snapshot(log, files)
    assert again == replace(first, size_bytes=0, folded=0)


def test_an_invalid_snapshot_does_not_count_as_kept(log):
    for at in (10, 20):
        snapshot_at(log, RECORDS, at)
    folder = files_of(log).folder
    (folder / SnapshotPosition(20, 19).name).write_bytes(b"damaged")
    (folder / SnapshotPosition(999, 999).name).write_bytes(b"of the future")
    taken = take_snapshot(log, files_of(log))
    assert [place.records for place in files_of(log).places()] == [END, 10]
    assert taken.compact_before == 9


def test_a_canceled_snapshot_is_not_written(log):
    files = files_of(log)
    with pytest.raises(StoreError, match="is not needed"):
        take_snapshot(log, files, is_wanted=lambda: False)
    assert files.places() == []


def test_an_empty_log_and_a_count_of_one_are_refused(tmp_path, log):
    empty = write_log(tmp_path / "b.db", [])
    with pytest.raises(StoreError, match="is empty"):
        take_snapshot(empty, files_of(empty))
    with pytest.raises(ValueError, match="at least 2 snapshots are kept, got 1"):
        take_snapshot(log, files_of(log), kept_count=1)


def test_a_failing_disk_is_a_store_error(log, monkeypatch):
    files = files_of(log)

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Disk, "fsync", refuse)
        with pytest.raises(StoreError, match=r"cannot write a snapshot into.*No space left"):
            take_snapshot(log, files)
    for at in (5, 6, 7):
        snapshot_at(log, RECORDS, at)
    monkeypatch.setattr(Disk, "remove", refuse)
    with pytest.raises(StoreError, match=r"cannot remove old snapshots from.*No space left"):
        take_snapshot(log, files)


def test_snapshots_are_counted_again_when_one_is_removed_meanwhile(log):
    folder = files_of(log).folder
    for at in (5, 6, 7):
        snapshot_at(log, RECORDS, at)
    assert take_snapshot(log, Fleeting(folder, 3)).compact_before == 6
    assert len(files_of(log).places()) == 2
    with pytest.raises(StoreError, match="are removed while they are read; find the process"):
        trusted_places(log, Fleeting(folder, 99))


def test_no_more_snapshots_are_read_than_are_kept(log, monkeypatch):
    for at in (5, 6, 7, END):
        snapshot_at(log, RECORDS, at)
    read: list[int] = []

    class Watched(SnapshotFiles):
        def read(self, place: SnapshotPosition) -> Snapshot:
            read.append(place.records)
            return super().read(place)

    take_snapshot(log, Watched(files_of(log).folder), kept_count=2)
    assert read == [END, END, 7]  # to begin from, and the two that stay


def test_a_damaged_log_gives_no_snapshot(tmp_path):
    log = write_log(tmp_path / "a.db", RECORDS)
    records = [*RECORDS[:7], records_of_adds(2)[6], *RECORDS[8:]]
    genuine = log.read
    log.read = lambda from_record=0: (  # type: ignore[method-assign]  # a disk that lies soundly
        (ordinal, records[ordinal]) for ordinal, _ in genuine(from_record)
    )
    with pytest.raises(Divergence, match="the chain is broken"):
        take_snapshot(log, files_of(log))
