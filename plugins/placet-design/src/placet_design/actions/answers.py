"""Convert verdicts into the answers of the design protocol, which are also bodies of the HTTP API.

This module decides nothing. The result of an action is computed by the pure functions that the
rules use.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

from placet.kernel.kernel import Kernel
from placet.kernel.state.tree import State
from placet.schemas.codec import Json
from placet.schemas.errors import error_of
from placet.schemas.refusal import Notice, Refusal, RefusalCode, Stage
from placet.schemas.verdict import Verdict
from placet_design import payloads
from placet_design.actions.normalize import (
    PayloadFault,
    normalize_change,
    normalize_set,
    unchanged,
)
from placet_design.actions.plans import action_of, payload_of
from placet_design.actions.protocol import (
    Action,
    ActionPlan,
    ActionResult,
    Adjustment,
    Rejection,
    StalePlanError,
    stale_message,
)
from placet_design.refinable_fields import RefinableField
from placet_design.settings import DesignSettings

STALE_PLAN: Final = "design.stale_plan"
PLAN_REUSED: Final = "design.plan_id_reused"
_VALUES: Final = frozenset({"set", "increase", "decrease"})


class ExecutionResult:
    """The answer to a plan: executed as a whole, or rejected without effect.

    Every property but `success` is computed on first access.

    Attributes:
        plan: The plan.
        verdict: The gate's verdict on the plan.
    """

    def __init__(
        self,
        plan: ActionPlan,
        verdict: Verdict,
        settings: DesignSettings,
        before: Mapping[str, Json],
        replayed: tuple[int, tuple[str, ...]] | None = None,
        heads: int = 1,
    ) -> None:
        self.plan = plan
        self.verdict = verdict
        self._settings = settings
        self._before = before
        self._replayed = replayed
        self._heads = heads

    @property
    def success(self) -> bool:
        """Return whether the plan was executed."""
        return self.verdict.admitted

    @property
    def plan_id(self) -> str:
        """The plan's id."""
        return self.plan.plan_id

    @property
    def actions_executed(self) -> int:
        """Number of executed actions: all or none."""
        return len(self.plan.actions) if self.verdict.admitted else 0

    @property
    def design_version_before(self) -> int:
        """The version that the plan was based on."""
        return self.plan.design_version_before

    @cached_property
    def design_version_after(self) -> int:
        """The design version after the plan; the version before it if nothing changed."""
        if self._replayed is not None:
            return self._replayed[0]
        for notice in self._verdict_notices:
            if notice.code == payloads.VERSION_NOTICE:
                return int(notice.message.rpartition(" ")[2])
        return self.plan.design_version_before

    @cached_property
    def warnings(self) -> list[str]:
        """Warnings of the actions, as text."""
        if self._replayed is not None:
            return list(self._replayed[1])
        return [n.message for n in self._verdict_notices if n.code != payloads.VERSION_NOTICE]

    @cached_property
    def rejections(self) -> list[Rejection]:
        """Reason and code for each rejected action."""
        return list(rejections_of(self.plan, self.verdict, self._settings, self._heads))

    @property
    def errors(self) -> list[str]:
        """The reasons of the rejections."""
        return [rejection.reason for rejection in self.rejections]

    @cached_property
    def action_results(self) -> list[ActionResult]:
        """Result of each action, in order.

        `before` and `after` are unknown in the verdict of a duplicate.
        """
        if not self.verdict.admitted or self._replayed is not None:
            return [ActionResult(action, self.success) for action in self.plan.actions]
        return [
            ActionResult(action, True, before, after, tuple([w.message for w in adjustments]))
            for action, before, after, adjustments in self._traced
        ]

    @property
    def notices(self) -> list[Adjustment]:
        """The warnings as data; empty in a replayed answer."""
        if not self.verdict.admitted or self._replayed is not None:
            return []
        return [warning for *_, adjustments in self._traced for warning in adjustments]

    def as_dict(self) -> dict[str, Json]:
        """Return the body of a 200 response."""
        if self.success:
            return {
                "success": True,
                "plan_id": self.plan_id,
                "actions_executed": self.actions_executed,
                "design_version_before": self.design_version_before,
                "design_version_after": self.design_version_after,
                "warnings": self.warnings,
                "errors": [],
            }
        rejected = len(rejected_indexes(self.plan, self.rejections, self.verdict))
        return {
            "success": False,
            "plan_id": self.plan_id,
            "design_version": self.design_version_before,
            "approved_count": len(self.plan.actions) - rejected,
            "rejected_count": rejected,
            "rejections": [rejection.as_dict() for rejection in self.rejections],
            "warnings": [],
        }

    def diff(self) -> list[dict[str, Json]]:
        """List for each path the value before, the requested value and the value after."""
        changes: dict[str, dict[str, Json]] = {}
        for action, result in zip(self.plan.actions, self.action_results, strict=True):
            if action.path is None or str(action.action_type) not in _VALUES or not self.success:
                continue
            requested = action.value if action.amount is None else action.amount
            change = changes.setdefault(action.path, {"path": action.path, "before": result.before})
            change |= {"requested": requested, "unit": action.unit, "after": result.after}
        return list(changes.values())

    @cached_property
    def _traced(self) -> list[tuple[Action, Json, Json, list[Adjustment]]]:
        return list(trace(self.plan.actions, self._before, self._settings))

    @cached_property
    def _verdict_notices(self) -> list[Notice]:
        return [notice for result in self.verdict.results for notice in result.warnings]


def require_answer(plan: ActionPlan, verdict: Verdict, current: int) -> None:
    """Raise an error for a verdict that is neither success nor rejection of a plan.

    Raises:
        StalePlanError: The plan is based on another version.
        PlacetError: The gate refused the plan before the rules ran, or a plan with its id was
            applied on another version.
    """
    if is_stale(plan, verdict, current):
        version = version_met(verdict, current)
        message = stale_message(plan.design_version_before, version)
        raise StalePlanError(message, current_design_version=version)
    first = verdict.refusals[0] if verdict.refusals else None
    is_of_plan = first is not None and first.stage in {Stage.STRUCTURE, Stage.DOMAIN}
    if first is not None and (not is_of_plan or first.code == PLAN_REUSED):
        raise error_of(verdict)


def replayed_answer(tree: State, plan_id: str) -> tuple[int, tuple[str, ...]] | None:
    """Return the design version after an earlier plan, and its warnings; None if not stored."""
    for slot in tree.ids(payloads.PLANS):
        if tree.get(payloads.PLANS, slot, "plan") == plan_id:
            warnings = tree.get(payloads.PLANS, slot, "warnings", ())
            return tree.get(payloads.PLANS, slot, "version"), tuple(warnings)
    return None


def is_stale(plan: ActionPlan, verdict: Verdict, current: int) -> bool:
    """Return whether a plan was refused as stale, or is both malformed and stale.

    The gate checks the form of actions before the version. A planner needs the version first,
    because faults of the actions may no longer apply to the current design.
    """
    if any(refusal.code == STALE_PLAN for refusal in verdict.refusals):
        return True
    first = verdict.refusals[0] if verdict.refusals else None
    is_about_actions = first is not None and first.stage == Stage.STRUCTURE and bool(first.index)
    return is_about_actions and plan.design_version_before != current


def may_retry(kernel: Kernel, plan: ActionPlan, agent_id: str, verdict: Verdict) -> bool:
    """Return whether a plan with a known id may be tried on its version.

    It may if the first plan with this id was refused as stale. An applied plan stays applied.

    Args:
        kernel: The kernel, which remembers the verdict on the first plan.
        plan: The plan.
        agent_id: Agent that submits it.
        verdict: Verdict on the plan under the req_ids of the first.
    """
    if RefusalCode.REQ_ID_REUSED not in verdict.codes:
        return False
    first = kernel.verdict_of(agent_id, f"{plan.plan_id}:0")
    return first is not None and STALE_PLAN in first.codes


def version_met(verdict: Verdict, current: int) -> int:
    """Return the design's version at the time a plan was refused as stale.

    Args:
        verdict: The refusing verdict, whose details may name the version.
        current: The version to return if they do not.
    """
    met: int = verdict.refusals[0].details.get("current_design_version", current)
    return met


def trace(
    actions: Sequence[Action], before: Mapping[str, Json], settings: DesignSettings
) -> Iterator[tuple[Action, Json, Json, list[Adjustment]]]:
    """Recompute the effects of admitted actions, in order.

    Args:
        actions: The admitted actions.
        before: Path -> value before the plan.
        settings: Settings of the design.

    Yields:
        The normalized action, the parameter's value before and after it (None for an action that
        changes no value), and the warnings.
    """
    values = dict(before)
    for action in actions:
        kind, payload = payload_of(action)
        name, path = kind.removeprefix(payloads.PREFIX), action.path or ""
        here = values.get(path)
        if name not in _VALUES:
            yield action, None, None, []
            continue
        outcome = _normalize_action(settings.fields[path], payload, here, settings, name)
        assert not isinstance(outcome, PayloadFault), "an action that passed means something"
        adjustments = list(outcome.adjustments)
        if outcome.value == here:
            adjustments.append(unchanged(path, here))
        values[path] = outcome.value
        yield action_of(kind, outcome.payload), here, outcome.value, adjustments


def _normalize_action(
    field: RefinableField, payload: dict[str, Json], here: Json, settings: DesignSettings, name: str
) -> Json:
    if name == "set":
        return normalize_set(field, payload, settings.policy)
    sign = 1 if name == "increase" else -1
    return normalize_change(field, payload, here, settings.policy, sign)


def rejections_of(
    plan: ActionPlan, verdict: Verdict, settings: DesignSettings, heads: int = 1
) -> Iterator[Rejection]:
    """Yield the refusals of a verdict on a plan as rejections of its actions.

    Args:
        plan: The plan.
        verdict: The verdict.
        settings: Settings of the design.
        heads: Number of intents in the batch before the first action.
    """
    for refusal in verdict.refusals:
        index = None if refusal.index is None else refusal.index - heads
        action = None if index is None or index < 0 else plan.actions[index]
        code = refusal.code.removeprefix(payloads.PREFIX)
        reason, paths = refusal.message, refusal.details.get("paths") or [""]
        path = str(refusal.details.get("path") or paths[0])
        if action is not None:
            path = path or (action.path if isinstance(action.path, str) else "")
            fault = _fault(action, refusal, settings)
            if fault is not None:
                code, reason = fault.code, fault.message
        yield Rejection(path, reason, code, index if action is not None else None)


def _fault(action: Action, refusal: Refusal, settings: DesignSettings) -> PayloadFault | None:
    """Describe a malformed value (NaN, a list, None) if the field's type allows a description."""
    field = settings.fields.get(action.path) if isinstance(action.path, str) else None
    name = str(action.action_type)
    is_about_value = refusal.at.endswith(("/value", "/amount"))
    is_unit_sound = action.unit is None or isinstance(action.unit, str)
    if field is None or name not in _VALUES or refusal.stage != Stage.STRUCTURE:
        return None
    if not (is_about_value and is_unit_sound):
        return None
    payload: dict[str, Json] = {"path": field.path, "unit": action.unit}
    payload |= {"value": action.value, "amount": action.amount}
    outcome = _normalize_action(field, payload, 0.0, settings, name)
    return outcome if isinstance(outcome, PayloadFault) else None


def rejected_indexes(
    plan: ActionPlan, rejections: Sequence[Rejection], verdict: Verdict
) -> set[int]:
    """Return the indexes of rejected actions.

    A violated invariant counts for all that touch its paths.
    """
    indexes = {r.index for r in rejections if r.index is not None}
    for refusal in verdict.refusals:
        if refusal.index is None:
            paths = refusal.details.get("paths")
            indexes |= {n for n, a in enumerate(plan.actions) if paths is None or a.path in paths}
    return indexes
