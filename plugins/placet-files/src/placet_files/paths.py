"""Check paths below a root: relative, in one canonical spelling.

Pure, and the same on every machine: a path is refused here before any disk access, even if only
another operating system would misread it.
"""

import re
import unicodedata
from typing import Final, NamedTuple

from placet.schemas.names import DEVICE

SEGMENTS_MAX: Final = 8
SEGMENT_BYTES_MAX: Final = 255
TEMPORARY_PREFIX: Final = ".placet-"
"""Of the executor's own files, before they are put in their place."""

_BAD_CHARACTER: Final = re.compile(r"[\\:\x00-\x1f\x7f-\x9f]").search
"""Finds a separator of another system, or a control character (Unicode category Cc)."""


class PathFault(NamedTuple):
    """The reason why a path is refused.

    Attributes:
        code: Refusal code.
        message: Text that states the expected and the actual value.
    """

    code: str
    message: str


def path_fault(path: str) -> PathFault | None:
    """Return the fault of a path; None if it names a file below a root."""
    if not unicodedata.is_normalized("NFC", path):
        return PathFault("path_not_normalized", f"{path!r} must be in the normal form NFC")
    bad = _BAD_CHARACTER(path)
    if bad is not None:
        message = f"{path!r} has {bad[0]!r}; no backslash, colon or control character may be"
        return PathFault("path_bad_character", message)
    if path.startswith(("/", "~")):
        return PathFault("path_absolute", f"{path!r} must be relative to the root")
    segments = path.split("/")
    if len(segments) > SEGMENTS_MAX:
        message = f"{path!r} has {len(segments)} segments, at most {SEGMENTS_MAX} are allowed"
        return PathFault("path_too_deep", message)
    if any(segment in {"", ".", ".."} for segment in segments):
        message = f"{path!r} must have no segment that is empty, '.' or '..'"
        return PathFault("path_traversal", message)
    return next(filter(None, map(_segment_fault, segments)), None)


def _segment_fault(segment: str) -> PathFault | None:
    if len(segment.encode("utf-8", "surrogatepass")) > SEGMENT_BYTES_MAX:
        why = f"is longer than {SEGMENT_BYTES_MAX} bytes"
    elif segment[-1] in ". ":
        why = "ends in a dot or a space"
    elif DEVICE.fullmatch(segment):
        why = "is the name of a device on some systems"
    elif segment.startswith(TEMPORARY_PREFIX):
        why = f"begins with {TEMPORARY_PREFIX!r}, which is kept for files in the making"
    else:
        return None
    return PathFault("path_bad_segment", f"{segment!r} {why}")
