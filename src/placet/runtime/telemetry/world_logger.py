"""The log lines that a world writes: groups at debug, refusals at info, faults at error."""

from collections.abc import Sequence

from placet.runtime.telemetry.logging import configure_logging
from placet.schemas.errors import StoreError
from placet.schemas.verdict import Verdict


class WorldLogger:
    """The logger of one world; its lines contain no payloads."""

    def __init__(self, log_format: str, level: str, world: str) -> None:
        self._logger = configure_logging(log_format, level).bind(world=world)

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

    def fault(self, where: str, error: BaseException, *, is_restarted: bool = False) -> None:
        """Log an exception with its traceback.

        `where` names the part that raised it; `is_restarted` says whether its task runs again.

        A `StoreError` is logged without a traceback: its message says what to do.
        """
        if isinstance(error, StoreError):
            self._logger.error("fault", where=where, is_restarted=is_restarted, error=str(error))
        else:
            self._logger.error("fault", where=where, is_restarted=is_restarted, exc_info=error)
