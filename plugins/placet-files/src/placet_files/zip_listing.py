"""List the entries of an archive and their hazards, from its bytes. Nothing is unpacked.

Sizes are the archive's own declarations: a program that unpacks it must count for itself.
"""

import stat
from collections import Counter
from collections.abc import Collection
from typing import Final

from placet.schemas.codec import Json, to_json
from placet_files.paths import path_fault
from placet_files.payloads import FileRefused
from placet_files.zip_directory import ENCRYPTED, STORED, ZipEntry, read_directory

TOTAL_BYTES_MAX: Final = 256 * 1024 * 1024
RATIO_MAX: Final = 100
RATIO_FREE_BYTES: Final = 1024 * 1024
"""Entries up to here may be packed as tightly as they like."""

ROWS_MAX: Final = 200
ROWS_BYTES_MAX: Final = 48 * 1024
"""Maximum bytes of the listing in the log; an effect's outcome may have 64 KiB in all."""
NAME_CHARS_MAX: Final = 255

_ARCHIVES: Final = (".zip", ".jar", ".7z", ".gz", ".tar", ".tgz", ".bz2", ".xz", ".zst", ".rar")
_UNSAFE: Final = ("symlink", "special_file", "unsafe_name", "encrypted", "duplicate_name")


def zip_listing(data: bytes) -> dict[str, Json]:
    """Return the listing of an archive.

    Returns:
        `entries`, the totals `total` and `packed` in bytes, `flags` with the number of entries per
        flag, `safe_to_extract`, the first `rows`, and `truncated` if there are more rows.

    Raises:
        FileRefused: Raised by `read_directory`; also `zip_bomb` if the declared total size is too
            large.
    """
    entries = read_directory(data)
    _require_bounded(entries)
    names = Counter(entry.name.rstrip("/").casefold() for entry in entries)
    flagged = [(entry, _flags(entry, names)) for entry in entries]
    counts = Counter(flag for _, flags in flagged for flag in flags)
    rows = _rows(flagged)
    return {
        "entries": len(entries),
        "total": sum(entry.size for entry in entries),
        "packed": sum(entry.packed for entry in entries),
        "flags": dict(sorted(counts.items())),
        "safe_to_extract": not any(flag in counts for flag in _UNSAFE),
        "rows": rows,
        "truncated": len(rows) < len(entries),
    }


def _require_bounded(entries: Collection[ZipEntry]) -> None:
    total = sum(entry.size for entry in entries)
    if total > TOTAL_BYTES_MAX:
        message = f"it says that it unpacks to {total} bytes, {TOTAL_BYTES_MAX} are allowed"
        raise FileRefused("zip_bomb", message)
    for entry in entries:
        shown = repr(entry.name[:64])
        if entry.size > RATIO_FREE_BYTES and entry.size > RATIO_MAX * max(1, entry.packed):
            message = f"{shown} is packed by more than {RATIO_MAX} to 1"
            raise FileRefused("zip_bomb", message)
        if entry.method == STORED and entry.size != entry.packed and not entry.flags & ENCRYPTED:
            raise FileRefused("not_a_zip", f"{shown} is not packed, and has two sizes")


def _flags(entry: ZipEntry, names: Counter[str]) -> list[str]:
    kind = stat.S_IFMT(entry.mode)
    name = entry.name.removesuffix("/")
    flags = {
        "symlink": kind == stat.S_IFLNK,
        "special_file": kind not in {0, stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK},
        "encrypted": bool(entry.flags & ENCRYPTED),
        "unsafe_name": not name or path_fault(name) is not None,
        "duplicate_name": names[entry.name.rstrip("/").casefold()] > 1,
        "nested_archive": name.lower().endswith(_ARCHIVES),
    }
    return [flag for flag, is_so in flags.items() if is_so]


def _rows(flagged: Collection[tuple[ZipEntry, list[str]]]) -> list[dict[str, Json]]:
    """Return the first rows, up to the limit."""
    rows: list[dict[str, Json]] = []
    size = 0
    for entry, flags in flagged:
        row: dict[str, Json] = {
            "name": entry.name[:NAME_CHARS_MAX],
            "size": entry.size,
            "packed": entry.packed,
            "dir": entry.name.endswith("/"),
            "flags": flags,
        }
        size += len(to_json(row))
        if len(rows) == ROWS_MAX or size > ROWS_BYTES_MAX:
            break
        rows.append(row)
    return rows
