"""The log lines that a world writes: groups at debug, refusals at info, faults at error."""

from collections.abc import Sequence
from typing import Final

from placet.runtime.telemetry.fault_reports import FaultReports
from placet.runtime.telemetry.logging import configure_logging
from placet.schemas.batch import CheckedBatch
from placet.schemas.errors import StoreError
from placet.schemas.verdict import Verdict

_AGAIN_FACTOR: Final = 10
"""A fault is logged again when it was raised this many times as often as its latest line says."""

_FAULTS_MAX: Final = 1_024
"""Different faults that are counted; the oldest is forgotten then, and logged as new."""

_VERSIONS_MAX: Final = 64
"""Different unknown versions that are logged; each is a submitter's text."""


class WorldLogger:
    """The logger of one world; its lines contain no payloads.

    Args:
        log_format: As in `configure_logging`.
        level: As in `configure_logging`.
        world: Name of the world.
        reports: Keeps the latest faults; None: they are kept for this logger alone.
    """

    def __init__(
        self, log_format: str, level: str, world: str, reports: FaultReports | None = None
    ) -> None:
        self._logger = configure_logging(log_format, level).bind(world=world)
        self._reports = reports or FaultReports()
        self._faults: dict[tuple[str, str], _Fault] = {}
        self._versions: set[str] = set()

    def group(self, verdicts: Sequence[Verdict]) -> None:
        """Log a decided group at debug, and each of its refusals at info."""
        self._logger.debug(
            "group decided",
            batches=len(verdicts),
            admitted=sum(verdict.admitted for verdict in verdicts),
            seq=verdicts[-1].current_seq,
        )
        for verdict in verdicts:
            for refusal in verdict.refusals:
                self._logger.info(
                    "refused",
                    code=refusal.code,
                    stage=refusal.stage.value,
                    agent_id=refusal.details.get("agent_id"),
                    req_id=refusal.req_id,
                    seq=verdict.current_seq,
                )

    def unknown_versions(self, batch: CheckedBatch) -> None:
        """Log each unknown minor `schema_version` of a batch as a warning, once per version."""
        for notices in (batch.notices or {}).values():
            for notice in notices:
                is_new = notice.code == "version_unknown" and notice.message not in self._versions
                if is_new and len(self._versions) < _VERSIONS_MAX:
                    self._versions.add(notice.message)
                    self._logger.warning("unknown schema_version", message=notice.message)

    def dilated(self, factor: float, wait_s: float) -> None:
        """Log a change of the time scale: a warning if time is slowed, info at factor 1.

        `wait_s` is the predicted wait of a batch, seconds.
        """
        log = self._logger.info if factor == 1.0 else self._logger.warning
        log("time dilation", factor=round(factor, 3), wait_s=round(wait_s, 3))

    def runaway(self, rule: str, place: str, seconds: float) -> None:
        """Log a rule that blocks the world: its name, its place in the code, seconds so far."""
        self._logger.warning(
            "rule still running", rule=rule, place=place, seconds=round(seconds, 3)
        )

    def warning(self, message: str) -> None:
        """Log a condition that needs attention but has done no damage yet."""
        self._logger.warning(message)

    def fault(
        self,
        where: str,
        error: BaseException,
        *,
        is_restarted: bool = False,
        seq: int | None = None,
    ) -> None:
        """Log an exception: with its traceback at first, then by its number; keep its report.

        The exceptions of one type that were raised at one line are one fault, such as a mistake in
        the policy of a thousand agents: it is logged again at each power of ten, and by `end`.

        `where` names the part that raised it; `is_restarted` says whether its task runs again;
        `seq` is that of the world.

        The frames of its traceback have no variables then, so that no renderer of the host program
        prints payloads. A `StoreError` is logged without a traceback: its message says what to do.
        """
        fault = self._fault_of(where, error)
        fault.times += 1
        if not self._reports.note_again(fault.number, seq):
            report = self._reports.add(where, error, seq, is_restarted=is_restarted)
            fault.number = report.number
        if fault.times == 1:
            is_store_error = isinstance(error, StoreError)
            cause = {"error": str(error)} if is_store_error else {"exc_info": error}
            self._logger.error("fault", where=where, is_restarted=is_restarted, **cause)
        elif fault.times == fault.times_logged * _AGAIN_FACTOR:
            self._log_again(fault)

    def end(self) -> None:
        """Log how often each fault was raised, unless its latest line says so."""
        for fault in self._faults.values():
            if fault.times != fault.times_logged:
                self._log_again(fault)

    def _log_again(self, fault: "_Fault") -> None:
        fault.times_logged = fault.times
        self._logger.error("fault again", where=fault.where, error=fault.error, times=fault.times)

    def _fault_of(self, where: str, error: BaseException) -> "_Fault":
        name, line = type(error).__name__, _line_of(error)
        key = (name, line or where)
        fault = self._faults.get(key)
        if fault is None:
            if len(self._faults) >= _FAULTS_MAX:
                del self._faults[next(iter(self._faults))]
            fault = self._faults[key] = _Fault(where, f"{name} at {line}" if line else name)
        return fault


class _Fault:
    """A fault: the part that raised it first, its type and line, and how often it was raised.

    `number` is that of its report; 0 before the first.
    """

    __slots__ = ("error", "number", "times", "times_logged", "where")

    def __init__(self, where: str, error: str) -> None:
        self.where = where
        self.error = error
        self.times = 0
        self.times_logged = 1
        self.number = 0


def _line_of(error: BaseException) -> str:
    """Return the file and the line that raised an exception; empty if it was not raised."""
    step = error.__traceback__
    if step is None:
        return ""
    while step.tb_next is not None:
        step = step.tb_next
    return f"{step.tb_frame.f_code.co_filename}:{step.tb_lineno}"
