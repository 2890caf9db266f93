"""The files of a log are truncated at every length, and only the tail is missing (G3, G19).

What a crash of the machine leaves of a `-wal` is some beginning of it. What can be proven then:
just those groups are there whose last frame is within the cut, each of them whole, none from the
middle is missing, what is there holds together, and the world goes on from it. That groups are
missing cannot be seen; with `synchronous=full` none of them was acknowledged, because each was
synced first. A database file that is cut has lost a page of its middle, and says so.
"""

import struct
from pathlib import Path

import pytest

from placet.schemas.log.record import LogAppend, decode_record
from placet.stores.sqlite.log import SqliteEventLog
from tests.crash import planted_bugs
from tests.crash.log_files import (
    LeftBehind,
    leave,
    shown_by_opening,
    shown_by_reading,
    wal_of,
)
from tests.levels import each

HEADER_BYTES = 32
FRAME_BYTES = 24 + 4096


@pytest.fixture(scope="module")
def records(forker, tmp_path_factory):
    """The first records of the fixed scenario."""
    path = tmp_path_factory.mktemp("scenario") / "a.db"
    forker.fork("tests.crash.fixed_scenario:run", store=f"sqlite:///{path}").wait()
    return [data for _, data in SqliteEventLog(path).read()][:30]


def commit_ends(wal: bytes) -> list[int]:
    """Return the offsets at which the transactions in a `-wal` end."""
    frames = range(HEADER_BYTES, len(wal), FRAME_BYTES)
    return [
        offset + FRAME_BYTES for offset in frames if struct.unpack_from(">6I", wal, offset)[1] != 0
    ]


def cuts_of(size: int, step: int) -> list[int]:
    """Return lengths at regular steps, and those around frame boundaries, at long steps of some."""
    borders = range(HEADER_BYTES, size + 1, FRAME_BYTES * (1 + step // FRAME_BYTES))
    near = {border + beside for border in borders for beside in (-1, 0, 1, 23, 24, 25)}
    return sorted({*near, *range(0, size, step), 1, HEADER_BYTES - 1} & set(range(size + 1)))


def what_is_wrong(left: LeftBehind, path: Path, cut: int) -> str:
    """Cut the `-wal` there, read it, open it, and compare with the groups that must be there."""
    left.put(path)
    wal_of(path).write_bytes(left.wal[:cut])
    ends = commit_ends(left.wal)
    before = len(ends) - len(left.groups)  # making the tables, taking the fence
    committed = sum(end <= cut for end in ends)
    there = left.groups[: max(0, committed - before)]
    expected = [record for group in there for record in group]
    shown = shown_by_reading(path)
    if committed < before and isinstance(shown, str):
        return ""  # not yet a log, and called that
    if shown != expected:
        return f"cut at {cut}: read {len(shown)} records, not {len(expected)}"
    if shown_by_opening(path) != expected:
        return f"cut at {cut}: opened other records than were read"
    return ""


@pytest.mark.parametrize("step", each(slow=40 * 331, soak=331))
def test_a_truncated_wal_loses_only_whole_groups_of_its_tail(records, folder, step):
    left = leave(folder / "made.db", records, is_clean=False)
    cuts = cuts_of(len(left.wal), step)
    wrong = [what for cut in cuts if (what := what_is_wrong(left, folder / "a.db", cut))]
    assert wrong == []
    assert len(cuts) > 40


def test_a_world_resumes_from_a_torn_tail(records, folder):
    left = leave(folder / "made.db", records, is_clean=False)
    path = folder / "a.db"
    left.put(path)
    wal_of(path).write_bytes(left.wal[: commit_ends(left.wal)[-1] - 1])
    kept = left.records[: -len(left.groups[-1])]
    log = SqliteEventLog(path)
    epoch = log.open()
    seq = decode_record(kept[-1]).seq
    after = decode_record(left.records[-1]).seq
    log.append(LogAppend(len(kept), seq, after, left.groups[-1]), epoch)
    log.close()
    assert shown_by_reading(path) == left.records


def test_cuts_find_a_store_that_splits_groups(records, folder, monkeypatch):
    """The control: a group that is not one transaction can be half there."""
    monkeypatch.setattr(SqliteEventLog, "append", SqliteEventLog.append)  # to be undone
    planted_bugs.write_record_by_record()
    left = leave(folder / "made.db", records, is_clean=False)
    cuts = cuts_of(len(left.wal), step=FRAME_BYTES - 1)
    assert any(what_is_wrong(left, folder / "a.db", cut) for cut in cuts)


@pytest.mark.parametrize("step", each(slow=1009, soak=101))
def test_a_truncated_database_is_damaged_or_intact(records, folder, step):
    left = leave(folder / "made.db", records, is_clean=True)
    path = folder / "a.db"
    for cut in range(2, len(left.database), step):  # none and one byte are an empty file to SQLite
        left.put(path)
        path.write_bytes(left.database[:cut])
        for shown in (shown_by_reading(path), shown_by_opening(path)):
            assert isinstance(shown, str) or shown == left.records, f"silently cut at {cut}"
