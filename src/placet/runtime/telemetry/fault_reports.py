"""The latest faults of an open world, in the memory of its process: place and traceback of each.

No log has them. The bytes of a record must depend on no path and no line number, and the text of an
exception may hold what its readers may not see. A traceback has source lines and no variables.
"""

from dataclasses import dataclass
from time import time
from typing import Final

from placet.history.tracebacks import place_in_traceback, traceback_of
from placet.runtime.telemetry.error_frames import hide_variables
from placet.schemas.errors import StoreError, describe_error

FAULTS_KEPT: Final = 64
"""Different faults of which place and traceback are kept.

Beyond it the fault whose latest exception is the oldest is forgotten.
"""


@dataclass(slots=True)
class FaultReport:
    """A fault: exceptions of one type that one line raised.

    Attributes:
        number: 1 is the first fault since the world was opened; a fault that was forgotten has a
            new number when it is raised again.
        where: The part that raised it first, such as `rule of Move`.
        error: Type and text of the first exception.
        place: Where it was raised, `FILE:LINE in FUNCTION`; empty if nothing was raised.
        traceback: Its traceback, without variables; empty of an error of the store, whose message
            says what to do.
        seq: Sequence number of the world when it was raised last; None if it is unknown.
        first_s: Time of the first exception, seconds since 1970.
        last_s: Time of the last one.
        times: How often it was raised since it is kept.
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
        self._kept: dict[int, FaultReport] = {}  # by number; the one that was raised last is last

    def add(
        self, where: str, error: BaseException, seq: int | None, *, is_restarted: bool
    ) -> FaultReport:
        """Keep the first exception of a fault, and return its report.

        The exception is changed: the frames of its traceback have no variables then
        (`hide_variables`), which are payloads. A `StoreError` is unchanged.
        """
        now = time()
        is_store_error = isinstance(error, StoreError)
        if not is_store_error:
            hide_variables(error)
        number = self.left_out + len(self._kept) + 1
        report = FaultReport(
            number,
            where,
            describe_error(error),
            place_in_traceback(error),
            "" if is_store_error else traceback_of(error),
            seq,
            now,
            now,
            is_restarted=is_restarted,
        )
        if len(self._kept) >= FAULTS_KEPT:
            del self._kept[next(iter(self._kept))]
            self.left_out += 1
        self._kept[number] = report
        return report

    def note_again(self, number: int, seq: int | None) -> bool:
        """Count another exception of a fault; return False if its report was forgotten.

        Args:
            number: Number of its report.
            seq: Sequence number of the world; None if it is unknown.
        """
        report = self._kept.pop(number, None)
        if report is None:
            return False
        report.times += 1
        report.last_s, report.seq = time(), seq
        self._kept[number] = report
        return True

    def latest(self, after_s: float = 0.0) -> list[FaultReport]:
        """Return the faults that were raised after a time, the one that was raised last first."""
        kept = reversed(list(self._kept.values()))
        return [report for report in kept if report.last_s > after_s]
