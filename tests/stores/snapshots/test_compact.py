"""`placet compact`: the remaining log, the report, and refusals."""

import re
from pathlib import Path

import pytest

from placet.history.reader import check_integrity, fold
from placet.schemas.errors import StoreError
from placet.stores.files import Disk
from placet.stores.snapshots import compaction
from placet.stores.snapshots.files import snapshots_of
from placet.stores.sqlite.log import SqliteEventLog
from placet.stores.url import open_event_log
from tests.cli.command_line import run_process
from tests.stores.snapshots.logs import cut_at, files_of, records_of_adds, snapshot_at, write_log
from tests.stores.test_event_log_sqlite import corrupt_index, error_of, execute, read_all


@pytest.fixture
def town(town):
    """A log of a few hundred records, and its digest and seq before compaction."""
    return town.report


def test_a_compacted_log_has_the_same_world_with_a_shorter_history(placet, town):
    size = (placet.folder / "town.db").stat().st_size
    done = placet("compact", "town.db", "--keep", "20", "--json").json()
    assert done["seq"] == town["seq"]
    assert 0 < done["removed_records"] == done["first_record"]
    assert town["seq"] - 40 < done["after_seq"] <= town["seq"] - 20
    assert done["file_bytes"] == {
        "before": size,
        "after": (placet.folder / "town.db").stat().st_size,
    }
    assert done["file_bytes"]["after"] < size
    assert placet("replay", "town.db", "--json").json()["digest"] == town["digest"]
    report = placet("verify", "town.db", "--json").json()
    assert (report["ok"], report["snapshots"]) == (True, 2)
    assert report["compacted"] == {
        "first_record": done["first_record"],
        "after_seq": done["after_seq"],
    }
    assert len(list((placet.folder / "town.db.snapshots").iterdir())) == 2
    assert not (placet.folder / "town.db-wal").exists()


def test_reading_a_compacted_seq_is_an_error_that_names_the_oldest(placet, town):
    before = placet("replay", "town.db", "--to", str(town["seq"] - 5), "--json").json()
    outcome = placet("compact", "town.db", "--keep", "20")
    assert outcome.code == 0
    assert "town.db now begins at record" in outcome.out
    assert "town.db.snapshots, which belongs to the log" in outcome.out
    gone = placet("replay", "town.db", "--to", "3")
    assert gone.code == 1
    assert "was compacted up to seq" in gone.err
    kept = int(re.search(r"can be restored is (\d+); give that", gone.err)[1])  # type: ignore[index]
    assert placet("replay", "town.db", "--to", str(kept)).code == 0
    assert placet("replay", "town.db", "--to", str(kept - 1)).code == 1
    (placet.folder / "town.db.snapshots").rename(placet.folder / "elsewhere")
    assert "no snapshot of it is valid" in placet("explain", "town.db", "--seq", "3").err
    (placet.folder / "elsewhere").rename(placet.folder / "town.db.snapshots")
    first = placet("log", "town.db", "--json").json()[0]
    assert first["seq"] > 3
    assert "compacted: the records up to seq" in placet("log", "town.db").out
    assert "compacted" not in placet("log", "town.db", "--from", str(town["seq"])).out
    assert placet("replay", "town.db", "--to", str(town["seq"] - 5), "--json").json() == before


def test_compacting_again_removes_only_newer_records(placet, town):
    placet("compact", "town.db", "--keep", "20")
    again = placet("compact", "town.db", "--keep", "20")
    assert again.code == 0
    assert "nothing to remove" in again.out
    last = placet("compact", "town.db", "--keep", "1", "--json").json()
    assert last["removed_records"] > 0
    assert fold(open_event_log("town.db")).state.digest().hex() == town["digest"]


def test_a_file_that_could_not_shrink_is_shrunk_by_the_next_compaction(placet, town, monkeypatch):
    def no_room(path: Path, store: str) -> None:
        raise StoreError("the disk is full", store=store)

    with monkeypatch.context() as patch:
        patch.setattr(compaction, "vacuum", no_room)
        assert placet("compact", "town.db", "--keep", "20").code == 1
    again = placet("compact", "town.db", "--keep", "20", "--json").json()
    assert again["removed_records"] == 0
    assert again["file_bytes"]["after"] < again["file_bytes"]["before"]
    assert "became" not in placet("compact", "town.db", "--keep", "20").out
    assert fold(open_event_log("town.db")).state.digest().hex() == town["digest"]


def test_an_interrupted_compaction_is_finished_by_the_next(placet, town, monkeypatch):
    def ended(self: SqliteEventLog, *place: int, appends_max: int) -> bool:
        raise StoreError(f"after {genuine(self, *place, appends_max=2)}", store=self.url)

    genuine = SqliteEventLog.compact
    with monkeypatch.context() as patch:
        patch.setattr(SqliteEventLog, "compact", ended)
        assert "after True" in placet("compact", "town.db", "--keep", "20").err
    begins = open_event_log("town.db").start().record
    assert placet("compact", "town.db", "--keep", "20", "--json").json()["first_record"] > begins
    assert "nothing to remove" in placet("compact", "town.db", "--keep", "20").out
    assert fold(open_event_log("town.db")).state.digest().hex() == town["digest"]


def test_nothing_is_removed_before_a_single_snapshot(placet, town):
    left = placet("compact", "town.db", "--keep", "20", "--json").json()
    snapshots = files_of(SqliteEventLog(placet.folder / "town.db"))
    (snapshots.folder / snapshots.places()[-1].name).unlink()
    again = placet("compact", "town.db", "--keep", "20", "--json").json()
    assert (again["removed_records"], again["first_record"]) == (0, left["first_record"])


@pytest.mark.parametrize("keep", [21, 45, 80])
def test_keeping_more_than_the_log_has_removes_nothing(placet, town, keep):
    left = placet("compact", "town.db", "--keep", "20", "--json").json()
    again = placet("compact", "town.db", "--keep", str(keep))
    assert (again.code, again.err) == (0, "")
    assert f"nothing to remove; it has seq {left['after_seq']}" in again.out
    assert placet("verify", "town.db").code == 0


def test_an_unwritable_folder_is_a_one_line_error(placet, town, monkeypatch):
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    placet("compact", "town.db", "--keep", "20")
    monkeypatch.setattr(Disk, "remove", refuse)
    outcome = placet("compact", "town.db", "--keep", "1")
    assert outcome.code == 1
    assert "cannot remove old snapshots from /" in outcome.err
    assert "/town.db.snapshots: [Errno 13] Permission denied; make the folder" in outcome.err
    assert "make the folder writable" in outcome.err


def test_a_log_shorter_than_the_records_to_keep_is_unchanged(placet, town):
    outcome = placet("compact", "town.db")
    assert (outcome.code, town["seq"] < 10_000) == (0, True)
    assert "nothing to remove; it has seq 0" in outcome.out
    assert "10 000 seqs must stay" in outcome.out


def test_a_log_compacted_by_a_link_is_opened_by_its_real_name(placet, town):
    (placet.folder / "link").mkdir()
    (placet.folder / "link" / "other.db").symlink_to(placet.folder / "town.db")
    assert placet("compact", "link/other.db", "--keep", "20").code == 0
    for name in ("town.db", "link/other.db"):
        assert placet("verify", name).code == 0


def test_a_log_in_use_is_refused(placet, town):
    with_writer = SqliteEventLog("town.db")
    epoch = with_writer.open()
    outcome = run_process("compact", "town.db", folder=placet.folder)
    assert outcome.code == 1
    assert "another process has it open" in outcome.err
    assert not (placet.folder / "town.db.snapshots").exists()
    assert epoch == 2
    with_writer.compact(0, epoch, appends_max=1)  # it was not fenced
    with_writer.close()
    assert placet("compact", "town.db").code == 0


@pytest.mark.parametrize(
    ("store", "said"),
    [("gone.db", "there is no file"), ("memory://", "a log in memory ends with its process")],
)
def test_a_file_that_is_not_a_log_is_a_one_line_error(placet, store, said):
    outcome = placet("compact", store)
    assert (outcome.code, outcome.out) == (1, "")
    assert said in outcome.err
    assert list(placet.folder.iterdir()) == []


def test_a_log_is_never_compacted_without_its_snapshots(tmp_path, monkeypatch):
    """A compaction interrupted at any point leaves a log that opens."""
    from placet.stores.snapshots import compaction

    records = records_of_adds(30)
    log = write_log(tmp_path / "a.db", records)
    whole = fold(log).state.digest()
    monkeypatch.setattr(compaction, "_SLICE_APPENDS", 4)
    for stop_at in range(12):
        calls = 0

        class Stopping(SqliteEventLog):
            def compact(self, *arguments, **options):
                nonlocal calls
                calls += 1
                if calls > stop_at:  # noqa: B023  # called within the round
                    raise StoreError("the power went")
                return super().compact(*arguments, **options)

        files = snapshots_of(log)
        assert files is not None
        try:
            compaction.compact(Stopping(tmp_path / "a.db"), tmp_path / "a.db", files, keep_seqs=5)
        except StoreError as error:
            assert "the power went" in str(error)  # noqa: PT017  # or it was done
        assert fold(log).state.digest() == whole
        assert check_integrity(log).is_ok


# what is damaged


@pytest.fixture
def compacted(tmp_path):
    records = records_of_adds(10)
    log = write_log(tmp_path / "a.db", records)
    for at in (8, 12):
        snapshot_at(log, records, at)
    cut_at(log, 7)
    return tmp_path / "a.db"


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("DELETE FROM groups WHERE first_record = 7", "begin at record 7, and its first append be"),
        ("DELETE FROM groups WHERE first_record = 9", "the append at record 9 is missing"),
        ("UPDATE meta SET first_record = 8", "begin at record 8, and its first append begins at 7"),
        ("UPDATE meta SET first_record = 0", "begin at record 0, and its first append begins at 7"),
        ("DELETE FROM groups", "begin at record 7, and its first append begins at None"),
    ],
)
def test_a_group_lost_from_a_compacted_log_is_detected(compacted, statement, said):
    execute(compacted, statement)
    assert said in error_of(read_all, compacted)


def test_a_group_lost_at_the_end_of_a_compacted_log_is_detected(compacted):
    corrupt_index(compacted, "DELETE FROM groups WHERE first_record = 14")
    assert "13 by its table and at 14 by its index" in error_of(read_all, compacted)


def test_every_flipped_byte_of_a_snapshot_is_detected(compacted):
    log = SqliteEventLog(compacted)
    whole = fold(log).state.digest()
    files = files_of(log)
    for place in files.places():
        path = files.folder / place.name
        sound = path.read_bytes()
        for at in range(0, len(sound), 29):
            damaged = bytearray(sound)
            damaged[at] ^= 0x55
            path.write_bytes(damaged)
            assert check_integrity(log).warnings
            assert fold(log).state.digest() == whole  # the other one serves
        path.write_bytes(sound)
