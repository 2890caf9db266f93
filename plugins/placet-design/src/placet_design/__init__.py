"""Parametric design (seed 000): a planner proposes plans, the kernel decides.

Imports go from left to right: rules > actions/normalize > payloads > fields, units.

- actions/: a plan is one batch, its verdict becomes the plan's answer.
- phases/: the formulae; phase_rules and phase_results decide and keep their results.
- state/: parameters, versions, invariants, and a design as JSON.
- events/: events and audit entries as projections of records.
- api/: seed 000's classes (StateManager, ActionExecutor, PhaseMachine, EventDispatcher) over a
  kernel in this process.

The parser of English sentences is `placet_design.text`.
"""

from placet_design.actions.answers import ExecutionResult
from placet_design.actions.plans import PlanInvalidError, batch_of, parse_action, parse_plan
from placet_design.actions.protocol import (
    Action,
    ActionPlan,
    ActionResult,
    ActionType,
    Adjustment,
    Intent,
    IntentType,
    Rejection,
    StalePlanError,
    ValidationResult,
)
from placet_design.api.action_executor import ActionExecutor, ActionPlanValidator
from placet_design.api.event_dispatcher import EventDispatcher, Failure, Subscription
from placet_design.api.phase_machine import (
    Conductor,
    PhaseMachine,
    PipelineResult,
    set_phase_status,
)
from placet_design.api.workspace import StateManager
from placet_design.domain import Design
from placet_design.effects import EXECUTORS, run_effect
from placet_design.events.audit import AuditedAction, AuditEntry, audit
from placet_design.events.events import (
    ActionAdjustedEvent,
    ActionExecutedEvent,
    ActionRejectedEvent,
    ClarificationRequestedEvent,
    DesignCreatedEvent,
    DesignOpenedEvent,
    ExportCompletedEvent,
    ExportRequestedEvent,
    IntentUnderstoodEvent,
    InvariantViolatedEvent,
    KernelEvent,
    KernelEventType,
    ParameterLockedEvent,
    ParameterUnlockedEvent,
    PhaseCompletedEvent,
    PhaseFailedEvent,
    PhasesInvalidatedEvent,
    PhaseStartedEvent,
    PhaseTransitionedEvent,
    PipelineCompletedEvent,
    PipelineFailedEvent,
    PipelineStartedEvent,
    PlanExecutedEvent,
    PlanRejectedEvent,
    PlanStaleEvent,
    RedoCommittedEvent,
    StateMutatedEvent,
    TransactionCommittedEvent,
    UndoCommittedEvent,
)
from placet_design.events.projection import project
from placet_design.phases import PHASES
from placet_design.phases.states import TRANSITIONS, PhaseState
from placet_design.refinable_fields import (
    REFINABLE_SCHEMA,
    RefinableField,
    Step,
    find_by_keyword,
    get_all_refinable_paths,
    get_field,
    is_refinable,
)
from placet_design.state.design_json import DesignState
from placet_design.units import UnitConversionError, UnitConverter, clamp_to_bounds

__all__ = [
    "EXECUTORS",
    "PHASES",
    "REFINABLE_SCHEMA",
    "TRANSITIONS",
    "Action",
    "ActionAdjustedEvent",
    "ActionExecutedEvent",
    "ActionExecutor",
    "ActionPlan",
    "ActionPlanValidator",
    "ActionRejectedEvent",
    "ActionResult",
    "ActionType",
    "Adjustment",
    "AuditEntry",
    "AuditedAction",
    "ClarificationRequestedEvent",
    "Conductor",
    "Design",
    "DesignCreatedEvent",
    "DesignOpenedEvent",
    "DesignState",
    "EventDispatcher",
    "ExecutionResult",
    "ExportCompletedEvent",
    "ExportRequestedEvent",
    "Failure",
    "Intent",
    "IntentType",
    "IntentUnderstoodEvent",
    "InvariantViolatedEvent",
    "KernelEvent",
    "KernelEventType",
    "ParameterLockedEvent",
    "ParameterUnlockedEvent",
    "PhaseCompletedEvent",
    "PhaseFailedEvent",
    "PhaseMachine",
    "PhaseStartedEvent",
    "PhaseState",
    "PhaseTransitionedEvent",
    "PhasesInvalidatedEvent",
    "PipelineCompletedEvent",
    "PipelineFailedEvent",
    "PipelineResult",
    "PipelineStartedEvent",
    "PlanExecutedEvent",
    "PlanInvalidError",
    "PlanRejectedEvent",
    "PlanStaleEvent",
    "RedoCommittedEvent",
    "RefinableField",
    "Rejection",
    "StalePlanError",
    "StateManager",
    "StateMutatedEvent",
    "Step",
    "Subscription",
    "TransactionCommittedEvent",
    "UndoCommittedEvent",
    "UnitConversionError",
    "UnitConverter",
    "ValidationResult",
    "audit",
    "batch_of",
    "clamp_to_bounds",
    "find_by_keyword",
    "get_all_refinable_paths",
    "get_field",
    "is_refinable",
    "parse_action",
    "parse_plan",
    "project",
    "run_effect",
    "set_phase_status",
]


def __getattr__(name: str) -> str:
    """Return `__version__`, read from the installed metadata when it is asked for."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version  # noqa: PLC0415  # 15 ms

    return version("placet-design")
