"""Exceptions of placet: one type for each stage of the gate, and those of the store and lifecycle.

`Orchestrator.submit` returns a verdict; `submit_intent` and `submit_intents` raise one of these for
a refusal instead, with the same data as attributes.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from placet.schemas.portable_error import PortableError
from placet.schemas.printable import printable
from placet.schemas.refusal import Refusal, RefusalCode, Stage
from placet.schemas.verdict import Verdict

if TYPE_CHECKING:
    from placet.schemas.codec import Json


INTERRUPTS: Final = (KeyboardInterrupt, SystemExit, GeneratorExit)
"""Exceptions that plug-in code raises without fault: a signal, or the exit of the interpreter.

Any other exception is a fault of the plug-in, also a `BaseException` such as a panic of an
extension.
"""


class PlacetError(PortableError):
    """Base class of the exceptions that placet raises on purpose.

    A refusal is an exception only where a method has no verdict to return:

        try:
            await ann.submit_intent(ann.intent("Move", to=[3, 4]))
        except BackpressureError as error:
            await asyncio.sleep(error.retry_after or 1.0)

    Its message names ids and texts of others: unseen characters in it are escaped.

    Attributes:
        refusals: Refusals of the batch; empty if the error is not about a batch.
        verdict: Verdict of the batch; None if the error is not about a batch.
    """

    def __init__(self, message: str, *, verdict: Verdict | None = None) -> None:
        super().__init__("\n".join(map(printable, message.split("\n"))))
        self.verdict = verdict
        self.refusals: Sequence[Refusal] = () if verdict is None else verdict.refusals

    @property
    def code(self) -> str | None:
        """The first refusal's code."""
        return self.refusals[0].code if self.refusals else None


class IntentError(PlacetError, ValueError):
    """The structure of the batch is invalid; correct it before submitting again.

    `refusals` has one for each invalid intent, with the place in `at`.
    """


class AgentError(PlacetError):
    """The agent is unknown, is suspended, or may not be used by the submitter."""


class OwnerError(AgentError):
    """The agent is registered, and has another owner."""


class PermissionDeniedError(PlacetError):
    """The agent may not propose this kind, or its handle is of a removed agent."""


class DuplicateRequestError(PlacetError):
    """The req_id was used with other content, or is older than the dedup window; take a new one."""


class StaleContextError(PlacetError):
    """The intent was decided on a state that is past: the stage `staleness` refused it.

    An entity that it depends on has changed, a condition of `expect` does not hold, or it expired.
    Refresh the view and propose again, with a new req_id.

    Attributes:
        current_seq: Sequence number of the world at the decision.
        context_seq: Seq of the view that the intent was decided on.
        changed: `{entity, seq, by, now}` of each changed entity that the agent may see.
    """

    def __init__(self, message: str, *, verdict: Verdict) -> None:
        super().__init__(message, verdict=verdict)
        first = verdict.refusals[0]
        self.current_seq: int = verdict.current_seq
        self.context_seq: int | None = first.details.get("context_seq")
        self.changed: tuple[Mapping[str, Json], ...] = first.changed


class QuotaExceededError(PlacetError):
    """The agent proposes this kind faster than its quota allows.

    Attributes:
        agent_id: The agent; None for the quota of the world.
        kind: The kind; None for a quota of all kinds.
        retry_after: Seconds after which the batch may pass; None if it can never pass.
    """

    def __init__(self, message: str, *, verdict: Verdict) -> None:
        super().__init__(message, verdict=verdict)
        first = verdict.refusals[0]
        self.agent_id: str | None = first.details.get("agent_id")
        self.kind: str | None = first.details.get("kind")
        self.retry_after: float | None = first.retry_after


class BackpressureError(PlacetError):
    """The queue, the schedule or an executor is full, or a rate is exceeded; nothing was done.

    The same batch may pass later.

    Attributes:
        reason: Code of the refusal, which names the overload signal.
        retry_after: Seconds after which to retry; None if unknown.
    """

    def __init__(self, message: str, *, verdict: Verdict) -> None:
        super().__init__(message, verdict=verdict)
        self.reason: str = verdict.refusals[0].code
        self.retry_after: float | None = verdict.refusals[0].retry_after


class ValidationError(PlacetError):
    """The stage `domain` refused the batch: a rule, an invariant, a lease, or the host's validator.

    `code` is that of the first refusal, such as `world.out_of_bounds` or `conflict`.
    """


class DomainError(PlacetError, ValueError):
    """A domain cannot be used: it cannot be made, or an attribute or a hook of it is wrong."""


class SettingError(PlacetError, ValueError):
    """A setting of a world names a kind that its domains do not have."""


class MissingExtraError(PlacetError, ImportError):
    """A function needs a package that is not installed; the message names its extra."""


class RollbackError(PlacetError, ValueError):
    """A kernel cannot go back to a mark or to a snapshot; nothing was changed."""


class StoreError(PlacetError):
    """The log cannot be read, written, or trusted.

    Attributes:
        store: The store's URL or path.
        seq: Sequence number of the fault; None if unknown.
    """

    def __init__(self, message: str, *, store: str = "", seq: int | None = None) -> None:
        super().__init__(message)
        self.store = store
        self.seq = seq


class PositionError(StoreError):
    """The log has no such seq, record or tick; its store is well."""


class LogFormatError(StoreError):
    """The log is of a format that this release does not read; its store is well."""


class ReadOnlyError(StoreError):
    """The world is open read-only; the process that writes its log can do this."""


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
assert _BY_STAGE.keys() == set(Stage), "each stage has a type of exception"

_BY_CODE: Final[Mapping[str, type[PlacetError]]] = {
    RefusalCode.UNAUTHORIZED.value: PermissionDeniedError,
    RefusalCode.PERMISSION_DENIED.value: PermissionDeniedError,
}


def error_type(refusal: Refusal) -> type[PlacetError]:
    """Return the exception type of a refusal."""
    return _BY_CODE.get(refusal.code) or _BY_STAGE[refusal.stage]


def error_of(verdict: Verdict) -> PlacetError:
    """Return the exception of a refused verdict, of the type of its first refusal.

    Its text ends with the code and the place of that refusal: `(conflict at /intents/1)`.
    """
    first = verdict.refusals[0]
    more = len(verdict.refusals) - 1
    place = f" at {first.at}" if first.at else ""
    others = f", and {more} more" if more else ""
    message = f"{first.reason} ({first.code}{place}{others})"
    return error_type(first)(message, verdict=verdict)


TEXT_CHARS_MAX: Final = 1_000
"""Characters of the text of an error that a log takes."""


def describe_error(error: BaseException, *, chars_max: int | None = TEXT_CHARS_MAX) -> str:
    """Return the text of an error as a log takes it: bounded in length and valid Unicode.

    It ends with an advice if the error is a change of an immutable value in place. If its own `str`
    raises, it is the name of its type.

    Args:
        error: The error.
        chars_max: Length of the text; None for all of it, of a caller that cuts it.
    """
    name = type(error).__name__
    try:
        words = f"{name}: {error}" if f"{error}" else name
        advice = advice_on(error)
        if advice:
            words += f"; {advice}"
    except Exception:  # noqa: BLE001  # the boundary of plug-in code: a hostile object
        return name
    return words[:chars_max].encode("utf-8", "replace").decode()


_IMMUTABLE: Final = (
    "values of a state are immutable: change a copy, such as list(value) or dict(value), and write "
    "it by draft.put, or propose it in an intent"
)


def advice_on(error: BaseException) -> str:
    """Return an advice on a frequent mistake in a rule or a policy; empty for other errors.

    It is known for a write into a value of a state, a key that is read as an attribute, a refusal
    that is raised, and `view.random` that is taken for a module.
    """
    if isinstance(error, AttributeError):
        if getattr(error.obj, "__qualname__", "").endswith("View.random"):
            return _DRAWS
        if isinstance(error.obj, Mapping) and error.name in error.obj:
            return f"it is a key: write [{error.name!r}]"
        name, is_list = error.name or "", isinstance(error.obj, tuple)
        wrong = hasattr(list, name) if is_list else hasattr(dict, name)
        return _IMMUTABLE if wrong and (is_list or isinstance(error.obj, Mapping)) else ""
    # The texts of `tuple`, `mappingproxy` and the mappings of a view; they have no attributes.
    if isinstance(error, TypeError):
        if str(error) == "exceptions must derive from BaseException":
            return "a refusal is a value: return it"
        if str(error).endswith(_WRITES):
            return _IMMUTABLE
    return ""


_DRAWS: Final = (
    "view.random(purpose) draws a number in [0, 1), and view.randint_below(bound, purpose) an int: "
    "a choice is items[view.randint_below(len(items), 'choice')]"
)
_WRITES: Final = ("does not support item assignment", "does not support item deletion")
