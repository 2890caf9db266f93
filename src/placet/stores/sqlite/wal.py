"""Detects a damaged `-wal` file, as opposed to a torn last write, before SQLite reads it.

A SQLite log that was not closed has its latest appends in the `-wal`. SQLite believes that file up
to the first frame whose checksum fails, and forgets the rest without a word: rightly so for the
transaction that a crash cut short, but a flipped bit in the middle would take acknowledged appends
with it. So we look for what SQLite will not read: a frame that is sound, beyond the one that is
not, in a later transaction. With `synchronous=full` that later one was begun when the earlier was
safe on the disk, so it cannot have been torn: it was damaged since.

Source: https://www.sqlite.org/fileformat2.html#the_write_ahead_log
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

_HEADER: Final = struct.Struct(">8I")
_FRAME: Final = struct.Struct(">6I")
_MAGIC: Final = 0x377F0682
"""Its lowest bit says in which order of bytes the checksums read the file."""
_READINGS_MAX: Final = 3

Checksum = tuple[int, int]


class Damage(NamedTuple):
    """The place of damage in a `-wal` file.

    Attributes:
        offset: Offset of the first damaged byte.
        what: Description of the damage.
    """

    offset: int
    what: str


class _Frame(NamedTuple):
    offset: int
    is_commit: bool
    is_sound: bool


def damage_of(wal: Path) -> Damage | None:
    """Return the damage of a `-wal` file, other than a torn end; None if there is none.

    O(file): 22 ms per megabyte, CPython 3.11, 2026-11.

    A file that changes meanwhile has a live writer, which has checked it before.

    Raises:
        OSError: The file exists and cannot be read.
    """
    if not wal.exists():
        return None
    data = wal.read_bytes()
    for _ in range(_READINGS_MAX):
        damage = damage_in(data)
        if damage is None:
            return None
        again = wal.read_bytes() if wal.exists() else b""
        if again == data:
            return damage
        data = again
    return None


def damage_in(data: bytes) -> Damage | None:
    """Return the damage in the bytes of a `-wal` file; None if there is none."""
    if len(data) < _HEADER.size + _FRAME.size:
        return None  # nothing was ever committed to it
    magic, _, page_bytes, _, salt_1, salt_2, *stored = _HEADER.unpack_from(data)
    order = ">" if magic & 1 else "<"
    checksum = _checksum(data[:24], (0, 0), order)
    if magic & ~1 != _MAGIC or checksum != tuple(stored):
        return Damage(0, "its header fails its checksum")
    frames = list(_frames(data, page_bytes, (salt_1, salt_2), checksum, order))
    broken = next((place for place, frame in enumerate(frames) if not frame.is_sound), None)
    if broken is None:
        return None
    first, *later = frames[broken:]
    # The transaction that the first one belongs to may be torn, unless a later one was begun.
    ends = (place for place, frame in enumerate(later, 1) if frame.is_commit and frame.is_sound)
    end = 0 if first.is_commit else next(ends, len(later))
    if any(frame.is_sound for frame in later[end:]):
        return Damage(first.offset, f"frame {broken + 1} fails its checksum, and later ones do not")
    return None


def _frames(
    data: bytes, page_bytes: int, salts: Checksum, checksum: Checksum, order: str
) -> Iterator[_Frame]:
    """Return each frame, checked by itself and against the running checksum of the frame before it.

    Behind a frame that fails, also by what that one's checksum should have been: the damage may be
    in the checksum.
    """
    size = _FRAME.size + page_bytes
    before = [checksum]
    for offset in range(_HEADER.size, len(data) - size + 1, size):
        _, commit, salt_1, salt_2, *stored = _FRAME.unpack_from(data, offset)
        expected = (stored[0], stored[1])
        summed = []
        if (salt_1, salt_2) == salts:  # else it is left from before the file was begun anew
            summed_bytes = data[offset : offset + 8] + data[offset + _FRAME.size : offset + size]
            summed = [_checksum(summed_bytes, start, order) for start in before]
        is_sound = expected in summed
        yield _Frame(offset, commit != 0, is_sound)
        before = [expected] if is_sound else [expected, *summed[:1]]


def _checksum(data: bytes, start: Checksum, order: str) -> Checksum:
    """Sum up as SQLite does. Python's own checksums are others."""
    first, second = start
    for one, two in struct.iter_unpack(f"{order}2I", data):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + two + first) & 0xFFFFFFFF
    return first, second
