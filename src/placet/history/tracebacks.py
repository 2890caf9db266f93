"""The traceback of an exception as text, for an operator: file, line and source, no variables.

The text depends on paths and on the lines of a program, so no record has it.
"""

from functools import cache
from pathlib import Path
from traceback import FrameSummary, TracebackException, extract_tb
from typing import Final

TRACEBACK_CHARS_MAX: Final = 8_000
"""Characters of a traceback; of a longer one the middle is left out."""

_PACKAGE: Final = f"{Path(__file__).parents[1]}/"
_DOMAINS: Final = f"{_PACKAGE}domains/"


def traceback_of(error: BaseException) -> str:
    """Return the traceback of an exception and of its causes, of bounded length, as text.

    It has no variables: `capture_locals` is never set.
    """
    text = "".join(TracebackException.from_exception(error, compact=True).format())
    text = text.encode("utf-8", "replace").decode()
    left = len(text) - TRACEBACK_CHARS_MAX
    if left <= 0:
        return text
    half = TRACEBACK_CHARS_MAX // 2
    return f"{text[:half]}\n… {left} characters are left out …\n{text[-half:]}"


def frame_of(error: BaseException) -> FrameSummary | None:
    """Return the frame in which a user's code raised an exception; None if it was not raised.

    It is the last frame outside of placet and of installed libraries, domains of placet included;
    without one, the last frame.
    """
    frames = extract_tb(error.__traceback__)
    own = [frame for frame in frames if not _is_of_library(frame.filename)]
    return next(reversed(own or frames), None)


def place_in_traceback(error: BaseException) -> str:
    """Return the place of `frame_of`, `FILE:LINE in FUNCTION`; empty if there is none."""
    frame = frame_of(error)
    return "" if frame is None else f"{frame.filename}:{frame.lineno} in {frame.name}"


def _is_of_library(file: str) -> bool:
    if file.startswith(_PACKAGE):
        return not file.startswith(_DOMAINS)
    return file.startswith(_installed())


@cache
def _installed() -> tuple[str, ...]:
    """Return the beginnings of the names of library files, and of code that has no file."""
    import sysconfig  # noqa: PLC0415  # few programs have a fault

    paths = sysconfig.get_paths()
    return ("<", *(f"{paths[name]}/" for name in ("stdlib", "platstdlib", "purelib", "platlib")))
