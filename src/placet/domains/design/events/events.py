"""The events of a design. Each is a projection of one record of the log.

Events of one record have its seq and are numbered within it by `n`, so (seq, record, n) orders all
of them, and a subscriber can resume at any of them.
"""

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import ClassVar

from placet.schemas.codec import Json


class KernelEventType(StrEnum):
    """Every type of event, as `<group>.<what>`."""

    INTENT_UNDERSTOOD = "action.intent_understood"
    PLAN_EXECUTED = "action.plan_executed"
    ACTION_EXECUTED = "action.executed"
    CLARIFICATION_REQUESTED = "action.clarification_requested"

    PLAN_REJECTED = "validation.plan_rejected"
    PLAN_STALE = "validation.plan_stale"
    ACTION_REJECTED = "validation.action_rejected"
    ACTION_ADJUSTED = "validation.action_adjusted"
    INVARIANT_VIOLATED = "validation.invariant_violated"

    DESIGN_OPENED = "state.design_opened"
    DESIGN_CREATED = "state.design_created"
    STATE_MUTATED = "state.mutated"
    PARAMETER_LOCKED = "state.parameter_locked"
    PARAMETER_UNLOCKED = "state.parameter_unlocked"

    PHASE_STARTED = "phase.started"
    PHASE_COMPLETED = "phase.completed"
    PHASE_FAILED = "phase.failed"
    PHASE_TRANSITIONED = "phase.transitioned"
    PHASES_INVALIDATED = "phase.invalidated"

    PIPELINE_STARTED = "pipeline.started"
    PIPELINE_COMPLETED = "pipeline.completed"
    PIPELINE_FAILED = "pipeline.failed"

    TRANSACTION_COMMITTED = "transaction.committed"
    UNDO_COMMITTED = "transaction.undone"
    REDO_COMMITTED = "transaction.redone"

    EXPORT_REQUESTED = "export.requested"
    EXPORT_COMPLETED = "export.completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelEvent:
    """The common fields of all events.

    Attributes:
        seq: Sequence number of the world after the record.
        record: Ordinal number of the record in the log.
        n: Place among the events of the record, from 0.
        sim_time: Simulated seconds.
        actor: Who did it.
    """

    event_type: ClassVar[KernelEventType]

    seq: int
    record: int
    n: int
    sim_time: float
    actor: str

    @property
    def group(self) -> str:
        """`action`, `validation`, `state`, `phase`, `pipeline`, `transaction` or `export`."""
        return self.event_type.value.partition(".")[0]

    def as_dict(self) -> dict[str, Json]:
        """Return it as plain JSON."""
        values: dict[str, Json] = {field.name: getattr(self, field.name) for field in fields(self)}
        return {"type": self.event_type.value, **values}


@dataclass(frozen=True, slots=True, kw_only=True)
class IntentUnderstoodEvent(KernelEvent):
    """Somebody said something, and it was understood so."""

    event_type: ClassVar = KernelEventType.INTENT_UNDERSTOOD
    intent_id: str
    raw_text: str
    intent_type: str
    confidence: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanExecutedEvent(KernelEvent):
    """A plan passed, all of it."""

    event_type: ClassVar = KernelEventType.PLAN_EXECUTED
    plan_id: str
    intent_id: str
    actions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionExecutedEvent(KernelEvent):
    """An action took effect; the payload is as it was applied."""

    event_type: ClassVar = KernelEventType.ACTION_EXECUTED
    plan_id: str | None
    action_type: str
    path: str | None
    payload: dict[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClarificationRequestedEvent(KernelEvent):
    """The person is asked something."""

    event_type: ClassVar = KernelEventType.CLARIFICATION_REQUESTED
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRejectedEvent(KernelEvent):
    """A plan did not pass; its actions' rejections follow."""

    event_type: ClassVar = KernelEventType.PLAN_REJECTED
    plan_id: str | None
    intent_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStaleEvent(KernelEvent):
    """A plan was based on another version of the design."""

    event_type: ClassVar = KernelEventType.PLAN_STALE
    plan_id: str | None
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionRejectedEvent(KernelEvent):
    """An action of a plan did not pass."""

    event_type: ClassVar = KernelEventType.ACTION_REJECTED
    plan_id: str | None
    action_type: str
    path: str | None
    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionAdjustedEvent(KernelEvent):
    """An action was accepted with a change: converted, clamped, or without effect."""

    event_type: ClassVar = KernelEventType.ACTION_ADJUSTED
    plan_id: str | None
    path: str | None
    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InvariantViolatedEvent(KernelEvent):
    """A plan would have made a design that is not sound."""

    event_type: ClassVar = KernelEventType.INVARIANT_VIOLATED
    plan_id: str | None
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignOpenedEvent(KernelEvent):
    """The log of a design begins."""

    event_type: ClassVar = KernelEventType.DESIGN_OPENED
    design_id: str | None
    design_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignCreatedEvent(KernelEvent):
    """The design got its name."""

    event_type: ClassVar = KernelEventType.DESIGN_CREATED
    design_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StateMutatedEvent(KernelEvent):
    """A parameter has another value."""

    event_type: ClassVar = KernelEventType.STATE_MUTATED
    path: str
    old_value: Json
    new_value: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterLockedEvent(KernelEvent):
    """A parameter may not change."""

    event_type: ClassVar = KernelEventType.PARAMETER_LOCKED
    path: str
    owner: str
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterUnlockedEvent(KernelEvent):
    """A parameter may change again."""

    event_type: ClassVar = KernelEventType.PARAMETER_UNLOCKED
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseStartedEvent(KernelEvent):
    """A phase is to run."""

    event_type: ClassVar = KernelEventType.PHASE_STARTED
    phase: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseCompletedEvent(KernelEvent):
    """A phase has a result."""

    event_type: ClassVar = KernelEventType.PHASE_COMPLETED
    phase: str
    outputs: dict[str, Json]
    flags: list[dict[str, Json]]
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseFailedEvent(KernelEvent):
    """A phase ran and has no result."""

    event_type: ClassVar = KernelEventType.PHASE_FAILED
    phase: str
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseTransitionedEvent(KernelEvent):
    """A phase was moved by hand."""

    event_type: ClassVar = KernelEventType.PHASE_TRANSITIONED
    phase: str
    to: str
    source: str
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PhasesInvalidatedEvent(KernelEvent):
    """Parameters changed that these phases read: their results, where they have any, are stale."""

    event_type: ClassVar = KernelEventType.PHASES_INVALIDATED
    paths: list[str]
    phases: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineStartedEvent(KernelEvent):
    """A run of phases was asked for."""

    event_type: ClassVar = KernelEventType.PIPELINE_STARTED
    phases: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineCompletedEvent(KernelEvent):
    """A run of phases came back, and each has a result."""

    event_type: ClassVar = KernelEventType.PIPELINE_COMPLETED
    phases: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineFailedEvent(KernelEvent):
    """A run of phases came back, and some have no result."""

    event_type: ClassVar = KernelEventType.PIPELINE_FAILED
    phases: list[str]
    failed: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionCommittedEvent(KernelEvent):
    """The design has a new version."""

    event_type: ClassVar = KernelEventType.TRANSACTION_COMMITTED
    design_version: int
    paths: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoCommittedEvent(KernelEvent):
    """A commit was taken back, by a new one."""

    event_type: ClassVar = KernelEventType.UNDO_COMMITTED
    design_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RedoCommittedEvent(KernelEvent):
    """A commit that was taken back was brought back, by a new one."""

    event_type: ClassVar = KernelEventType.REDO_COMMITTED
    design_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequestedEvent(KernelEvent):
    """The design is to be written out."""

    event_type: ClassVar = KernelEventType.EXPORT_REQUESTED
    format: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportCompletedEvent(KernelEvent):
    """The design was written out."""

    event_type: ClassVar = KernelEventType.EXPORT_COMPLETED
    format: str
    design_version: int
