"""The bytes of a log are flipped one by one, and none of it is silent (G15, G19).

A flip is detected if reading or opening the log complains and names the place. It is harmless if
the records are the same ones. In the `-wal` of a world that was killed, a flip may also look like
the write that the crash cut short: then the last append is missing, and no other. Anything else is
silent: a log that opens, holds together, and contains other records.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec
import pytest

from placet.schemas.errors import StoreError
from placet.stores import rows as log_rows
from placet.stores.sqlite import layout
from placet.stores.sqlite import log as event_log_sqlite
from tests.crash.log_files import (
    LeftBehind,
    leave,
    shown_by_opening,
    shown_by_reading,
    wal_of,
)
from tests.levels import each

UNUSED_STEP: Final = 7
"""Pages are mostly unused space, which is zeros: every so many of those."""

WAL_HEADER_BYTES: Final = 32
FRAME_HEADER_BYTES: Final = 24
FRAME_BYTES: Final = FRAME_HEADER_BYTES + 4096

SLOW, SOAK = pytest.mark.slow, pytest.mark.soak

Look = Callable[[Path], list[bytes] | str]


@pytest.fixture(scope="module")
def records(forker, tmp_path_factory):
    """The records of the fixed scenario."""
    path = tmp_path_factory.mktemp("scenario") / "a.db"
    forker.fork("tests.crash.fixed_scenario:run", store=f"sqlite:///{path}").wait()
    return [data for _, data in event_log_sqlite.SqliteEventLog(path).read()]


class Flips:
    """Flips bytes of one of a log's files, one at a time, and looks at the log.

    Attributes:
        detected: How many flips were complained of.
        torn: How many took the last append with them.
        silent: `(offset, mask)` of flips after which the log opens with other records.
    """

    def __init__(self, left: LeftBehind, path: Path, file: Path) -> None:
        self._left = left
        self._path = path
        self._file = file
        self.detected = self.harmless = self.torn = 0
        self.silent: list[tuple[int, int]] = []

    def flip(self, offset: int, mask: int, look: Look) -> None:
        descriptor = os.open(self._file, os.O_RDWR)
        try:
            (byte,) = os.pread(descriptor, 1, offset)
            os.pwrite(descriptor, bytes([byte ^ mask]), offset)
            self._count(offset, mask, look(self._path))
            os.pwrite(descriptor, bytes([byte]), offset)
        finally:
            os.close(descriptor)

    def _count(self, offset: int, mask: int, shown: list[bytes] | str) -> None:
        whole = self._left.records
        if isinstance(shown, str):
            assert "sqlite:///" in shown or "record" in shown, f"no place is named: {shown}"
            self.detected += 1
        elif shown == whole:
            self.harmless += 1
        elif self._left.wal and shown == whole[: -len(self._left.groups[-1])]:
            self.torn += 1
        else:
            self.silent.append((offset, mask))


def bit_of(offset: int) -> int:
    """Flip another bit in each successive byte, so that a file has all eight."""
    return 1 << offset * 5 % 8


def flipped_database(left: LeftBehind, folder: Path, look: Look, step: int = 1) -> Flips:
    path = folder / "a.db"
    left.put(path)
    flips = Flips(left, path, path)
    for offset in range(0, len(left.database), step):
        if left.database[offset] or offset % UNUSED_STEP == 0:
            flips.flip(offset, bit_of(offset), look)
    return flips


def flipped_wal(left: LeftBehind, folder: Path, look: Look, step: int = 1) -> Flips:
    """Flip all of the headers, and every so many bytes of the pages."""
    path = folder / "a.db"
    flips = Flips(left, path, wal_of(path))
    left.put(path)
    for offset in range(len(left.wal)):
        in_frame = (offset - WAL_HEADER_BYTES) % FRAME_BYTES
        if offset < WAL_HEADER_BYTES or in_frame < FRAME_HEADER_BYTES or offset % step == 0:
            if look is shown_by_opening:
                left.put(path)  # it writes
            flips.flip(offset, bit_of(offset), look)
    return flips


# An odd step flips each of the eight bits.


@pytest.mark.parametrize("step", each(slow=11))
def test_no_flipped_byte_of_a_closed_log_changes_records_undetected(records, folder, step):
    left = leave(folder / "made.db", records[:25], is_clean=True)
    flips = flipped_database(left, folder, shown_by_reading, step)
    assert flips.silent == []
    # The bytes of every record at least.
    assert flips.detected > len(b"".join(records[:25])) // step


@pytest.mark.parametrize("step", each(slow=77, soak=7))
def test_no_flipped_byte_is_undetected_when_the_log_is_opened(records, folder, step):
    left = leave(folder / "made.db", records[:12], is_clean=True)
    path = folder / "a.db"
    flips = Flips(left, path, path)
    for offset in range(0, len(left.database), step):
        left.put(path)  # opening writes
        flips.flip(offset, bit_of(offset), shown_by_opening)
    assert flips.silent == []


@pytest.mark.parametrize("count", [pytest.param(4, marks=SLOW), pytest.param(20, marks=SOAK)])
@pytest.mark.parametrize("look", [shown_by_reading, shown_by_opening])
def test_no_flipped_byte_of_a_wal_changes_records_undetected(records, folder, look, count):
    left = leave(folder / "made.db", records[:count], is_clean=False)
    flips = flipped_wal(left, folder, look, step=211)
    assert flips.silent == []
    assert flips.detected > flips.torn > 0
    assert flips.harmless == 0


def records_unchecked(row: log_rows.Row, place: int, store: str) -> Sequence[bytes]:
    try:
        return log_rows._DECODE(row[-1])
    except (TypeError, msgspec.MsgspecError) as error:
        raise StoreError(f"{store}: no records: {error}", store=store) from None


@pytest.mark.slow
def test_flips_find_records_that_are_read_unchecked(records, folder, monkeypatch):
    """The control: the chain binds every record but the last."""
    monkeypatch.setattr(layout, "records_of", records_unchecked)
    monkeypatch.setattr(log_rows, "records_of", records_unchecked)
    left = leave(folder / "made.db", records[:12], is_clean=True)
    assert flipped_database(left, folder, shown_by_reading, step=5).silent


@pytest.mark.slow
def test_flips_find_a_wal_that_is_read_unchecked(records, folder, monkeypatch):
    """The control: SQLite alone drops the groups after a damage."""
    monkeypatch.setattr(event_log_sqlite, "damage_of", lambda wal: None)
    left = leave(folder / "made.db", records[:12], is_clean=False)
    assert flipped_wal(left, folder, shown_by_reading, step=501).silent
