"""The log lines of a world: groups at debug, refusals at info, faults at error."""

from collections.abc import Sequence

from placet.runtime.telemetry.logging import configure_logging
from placet.schemas.errors import StoreError
from placet.schemas.verdict import Verdict


class Reports:
    """Writes the lines of one world. No payloads."""

    def __init__(self, log_format: str, level: str, world: str) -> None:
        self._logger = configure_logging(log_format, level).bind(world=world)

    def group(self, verdicts: Sequence[Verdict]) -> None:
        """Report a group, and each of its refusals."""
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
        """Report that simulated time runs slower than it did, or as it should again."""
        say = self._logger.info if factor == 1.0 else self._logger.warning
        say("time dilation", factor=round(factor, 3), wait_s=round(wait_s, 3))

    def warning(self, what: str) -> None:
        """Log a condition that is wrong but harmless so far."""
        self._logger.warning(what)

    def fault(self, where: str, error: BaseException, *, is_restarted: bool = False) -> None:
        """Report what went wrong, with its trace; a store says by itself what to do."""
        if isinstance(error, StoreError):
            self._logger.error("fault", where=where, is_restarted=is_restarted, error=str(error))
        else:
            self._logger.error("fault", where=where, is_restarted=is_restarted, exc_info=error)
