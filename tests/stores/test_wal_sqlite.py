"""A damaged `-wal` is distinguished from a torn one; tests/crash flips every part of it."""

from pathlib import Path

import pytest

from placet.schemas.errors import StoreError
from placet.schemas.log.record import LogAppend
from placet.stores.sqlite import wal as wal_sqlite
from placet.stores.sqlite.log import SqliteEventLog
from placet.stores.sqlite.wal import damage_in, damage_of

HEADER_BYTES = 32
FRAME_BYTES = 24 + 4096
GROUPS = 5


@pytest.fixture
def path(tmp_path):
    """A log of five groups, as a killed writer leaves it."""
    log = SqliteEventLog(tmp_path / "open.db")
    epoch = log.open()
    for number in range(GROUPS):
        log.append(LogAppend(number, number, number + 1, [b"%d" % number]), epoch)
    path = tmp_path / "a.db"
    for suffix in ("", "-wal"):
        path.with_name(f"a.db{suffix}").write_bytes(path.with_name(f"open.db{suffix}").read_bytes())
    log.close()
    return path


@pytest.fixture
def wal(path):
    return path.with_name("a.db-wal")


def flip(file: Path, offset: int) -> None:
    data = bytearray(file.read_bytes())
    data[offset] ^= 1
    file.write_bytes(data)


def frame(number: int) -> int:
    """Return the offset of a frame; negative numbers count from the end."""
    return HEADER_BYTES + number * FRAME_BYTES


def frames_in(wal: Path) -> int:
    return (wal.stat().st_size - HEADER_BYTES) // FRAME_BYTES


def test_an_intact_wal_is_not_damaged(wal, tmp_path):
    assert damage_of(wal) is None
    assert damage_of(tmp_path / "there is none") is None
    assert damage_in(b"") is damage_in(bytes(HEADER_BYTES)) is None


@pytest.mark.parametrize("place", [0, 5, 10, 17, 22, 24, 2000], ids=lambda place: f"byte {place}")
def test_a_flip_in_an_earlier_group_is_damage_with_its_place(path, wal, place):
    offset = frame(frames_in(wal) - 4)
    flip(wal, offset + place)
    found = damage_of(wal)
    assert found is not None
    assert found.offset == offset
    for action in (SqliteEventLog(path).open, SqliteEventLog(path).count):
        with pytest.raises(StoreError, match=f"byte {offset} of its -wal file") as caught:
            action()
        assert "?synchronous=normal" in str(caught.value)


def test_a_flip_in_the_header_is_damage(path, wal):
    flip(wal, 17)
    with pytest.raises(StoreError, match="byte 0 of its -wal file: its header"):
        SqliteEventLog(path).open()


def test_a_flip_in_the_last_group_may_be_a_torn_write(path, wal):
    flip(wal, frame(frames_in(wal) - 1) + 100)
    assert damage_of(wal) is None
    assert [record for _, record in SqliteEventLog(path).read()] == [b"0", b"1", b"2", b"3"]


def test_the_groups_after_a_damage_can_be_abandoned(path, wal):
    flip(wal, frame(frames_in(wal) - 4))
    log = SqliteEventLog(path, synchronous="normal")
    log.open()
    log.close()
    assert [record for _, record in SqliteEventLog(path).read()] == [b"0", b"1", b"2"]


def test_frames_of_an_earlier_use_of_the_file_are_ignored(path, wal):
    """SQLite restarts a `-wal` with other salts, and leaves the old frames behind."""
    data = wal.read_bytes()
    log = SqliteEventLog(path)
    log.append(LogAppend(GROUPS, GROUPS, GROUPS + 1, [b"more"]), log.open())
    assert log._connection is not None
    log._connection.execute("PRAGMA wal_checkpoint(RESTART)")
    log.append(LogAppend(GROUPS + 1, GROUPS + 1, GROUPS + 2, [b"after"]), log._epoch or 0)
    begun_anew = wal.read_bytes()
    log.close()
    assert len(begun_anew) >= len(data)
    assert damage_in(begun_anew) is None


def test_a_file_being_written_is_not_checked(wal, monkeypatch):
    sound = wal.read_bytes()
    damaged = bytearray(sound)
    damaged[frame(3)] ^= 1
    readings = [bytes(damaged) + bytes([number]) for number in range(4)]
    monkeypatch.setattr(Path, "read_bytes", lambda _: readings.pop())
    assert damage_of(wal) is None
    assert len(readings) == 4 - 1 - wal_sqlite._READINGS_MAX
