"""Read the directory of a zip archive from its bytes, and check it against its end record.

Written by hand, because a reader that trusts its input allocates as many objects as an attacker
declares. Every size is bounded before it is parsed. Input that two readers could interpret
differently is refused: two end records, a gap or an overlap between parts, names that differ
between the directory and a local header.

Source: PKWARE, .ZIP File Format Specification 6.3.10, sections 4.3.7, 4.3.12 and 4.3.16.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from placet_files.payloads import FileRefused

ENTRIES_MAX: Final = 1_000
DIRECTORY_BYTES_MAX: Final = 1024 * 1024

_END: Final = struct.Struct("<4s4H2LH")
_ENTRY: Final = struct.Struct("<4s6H3L5H2L")
_LOCAL: Final = struct.Struct("<4s5H3L2H")
_END_MARK: Final = b"PK\x05\x06"
_END64_MARK: Final = b"PK\x06\x07"
_ENTRY_MARK: Final = b"PK\x01\x02"
_LOCAL_MARK: Final = b"PK\x03\x04"
_COMMENT_BYTES_MAX: Final = 0xFFFF
_END64_LOCATOR_BYTES: Final = 20
_FULL16: Final = 0xFFFF
_FULL32: Final = 0xFFFF_FFFF

ENCRYPTED: Final = 0x0001
_UTF8: Final = 0x0800
STORED: Final = 0


class ZipEntry(NamedTuple):
    """One file in a zip archive, as its directory describes it.

    Attributes:
        name: Decoded name.
        flags: The general purpose bits.
        method: Compression method; `STORED` is none.
        packed: Compressed size in bytes.
        size: Uncompressed size in bytes, as declared by the archive.
        mode: Unix mode bits; 0 if absent.
        offset: Offset of the local header.
    """

    name: str
    flags: int
    method: int
    packed: int
    size: int
    mode: int
    offset: int


def read_directory(data: bytes) -> list[ZipEntry]:
    """Return the entries of a zip archive, in the order of its directory. Nothing is unpacked.

    Raises:
        FileRefused: `not_a_zip`, `zip64_refused`, or `zip_bomb` if the directory exceeds a bound.
    """
    count, start, end = _bounds_of_directory(data)
    entries = list(_entries(data, count, start, end))
    _require_apart(data, entries, start)
    return entries


def _bounds_of_directory(data: bytes) -> tuple[int, int, int]:
    """Find the end record; return the number of entries and the position of the directory."""
    at = _end_record(data)
    _, disk, first_disk, here, count, size, start, _ = _END.unpack_from(data, at)
    has_locator = data[max(0, at - _END64_LOCATOR_BYTES) : at].startswith(_END64_MARK)
    if has_locator or _FULL16 in {here, count} or _FULL32 in {size, start}:
        raise FileRefused("zip64_refused", "archives of the 64-bit form are larger than is allowed")
    if disk or first_disk or here != count:
        raise FileRefused("not_a_zip", "it is one of several parts")
    if count > ENTRIES_MAX or size > DIRECTORY_BYTES_MAX:
        message = (
            f"{count} entries in a directory of {size} bytes; at most {ENTRIES_MAX} in "
            f"{DIRECTORY_BYTES_MAX} are allowed"
        )
        raise FileRefused("zip_bomb", message)
    if start + size != at:
        raise FileRefused("not_a_zip", "its end record does not say where its directory is")
    return count, start, at


def _end_record(data: bytes) -> int:
    """Return the single end record that reaches to the end of the file."""
    candidates = []
    at = data.find(_END_MARK, max(0, len(data) - _END.size - _COMMENT_BYTES_MAX))
    while 0 <= at <= len(data) - _END.size:
        if at + _END.size + _END.unpack_from(data, at)[-1] == len(data):
            candidates.append(at)
        at = data.find(_END_MARK, at + 1)
    if len(candidates) != 1:
        raise FileRefused("not_a_zip", f"it has {len(candidates)} end records, expected one")
    return candidates[0]


def _entries(data: bytes, count: int, at: int, end: int) -> Iterator[ZipEntry]:
    for _ in range(count):
        if at + _ENTRY.size > end or not data.startswith(_ENTRY_MARK, at):
            raise FileRefused("not_a_zip", f"its directory has fewer than {count} entries")
        fields = _ENTRY.unpack_from(data, at)
        flags, method, packed, size = fields[3], fields[4], fields[8], fields[9]
        name_bytes, extra_bytes, comment_bytes, attributes, offset = *fields[10:13], *fields[15:]
        if _FULL32 in {packed, size, offset}:
            raise FileRefused("zip64_refused", "an entry has its sizes in the 64-bit form")
        name = data[at + _ENTRY.size : at + _ENTRY.size + name_bytes]
        at += _ENTRY.size + name_bytes + extra_bytes + comment_bytes
        if at > end:
            raise FileRefused("not_a_zip", "an entry reaches beyond its directory")
        yield ZipEntry(_decoded(name, flags), flags, method, packed, size, attributes >> 16, offset)
    if at != end:
        raise FileRefused("not_a_zip", f"its directory has more than the {count} entries it says")


def _require_apart(data: bytes, entries: list[ZipEntry], directory: int) -> None:
    """Check that entries do not overlap and end before the directory.

    Each must also have the same name in its local header and in the directory.
    """
    free_from = 0
    for entry in sorted(entries, key=lambda entry: entry.offset):
        shown = repr(entry.name[:64])
        at = entry.offset
        if at < free_from:
            raise FileRefused("zip_bomb", f"{shown} overlaps another entry")
        if at + _LOCAL.size > directory or not data.startswith(_LOCAL_MARK, at):
            raise FileRefused("not_a_zip", f"{shown} is not where the directory says")
        *_, name_bytes, extra_bytes = _LOCAL.unpack_from(data, at)
        name = data[at + _LOCAL.size : at + _LOCAL.size + name_bytes]
        if _decoded(name, entry.flags) != entry.name:
            raise FileRefused("not_a_zip", f"{shown} has another name at its place")
        free_from = at + _LOCAL.size + name_bytes + extra_bytes + entry.packed
        if free_from > directory:
            raise FileRefused("zip_bomb", f"{shown} overlaps the directory")


def _decoded(name: bytes, flags: int) -> str:
    try:
        return name.decode("utf-8" if flags & _UTF8 else "cp437")
    except UnicodeDecodeError:
        raise FileRefused("not_a_zip", f"the name {name[:64]!r} is not UTF-8") from None
