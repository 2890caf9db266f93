"""Seed 000's firewall: `ActionPlanValidator` dry-runs a plan, `ActionExecutor` executes it.

Both submit the same batch to the kernel, so a plan that validates also executes. This module
decides nothing.
"""

from dataclasses import replace
from typing import Any

from placet.schemas.codec import Json
from placet.schemas.verdict import Verdict
from placet_design.actions.answers import (
    ExecutionResult,
    may_retry,
    rejected_indexes,
    rejections_of,
    replayed_answer,
    require_answer,
    trace,
)
from placet_design.actions.plans import batch_of
from placet_design.actions.protocol import Action, ActionPlan, Intent, ValidationResult
from placet_design.api.workspace import PLANNER, StateManager
from placet_design.payloads import PARAMETERS


class ActionExecutor:
    """Executes plans on a design: a plan as a whole, or nothing of it.

    Args:
        state_manager: The design.
        agent_id: Agent that submits the plans; registered as a designer if unknown.
    """

    def __init__(self, state_manager: StateManager, *, agent_id: str = PLANNER) -> None:
        self._manager = state_manager
        self._agent_id = agent_id
        state_manager.register(agent_id)

    def execute(
        self, proposal: Action | ActionPlan, *, intent: Intent | None = None, dry_run: bool = False
    ) -> ExecutionResult:
        """Execute a plan as one commit, or a single action as a plan of one.

        A plan sent again gets the same answer and has no second effect. A stale plan may come again
        under its id on another version.

        Args:
            proposal: A plan, or an action, which is based on the current version.
            intent: The message it derives from, to be logged with the plan.
            dry_run: Return the answer without any change.

        Raises:
            StalePlanError: The plan is based on another version.
            PlacetError: The gate refused the plan before the rules: another plan had this id, the
                agent is unknown or over its quota.
        """
        manager = self._manager
        plan = proposal if isinstance(proposal, ActionPlan) else self._plan_of(proposal)
        seq = manager.kernel.seq
        options: dict[str, Any] = {"context_seq": seq, "intent": intent, "dry_run": dry_run}
        before = values_before(manager, plan)
        verdict = manager.decide(batch_of(plan, self._agent_id, **options))
        if may_retry(manager.kernel, plan, self._agent_id, verdict):
            verdict = manager.decide(batch_of(plan, self._agent_id, is_retry=True, **options))
        if verdict.refusals:
            require_answer(plan, verdict, manager.design_version)
        replayed = None
        if verdict.replayed and verdict.admitted:
            replayed = replayed_answer(manager.tree, plan.plan_id)
            replayed = replayed or (plan.design_version_before, ())
        heads = 1 if intent is None else 2
        return ExecutionResult(plan, verdict, manager.design.setup, before, replayed, heads)

    def _plan_of(self, action: Action) -> ActionPlan:
        manager = self._manager
        number = manager.kernel.record_count
        plan_id = f"{self._agent_id[:64]}/action-{number}"
        design_id = manager.state.design_id or "design"
        return ActionPlan(plan_id, plan_id, design_id, [action], manager.design_version)


class ActionPlanValidator:
    """Returns which actions of a plan would pass, and their normalized form. Nothing changes.

    Args:
        agent_id: Agent that the plans are checked for; registered as a designer if unknown.
    """

    def __init__(self, *, agent_id: str = PLANNER) -> None:
        self._agent_id = agent_id

    def validate(self, plan: ActionPlan, state_manager: StateManager) -> ValidationResult:
        """Return which actions of a plan would pass and which not, by dry runs.

        The design does not change. The approved actions pass as a plan if the rejected ones are
        left out.

        Raises:
            StalePlanError: The plan is based on another version.
        """
        result = ValidationResult()
        settings = state_manager.design.setup
        left = list(enumerate(plan.actions))
        while left:
            trial = replace(plan, actions=[action for _, action in left])
            verdict = self._dry_run(trial, state_manager)
            if verdict.admitted:
                break
            rejections = list(rejections_of(trial, verdict, settings))
            rejected = rejected_indexes(trial, rejections, verdict)
            reasons = {r.index: r.reason for r in reversed(rejections)}
            result.rejections += rejections
            result.rejected += [
                (left[n][1], reasons.get(n, rejections[0].reason)) for n in sorted(rejected)
            ]
            left = [pair for n, pair in enumerate(left) if n not in rejected] if rejected else []
        before = values_before(state_manager, plan)
        for action, _, _, adjustments in trace([action for _, action in left], before, settings):
            result.approved.append(action)
            result.notices += adjustments
        result.warnings = [warning.message for warning in result.notices]
        return result

    def _dry_run(self, plan: ActionPlan, manager: StateManager) -> Verdict:
        """Submit a dry run under ids that no plan has, so that no stored answer is returned."""
        manager.register(self._agent_id)
        batch = batch_of(plan, self._agent_id, context_seq=manager.kernel.seq, dry_run=True)
        for n, intent in enumerate(batch["intents"]):
            intent["req_id"] = f"dry run {n}"
        verdict = manager.kernel.decide(batch)
        require_answer(plan, verdict, manager.design_version)
        return verdict


def values_before(manager: StateManager, plan: ActionPlan) -> dict[str, Json]:
    """Read the current values of the parameters that a plan touches."""
    rows = manager.tree.collections[PARAMETERS].entities
    paths = [action.path for action in plan.actions]
    return {
        path: rows[path].fields["value"] for path in paths if type(path) is str and path in rows
    }
