"""Parametric design behind the gate (seed 000): a model proposes plans, the kernel decides.

fields, units > vocabulary > normalize > rules (parameters, history, invariants, phase_rules)
plans, answers: a plan is one batch, a verdict its answer;  phases/: the formulae
text, text_rewordings: sentences to actions, or to a question and ways to answer it
workspace, executor, phase_machine, dispatcher, audit: the seed's faces over a kernel
"""

from placet.domains.design.actions.answers import ExecutionResult
from placet.domains.design.actions.plans import PlanInvalidError, batch_of, parse_action, parse_plan
from placet.domains.design.actions.protocol import (
    Action,
    ActionPlan,
    ActionResult,
    ActionType,
    Intent,
    IntentType,
    Rejection,
    StalePlanError,
    ValidationResult,
    Warned,
)
from placet.domains.design.api.action_executor import ActionExecutor, ActionPlanValidator
from placet.domains.design.api.event_dispatcher import EventDispatcher, Failure, Subscription
from placet.domains.design.api.phase_machine import (
    Conductor,
    PhaseMachine,
    PipelineResult,
    set_phase_status,
)
from placet.domains.design.api.workspace import StateManager
from placet.domains.design.domain import Design
from placet.domains.design.effects import EXECUTORS, run_effect
from placet.domains.design.events.audit import AuditedAction, AuditEntry, audit
from placet.domains.design.events.events import (
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
from placet.domains.design.events.projection import project
from placet.domains.design.fields import (
    REFINABLE_SCHEMA,
    RefinableField,
    Step,
    find_by_keyword,
    get_all_refinable_paths,
    get_field,
    is_refinable,
)
from placet.domains.design.phases import PHASES
from placet.domains.design.phases.states import TRANSITIONS, PhaseState
from placet.domains.design.state.design_json import DesignState
from placet.domains.design.text.parser import Clarification, ParsedText, parse_text
from placet.domains.design.text.rewordings import rewordings
from placet.domains.design.units import UnitConversionError, UnitConverter, clamp_to_bounds

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
    "AuditEntry",
    "AuditedAction",
    "Clarification",
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
    "ParsedText",
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
    "Warned",
    "audit",
    "batch_of",
    "clamp_to_bounds",
    "find_by_keyword",
    "get_all_refinable_paths",
    "get_field",
    "is_refinable",
    "parse_action",
    "parse_plan",
    "parse_text",
    "project",
    "rewordings",
    "run_effect",
    "set_phase_status",
]
