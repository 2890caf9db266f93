"""Types of the design protocol: the understood message, the proposal, and its validation.

All are plain frozen values. A point in time is whatever has `isoformat()`, such as a datetime, or
an ISO 8601 string already: this room has no clock and makes none.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Protocol, TypeAlias, runtime_checkable

from placet.schemas.codec import Json
from placet.schemas.errors import PlacetError


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
    """An object with an ISO date, such as a datetime."""

    def isoformat(self) -> str:
        """Return itself in ISO 8601."""


Moment: TypeAlias = Dated | str


@dataclass(frozen=True, slots=True)
class Intent:
    """A parsed message of a user. It is logged, and linked to its plan by `intent_id`.

    Attributes:
        intent_id: Unique identifier.
        design_id: The design that it is about.
        raw_text: The message.
        intent_type: Its rough purpose.
        confidence: How sure the parser is, 0..1.
        parsed_at: When.
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


@dataclass(frozen=True, slots=True)
class Action:
    """One proposal about a design; which fields it needs is its type's to say.

    Attributes:
        action_type: What to do.
        path: State path, such as `hull.loa`.
        value: For SET.
        amount: For INCREASE and DECREASE: a positive number or a named step.
        unit: Of the value or the amount; None is the kernel's.
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


@dataclass(frozen=True, slots=True)
class ActionPlan:
    """Actions that are decided together: all of them happen, or none does.

    Attributes:
        plan_id: Idempotency key: sent again, it gets the same answer.
        intent_id: The intent behind it.
        design_id: The design it is for.
        actions: In order; each sees what those before it did.
        design_version_before: The version that the plan is based on.
        proposed_at: When.
    """

    plan_id: str
    intent_id: str
    design_id: str
    actions: list[Action]
    design_version_before: int
    proposed_at: Moment | None = None


@dataclass(frozen=True, slots=True)
class Warned:
    """A value that was accepted with a change.

    Attributes:
        code: `unit_converted`, `clamped` or `no_op`.
        message: In words.
        path: Of the parameter.
        requested: The requested value, in the kernel's unit; None if not applicable.
        used: The value used instead.
    """

    code: str
    message: str
    path: str = ""
    requested: Json = None
    used: Json = None

    def as_dict(self) -> dict[str, Json]:
        """Return it as plain JSON."""
        return {
            "code": self.code,
            "message": self.message,
            "path": self.path,
            "requested": self.requested,
            "used": self.used,
        }


@dataclass(frozen=True, slots=True)
class ActionResult:
    """The result of one action of a plan.

    Attributes:
        action: As it was applied, normalized.
        executed: False where the plan was refused.
        before: The parameter's value before it; None where it has none, or is not known any more.
        after: And after it.
        warnings: In words.
    """

    action: Action
    executed: bool
    before: Json = None
    after: Json = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why one action did not pass.

    Attributes:
        path: Of the action; empty where it has none.
        reason: In words.
        code: As data, without the domain's name.
        index: Which action; None where it is about the plan, or about several of them.
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
        rejected: Pairs of an action and why it does not pass.
        warnings: In words.
        rejections: The same as `rejected`, as data.
        notices: The same as `warnings`, as data.
    """

    approved: list[Action] = field(default_factory=list)
    rejected: list[tuple[Action, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    rejections: list[Rejection] = field(default_factory=list)
    notices: list[Warned] = field(default_factory=list)

    @property
    def has_rejections(self) -> bool:
        """Return whether an action was rejected."""
        return bool(self.rejected)

    @property
    def all_approved(self) -> bool:
        """Return whether every action passes, so that the plan does."""
        return not self.rejected


def stale_message(expected: int, current: Json) -> str:
    """Return the message of a plan that is based on another version.

    One that came too early, and comes again in time, has the answer that it had.
    """
    stale = f"Plan is stale: expected design_version={expected}, current={current}"
    if expected == current:
        return f"{stale}, which it was not when it came; send it under another plan_id"
    return stale


class StalePlanError(PlacetError):
    """The plan is based on another version of the design: fetch the state and plan anew.

    Attributes:
        current_design_version: The version that the design has.
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
