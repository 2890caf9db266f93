"""The records before the damage of a log can be saved, and no others."""

import sqlite3

import pytest

from placet.history.reader import check_integrity
from placet.kernel.log.replay import folded
from placet.schemas.errors import StoreError
from placet.stores.salvage import salvage
from placet.stores.url import open_event_log
from tests.stores.snapshots.logs import cut_at, records_of_adds, write_log

RECORDS = records_of_adds(600)


def log_at(path):
    return open_event_log(f"sqlite:///{path}")


def damage(path, record):
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE groups SET blob = x'00' WHERE first_record = ?", (record,))
    connection.close()


@pytest.mark.parametrize("record", [0, 1, 255, 256, 257, 500])
def test_exactly_the_records_before_the_damage_are_saved(tmp_path, record):
    write_log(tmp_path / "a.db", RECORDS)
    damage(tmp_path / "a.db", record)
    saved = salvage(log_at(tmp_path / "a.db"), log_at(tmp_path / "b.db"))
    assert f"record {record}" in saved.why_not_more
    new = log_at(tmp_path / "b.db")
    assert [data for _, data in new.read()] == RECORDS[:record]
    assert check_integrity(new).is_ok
    assert saved.past.journal.count == record
    if record:
        assert saved.past.state.digest() == folded(RECORDS[:record]).state.digest()


def test_an_intact_log_is_copied_whole_and_continues(tmp_path):
    write_log(tmp_path / "a.db", RECORDS)
    saved = salvage(log_at(tmp_path / "a.db"), log_at(tmp_path / "b.db"))
    assert saved.why_not_more == ""
    new = log_at(tmp_path / "b.db")
    assert [data for _, data in new.read()] == RECORDS
    assert new.open() == 2
    new.close()


def test_an_existing_file_is_not_overwritten(tmp_path):
    write_log(tmp_path / "a.db", RECORDS)
    write_log(tmp_path / "b.db", RECORDS[:9])
    with pytest.raises(StoreError, match=r"b\.db: it already has a log; give a new path"):
        salvage(log_at(tmp_path / "a.db"), log_at(tmp_path / "b.db"))
    assert log_at(tmp_path / "b.db").count() == 9


def test_a_compacted_log_cannot_be_salvaged(tmp_path):
    log = write_log(tmp_path / "a.db", RECORDS)
    cut_at(log, 40)
    with pytest.raises(StoreError, match=r"was compacted and begins at record 40"):
        salvage(log_at(tmp_path / "a.db"), log_at(tmp_path / "b.db"))
    assert not (tmp_path / "b.db").exists()


def test_the_salvage_command_reports_the_saved_records(placet, tmp_path):
    write_log(tmp_path / "a.db", RECORDS)
    sound = placet("verify", "a.db", "--replay-only", "--salvage", "b.db")
    assert sound.code == 0
    assert "Nothing was saved in b.db: all of a.db is valid." in sound.out
    assert not (tmp_path / "b.db").exists()  # there was nothing to save it from
    damage(tmp_path / "a.db", 300)
    told = placet("verify", "a.db", "--replay-only").out
    assert "To save the valid records: placet verify a.db --salvage NEW" in told
    lost = placet("verify", "a.db", "--replay-only", "--salvage", "b.db")
    assert lost.code == 1
    assert "Saved in b.db: 300 records, up to seq 299. Continue with that log." in lost.out
    assert placet("verify", "b.db", "--replay-only").code == 0
    nowhere = placet("verify", "a.db", "--salvage", "memory://")
    assert nowhere.code == 1
    assert "give a path" in nowhere.err
