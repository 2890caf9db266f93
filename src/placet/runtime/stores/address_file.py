"""Where a file is, as a part of a URL and back: any name that the system has, and the same one.

A name is bytes to the system, and not always UTF-8; a URL may hold `?`, `%` and `#` only escaped.
"""

import os
from pathlib import PurePath
from urllib.parse import quote, unquote_to_bytes


def quoted(path: str | PurePath) -> str:
    """Write a path as a URL has it."""
    return quote(os.fsencode(path))


def unquoted(text: str) -> str:
    """Read a path from a URL."""
    return os.fsdecode(unquote_to_bytes(os.fsencode(text)))
