"""Archives to look into, sound and hostile, as bytes."""

import io
import stat
import struct
import warnings
import zipfile
from collections.abc import Iterable

END, ENTRY, LOCAL = b"PK\x05\x06", b"PK\x01\x02", b"PK\x03\x04"


def archive(
    entries: Iterable[tuple[str | zipfile.ZipInfo, bytes]],
    comment: bytes = b"",
    *,
    compression: int = zipfile.ZIP_STORED,
) -> bytes:
    """Pack entries as the standard library does."""
    packed = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(packed, "w", compression) as out:
        warnings.simplefilter("ignore")  # of two entries with one name
        for name, data in entries:
            out.writestr(name, data)
        out.comment = comment
    return packed.getvalue()


def of_mode(name: str, mode: int) -> zipfile.ZipInfo:
    """Name an entry that has Unix mode bits."""
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    return info


def link(name: str) -> zipfile.ZipInfo:
    """Name an entry that would be a symbolic link."""
    return of_mode(name, stat.S_IFLNK | 0o777)


def patched(data: bytes, mark: bytes, at: int, form: str, *values: int, nth: int = 0) -> bytes:
    """Overwrite fields of the nth record with a mark."""
    start = -1
    for _ in range(nth + 1):
        start = data.index(mark, start + 1)
    changed = bytearray(data)
    struct.pack_into(form, changed, start + at, *values)
    return bytes(changed)
