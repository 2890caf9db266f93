"""The latest faults of an open world, in the memory of its process: place and traceback of each.

No log has them. The bytes of a record must depend on no path and no line number, and the text of an
exception may hold what its readers may not see. A traceback has source lines and no variables.
"""

from collections import deque
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import time
from traceback import TracebackException, extract_tb
from typing import Final

from placet.runtime.telemetry.error_frames import hide_variables
from placet.schemas.errors import StoreError, describe_error

FAULTS_KEPT: Final = 64
"""Different faults of which place and traceback are kept; the oldest is forgotten then."""

TRACEBACK_CHARS_MAX: Final = 8_000
"""Characters of a traceback; of a longer one the middle is left out."""

_PACKAGE: Final = f"{Path(__file__).parents[2]}/"
_DOMAINS: Final = f"{_PACKAGE}domains/"


@dataclass(slots=True)
class FaultReport:
    """A fault: exceptions of one type that one line raised.

    Attributes:
        number: 1 is the first fault since the world was opened.
        where: The part that raised it first, such as `rule of Move`.
        error: Type and text of the first exception.
        place: Where it was raised, `FILE:LINE in FUNCTION`; empty if nothing was raised.
        traceback: Its traceback, without variables; empty of an error of the store, whose message
            says what to do.
        seq: Sequence number of the world when it was raised last; None if it is unknown.
        first_s: Time of the first exception, seconds since 1970.
        last_s: Time of the last one.
        times: How often it was raised.
        is_restarted: Its task runs again.
    """

    number: int
    where: str
    error: str
    place: str
    traceback: str
    seq: int | None
    first_s: float
    last_s: float
    times: int = 1
    is_restarted: bool = False


class FaultReports:
    """The latest faults of one world.

    Attributes:
        since_s: Time from which they are kept, seconds since 1970.
        left_out: Number of faults that were forgotten.
    """

    def __init__(self) -> None:
        self.since_s = time()
        self.left_out = 0
        self._kept: deque[FaultReport] = deque()

    def add(
        self, where: str, error: BaseException, seq: int | None, *, is_restarted: bool
    ) -> FaultReport:
        """Keep the first exception of a fault, and return its report."""
        now = time()
        is_told = isinstance(error, StoreError)
        number = self.left_out + len(self._kept) + 1
        report = FaultReport(
            number,
            where,
            describe_error(error),
            place_in_traceback(error),
            "" if is_told else traceback_of(error),
            seq,
            now,
            now,
            is_restarted=is_restarted,
        )
        if len(self._kept) >= FAULTS_KEPT:
            self._kept.popleft()
            self.left_out += 1
        self._kept.append(report)
        return report

    @staticmethod
    def note_again(report: FaultReport, seq: int | None) -> None:
        """Count another exception of a fault."""
        report.times += 1
        report.last_s, report.seq = time(), seq

    def latest(self, after_s: float = 0.0) -> list[FaultReport]:
        """Return the faults that were raised after a time, the one that was raised last first."""
        found = (report for report in self._kept if report.last_s > after_s)
        return sorted(found, key=lambda report: report.last_s, reverse=True)


def traceback_of(error: BaseException) -> str:
    """Return the traceback of an exception and of its causes, of bounded length, as text.

    The frames of the exception have no variables from then on.
    """
    hide_variables(error)
    text = "".join(TracebackException.from_exception(error, compact=True).format())
    text = text.encode("utf-8", "replace").decode()
    left = len(text) - TRACEBACK_CHARS_MAX
    if left <= 0:
        return text
    half = TRACEBACK_CHARS_MAX // 2
    return f"{text[:half]}\n… {left} characters are left out …\n{text[-half:]}"


def place_in_traceback(error: BaseException) -> str:
    """Return the place of an exception, `FILE:LINE in FUNCTION`; empty if it was not raised.

    It is the last line outside of placet and of installed libraries, domains of placet included;
    without one, the last line.
    """
    frames = extract_tb(error.__traceback__)
    own = [frame for frame in frames if not _is_of_library(frame.filename)]
    for last in (own or frames)[-1:]:
        return f"{last.filename}:{last.lineno} in {last.name}"
    return ""


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
