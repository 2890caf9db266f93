"""Where a file is: behind a link, and as a part of a URL and back, by any name that the system has.

A name is bytes to the system, and not always UTF-8; a URL may hold `?`, `%` and `#` only escaped.
"""

import os
from pathlib import Path, PurePath
from urllib.parse import quote, unquote_to_bytes


def quoted(path: str | PurePath) -> str:
    """Write a path as a URL has it."""
    return quote(os.fsencode(path))


def unquoted(text: str) -> str:
    """Read a path from a URL."""
    return os.fsdecode(unquote_to_bytes(os.fsencode(text)))


def behind_link(path: Path) -> Path:
    """Return the file that a link leads to: a log has one `-wal` and one folder of snapshots.

    A path that is no link is returned unchanged.
    """
    # Not `is_symlink`, which raises where one may not look; the store says that in its own words.
    return Path(os.path.realpath(path)) if os.path.islink(path) else path  # noqa: PTH114
