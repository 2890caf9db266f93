"""The events of a design: one table of types, meanings and fields, and the classes made from it.

An event is a projection of one record of the log. Events of one record have its seq and are
numbered within it by `n`, so (seq, record, n) orders all of them, and a subscriber can resume at
any of them. Values of fields are plain JSON.
"""

from dataclasses import dataclass, fields, make_dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Final

from placet.schemas.codec import Json


class KernelEventType(StrEnum):
    """Type of an event, as `<group>.<event>`."""

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
    """Common fields of all events; each type adds its own.

    Attributes:
        seq: Sequence number of the world after the record.
        record: Ordinal number of the record in the log.
        n: Position among the events of the record, from 0.
        sim_time: Simulated seconds.
        actor: Id of the agent that submitted the batch, or `@system`.
    """

    event_type: ClassVar[KernelEventType]

    seq: int
    record: int
    n: int
    sim_time: float
    actor: str

    if TYPE_CHECKING:  # a checker does not know the fields of classes made at import

        def __getattr__(self, name: str) -> Any: ...  # noqa: ANN401

    @property
    def group(self) -> str:
        """The first part of the type.

        One of `action`, `validation`, `state`, `phase`, `pipeline`, `transaction`, `export`.
        """
        return self.event_type.value.partition(".")[0]

    def as_dict(self) -> dict[str, Json]:
        """Return the event as JSON: `type`, the common fields, then the fields of its type."""
        values: dict[str, Json] = {field.name: getattr(self, field.name) for field in fields(self)}
        return {"type": self.event_type.value, **values}


EVENTS: Final[dict[KernelEventType, type[KernelEvent]]] = {}
"""Event type -> its class; filled by the table below."""


def _event(event_type: KernelEventType, meaning: str, names: str) -> type[KernelEvent]:
    """Make the class of an event type with the named fields, and register it in `EVENTS`."""
    cls = make_dataclass(
        event_type.name.title().replace("_", "") + "Event",
        [(name, Any) for name in names.split()],
        bases=(KernelEvent,),
        namespace={"event_type": event_type, "__doc__": meaning, "__module__": __name__},
        frozen=True,
        slots=True,
        kw_only=True,
    )
    return EVENTS.setdefault(event_type, cls)


_T: Final = KernelEventType

IntentUnderstoodEvent: Final = _event(
    _T.INTENT_UNDERSTOOD,
    "A message was parsed into an intent.",
    "intent_id raw_text intent_type confidence",
)
PlanExecutedEvent: Final = _event(
    _T.PLAN_EXECUTED,
    "A plan was admitted as a whole; `actions` counts its actions.",
    "plan_id intent_id actions",
)
ActionExecutedEvent: Final = _event(
    _T.ACTION_EXECUTED,
    "An action took effect; `payload` is as it was applied.",
    "plan_id action_type path payload",
)
ClarificationRequestedEvent: Final = _event(
    _T.CLARIFICATION_REQUESTED, "The user is asked a question.", "message"
)
PlanRejectedEvent: Final = _event(
    _T.PLAN_REJECTED,
    "A plan was refused; the rejections of its actions follow.",
    "plan_id intent_id",
)
PlanStaleEvent: Final = _event(
    _T.PLAN_STALE, "A plan was based on another version of the design.", "plan_id message"
)
ActionRejectedEvent: Final = _event(
    _T.ACTION_REJECTED, "An action of a plan was refused.", "plan_id action_type path code message"
)
ActionAdjustedEvent: Final = _event(
    _T.ACTION_ADJUSTED,
    "An action was accepted with a change: converted, clamped, or without effect.",
    "plan_id path code message",
)
InvariantViolatedEvent: Final = _event(
    _T.INVARIANT_VIOLATED,
    "A plan was refused because the design it leads to violates an invariant.",
    "plan_id message",
)
DesignOpenedEvent: Final = _event(
    _T.DESIGN_OPENED, "The log of a design begins.", "design_id design_version"
)
DesignCreatedEvent: Final = _event(_T.DESIGN_CREATED, "The design got its id.", "design_id")
StateMutatedEvent: Final = _event(
    _T.STATE_MUTATED, "A parameter changed its value.", "path old_value new_value"
)
ParameterLockedEvent: Final = _event(
    _T.PARAMETER_LOCKED, "A parameter was locked against changes.", "path owner reason"
)
ParameterUnlockedEvent: Final = _event(_T.PARAMETER_UNLOCKED, "A parameter was unlocked.", "path")
PhaseStartedEvent: Final = _event(_T.PHASE_STARTED, "A run of a phase was requested.", "phase")
PhaseCompletedEvent: Final = _event(
    _T.PHASE_COMPLETED, "A phase has a result.", "phase outputs flags method"
)
PhaseFailedEvent: Final = _event(_T.PHASE_FAILED, "A phase ran without a result.", "phase reason")
PhaseTransitionedEvent: Final = _event(
    _T.PHASE_TRANSITIONED, "An agent moved a phase by hand.", "phase to source reason"
)
PhasesInvalidatedEvent: Final = _event(
    _T.PHASES_INVALIDATED,
    "Parameters changed that these phases read: their results, if any, are stale.",
    "paths phases",
)
PipelineStartedEvent: Final = _event(
    _T.PIPELINE_STARTED, "A run of several phases was requested.", "phases"
)
PipelineCompletedEvent: Final = _event(
    _T.PIPELINE_COMPLETED, "A run of phases ended, and each has a result.", "phases"
)
PipelineFailedEvent: Final = _event(
    _T.PIPELINE_FAILED, "A run of phases ended, and some have no result.", "phases failed"
)
TransactionCommittedEvent: Final = _event(
    _T.TRANSACTION_COMMITTED, "The design has a new version.", "design_version paths"
)
UndoCommittedEvent: Final = _event(
    _T.UNDO_COMMITTED, "A new commit reverted the latest one.", "design_version"
)
RedoCommittedEvent: Final = _event(
    _T.REDO_COMMITTED, "A new commit restored a reverted one.", "design_version"
)
ExportRequestedEvent: Final = _event(
    _T.EXPORT_REQUESTED, "An export of the design was requested.", "format"
)
ExportCompletedEvent: Final = _event(
    _T.EXPORT_COMPLETED, "The design was exported.", "format design_version"
)
