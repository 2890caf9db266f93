"""Exceptions: the seed's face over a refusal, and nothing more.

`Orchestrator.submit` answers with a verdict; `submit_intent` and `submit_intents` raise one of
these instead, with the same data as attributes.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from placet.schemas.refusal import Refusal, RefusalCode, Stage
from placet.schemas.verdict import Verdict

if TYPE_CHECKING:
    from placet.schemas.codec import Json


INTERRUPTS: Final = (KeyboardInterrupt, SystemExit, GeneratorExit)
"""What comes out of a guest's code and is none of its own: a signal that came meanwhile, an end.

All else is the guest's fault, also what is no `Exception`, such as a panic of an extension.
"""


class PlacetError(Exception):
    """Everything that placet raises on purpose.

    Attributes:
        refusals: The refusals behind the error; empty where it is not about a batch.
        verdict: The whole answer, where there is one.
    """

    def __init__(self, message: str, *, verdict: Verdict | None = None) -> None:
        super().__init__(message)
        self.verdict = verdict
        self.refusals: Sequence[Refusal] = () if verdict is None else verdict.refusals

    @property
    def code(self) -> str | None:
        """The first refusal's code."""
        return self.refusals[0].code if self.refusals else None


class IntentError(PlacetError, ValueError):
    """The structure of a batch is unsound; mend it before submitting again."""


class AgentError(PlacetError):
    """The agent is unknown, suspended, or not the submitter's."""


class PermissionDeniedError(PlacetError):
    """The agent, or the caller, may not do this."""


class DuplicateRequestError(PlacetError):
    """The req_id was used with other content, or is older than the dedup window."""


class StaleContextError(PlacetError):
    """The world moved on since the agent looked. Refresh the view and propose again.

    Attributes:
        current_seq: Sequence number of the world at the decision.
        context_seq: Seq of the view that the intent was decided on.
        changed: `{entity, seq, by, now}` of what changed, as far as the agent may see it.
    """

    def __init__(self, message: str, *, verdict: Verdict) -> None:
        super().__init__(message, verdict=verdict)
        first = verdict.refusals[0]
        self.current_seq: int = verdict.current_seq
        self.context_seq: int | None = first.details.get("context_seq")
        self.changed: tuple[Mapping[str, Json], ...] = first.changed


class QuotaExceededError(PlacetError):
    """The agent proposes this kind faster than it may.

    Attributes:
        agent_id: Who.
        kind: What.
        retry_after: Seconds that suffice; None where the batch can never pass.
    """

    def __init__(self, message: str, *, verdict: Verdict) -> None:
        super().__init__(message, verdict=verdict)
        first = verdict.refusals[0]
        self.agent_id: str | None = first.details.get("agent_id")
        self.kind: str | None = first.details.get("kind")
        self.retry_after: float | None = first.retry_after


class BackpressureError(PlacetError):
    """The system has more work than it takes; the same batch may pass later.

    Attributes:
        reason: The refusal's code: which signal said no.
        retry_after: Seconds after which to try again, where it can be told.
    """

    def __init__(self, message: str, *, verdict: Verdict) -> None:
        super().__init__(message, verdict=verdict)
        self.reason: str = verdict.refusals[0].code
        self.retry_after: float | None = verdict.refusals[0].retry_after


class ValidationError(PlacetError):
    """The domain, or the world's own validator, said no."""


class StoreError(PlacetError):
    """The log cannot be read, written, or trusted.

    Attributes:
        store: The store's URL or path.
        seq: Where, if it can be told.
    """

    def __init__(self, message: str, *, store: str = "", seq: int | None = None) -> None:
        super().__init__(message)
        self.store = store
        self.seq = seq


class ClosedError(PlacetError):
    """The world is not open: it has not started, has stopped, or has failed."""


class TimeStalledError(PlacetError):
    """Simulated time cannot advance: a participant neither sleeps nor ends."""


_BY_STAGE: Final[Mapping[Stage, type[PlacetError]]] = {
    Stage.ADMISSION: BackpressureError,
    Stage.STRUCTURE: IntentError,
    Stage.AGENT: AgentError,
    Stage.DEDUP: DuplicateRequestError,
    Stage.STALENESS: StaleContextError,
    Stage.QUOTA: QuotaExceededError,
    Stage.BACKPRESSURE: BackpressureError,
    Stage.DOMAIN: ValidationError,
}

_BY_CODE: Final[Mapping[str, type[PlacetError]]] = {
    RefusalCode.UNAUTHORIZED.value: PermissionDeniedError,
    RefusalCode.PERMISSION_DENIED.value: PermissionDeniedError,
}


def error_type(refusal: Refusal) -> type[PlacetError]:
    """Return which exception stands for a refusal."""
    return _BY_CODE.get(refusal.code) or _BY_STAGE[refusal.stage]


def error_of(verdict: Verdict) -> PlacetError:
    """Make the exception that stands for a refused verdict."""
    first = verdict.refusals[0]
    more = len(verdict.refusals) - 1
    message = first.message + (f" (and {more} more)" if more else "")
    return error_type(first)(message, verdict=verdict)
