"""Types of the design protocol: the parsed message, the plan, and its validation.

All are frozen values. A point in time is any object with `isoformat()`, such as a datetime, or an
ISO 8601 string: domains have no clock and make none.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Protocol, TypeAlias, runtime_checkable

from placet.schemas.codec import Json
from placet.schemas.errors import PlacetError
from placet.schemas.keywords import explain_keywords


class IntentType(StrEnum):
    """The rough purpose of a message."""

    REFINE = "refine"
    CREATE = "create"
    QUERY = "query"
    LOCK = "lock"
    RUN_PIPELINE = "run_pipeline"
    EXPORT = "export"
    CLARIFY = "clarify"
    UNKNOWN = "unknown"


class ActionType(StrEnum):
    """The types of actions; each is a kind of intent, `design.<value>`."""

    SET = "set"
    INCREASE = "increase"
    DECREASE = "decrease"
    LOCK = "lock"
    UNLOCK = "unlock"
    RUN_PHASES = "run_phases"
    EXPORT = "export"
    REQUEST_CLARIFICATION = "request_clarification"
    NOOP = "noop"


@runtime_checkable
class Dated(Protocol):
    """Protocol of an object that returns its time in ISO 8601, such as a datetime."""

    def isoformat(self) -> str:
        """Return the time in ISO 8601."""


Moment: TypeAlias = Dated | str


@dataclass(frozen=True, slots=True)
class Intent:
    """A parsed message of a user. It is logged, and linked to its plan by `intent_id`.

    Attributes:
        intent_id: Unique id.
        design_id: Id of the design that the message is about.
        raw_text: The message.
        intent_type: Purpose of the message.
        confidence: Confidence of the parser, 0..1.
        parsed_at: Time of parsing.
    """

    intent_id: str
    design_id: str
    raw_text: str
    intent_type: IntentType
    confidence: float
    parsed_at: Moment | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.confidence <= 1:
            raise ValueError(f"confidence must be in 0..1, got {self.confidence!r}")


@explain_keywords
@dataclass(frozen=True, slots=True)
class Action:
    """One proposed change of a design; its type determines which fields it needs.

    Attributes:
        action_type: Type of the action.
        path: State path, such as `hull.loa`.
        value: New value, for SET.
        amount: For INCREASE and DECREASE: a positive number or a named step.
        unit: Unit of the value or the amount; None is the kernel's.
        phases: For RUN_PHASES; None is all of them.
        format: For EXPORT.
        message: For REQUEST_CLARIFICATION; for LOCK, the reason.
    """

    action_type: ActionType
    path: str | None = None
    value: Json = None
    amount: float | str | None = None
    unit: str | None = None
    phases: list[str] | None = None
    format: str | None = None
    message: str | None = None

    def with_value(self, new_value: Json) -> "Action":
        """Return a copy with another value."""
        return replace(self, value=new_value)


@explain_keywords
@dataclass(frozen=True, slots=True)
class ActionPlan:
    """A plan of changes to a design, submitted as one batch: all actions take effect, or none.

    Attributes:
        plan_id: Idempotency key of the batch: a plan submitted again gets the same answer.
        intent_id: Id of the user's parsed message that the plan was made from.
        design_id: Id of the design to change.
        actions: Actions in order; each sees the changes of those before it.
        design_version_before: The design's version that the proposer saw; the plan is refused as
            stale if the design has another one.
        proposed_at: Time of the proposal, for the audit; None if it is not known.
    """

    plan_id: str
    intent_id: str
    design_id: str
    actions: list[Action]
    design_version_before: int
    proposed_at: Moment | None = None


@dataclass(frozen=True, slots=True)
class Adjustment:
    """A warning: a value was accepted with a change.

    Attributes:
        code: `unit_converted`, `clamped` or `no_op`.
        message: Text for people.
        path: Path of the parameter.
        requested: The requested value, in the kernel's unit; None if not applicable.
        used: The value that was applied instead.
    """

    code: str
    message: str
    path: str = ""
    requested: Json = None
    used: Json = None

    def as_dict(self) -> dict[str, Json]:
        """Return it as plain JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ActionResult:
    """The result of one action of a plan.

    Attributes:
        action: The action as applied, normalized.
        executed: False if the plan was refused.
        before: The parameter's value before the action; None if unset or no longer known.
        after: The parameter's value after the action; None if unset or no longer known.
        warnings: Warnings as text.
    """

    action: Action
    executed: bool
    before: Json = None
    after: Json = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rejection:
    """The reason why one action did not pass.

    Attributes:
        path: Path of the action; empty if it has none.
        reason: Text for people.
        code: Refusal code without the domain's name.
        index: Index of the action; None for a reason that concerns the plan or several actions.
    """

    path: str
    reason: str
    code: str
    index: int | None = None

    def as_dict(self) -> dict[str, Json]:
        """Return the form of an answer on the wire."""
        return {"path": self.path, "reason": self.reason, "code": self.code}


@dataclass
class ValidationResult:
    """The gate's expected result for each action of a plan.

    Attributes:
        approved: Actions that pass, normalized; they may be clamped.
        rejected: Pairs of an action and the reason of its rejection.
        warnings: Warnings as text.
        rejections: The entries of `rejected` as data.
        notices: The entries of `warnings` as data.
    """

    approved: list[Action] = field(default_factory=list)
    rejected: list[tuple[Action, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    rejections: list[Rejection] = field(default_factory=list)
    notices: list[Adjustment] = field(default_factory=list)

    @property
    def has_rejections(self) -> bool:
        """Return whether an action was rejected."""
        return bool(self.rejected)

    @property
    def all_approved(self) -> bool:
        """Return whether every action passes, and therefore the plan."""
        return not self.rejected


def stale_message(expected: int, current: Json) -> str:
    """Return the message of a plan that is based on another version.

    A plan that arrived too early and is sent again in time gets its earlier answer.
    """
    stale = f"Plan is stale: expected design_version={expected}, current={current}"
    if expected == current:
        return f"{stale}, which it was not when it came; send it under another plan_id"
    return stale


class StalePlanError(PlacetError):
    """The plan is based on another version of the design: read the state and plan again.

    Attributes:
        current_design_version: The current version of the design.
    """

    def __init__(self, message: str, *, current_design_version: int) -> None:
        super().__init__(message)
        self.current_design_version = current_design_version

    def as_dict(self) -> Mapping[str, Json]:
        """Return the body of a 409 response."""
        return {
            "error": "stale_plan",
            "message": str(self),
            "current_design_version": self.current_design_version,
        }
