"""Fills in the values that a plan expects at its paths: those of the view it was decided on.

A proposer names paths and never values, so it cannot expect a value that it did not see.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from placet.agents.proposal.codes import Code
from placet.agents.proposal.plan import IF_UNCHANGED, Action, DecidedAction, Issue, Plan
from placet.schemas.codec import Json
from placet.schemas.condition import if_unchanged, path_text, steps_of
from placet.schemas.name_suggestions import nearest

State = Mapping[str, Mapping[str, Mapping[str, Json]]]
"""A view as plain JSON: `collection -> entity -> field -> value`."""

_SESSIONS: Final = "session."
"""Prefix of the collections that no proposer is shown."""


def with_expected(
    plan: Plan, state: State | None, seq: int, declared: Collection[str]
) -> tuple[Plan, list[Issue]]:
    """Return a plan whose actions have the values that its proposer saw at their paths.

    Args:
        plan: The plan.
        state: The view that its proposer was shown; None if it was shown none.
        seq: Seq of this view.
        declared: Collections that the domains of the world declare.

    Returns:
        The plan with its conditions and no issues; or the plan unchanged and at least one issue: no
        view was shown, `base_seq` is not `seq`, or a path starts with an unknown collection. A path
        without a value in the view is valid: the action expects that it stays absent.
    """
    named = [index for index, action in enumerate(plan.actions) if action.if_unchanged]
    if not named:
        return plan, []
    if state is None:
        message = f"{IF_UNCHANGED} needs a view to have the values of: look at it first"
        return plan, [_issue(message, f"/actions/{named[0]}/{IF_UNCHANGED}")]
    if plan.base_seq != seq:
        message = (
            f"{IF_UNCHANGED} has the values of the view of seq {seq} that you were shown, so "
            f"base_seq must be {seq}, got {plan.base_seq}"
        )
        return plan, [_issue(message, "/base_seq")]
    known = {*state, *(name for name in declared if not name.startswith(_SESSIONS))}
    issues = [
        _unknown(path, f"/actions/{index}/{IF_UNCHANGED}/{place}", state)
        for index in named
        for place, path in enumerate(plan.actions[index].if_unchanged)
        if steps_of(path)[0] not in known
    ]
    if issues:
        return plan, issues
    actions = tuple(_decided(action, state) for action in plan.actions)
    return plan.model_copy(update={"actions": actions}), []


def _decided(action: Action, state: State) -> Action:
    if not action.if_unchanged:
        return action
    expect = tuple(if_unchanged(state, action.if_unchanged))
    return DecidedAction.model_construct(**dict(action), expect=expect)


def _unknown(path: str, at: str, state: State) -> Issue:
    """Return the issue of a path that starts with no collection: it would expect nothing."""
    steps = steps_of(path)
    near = [path_text([name, *steps[1:]]) for name in nearest(steps[0], state)]
    near += _with_collection(steps, state)
    message = (
        f"{path!r} starts with no collection of the view; a path is collection/entity or "
        "collection/entity/field"
    )
    return _issue(message, at, near)


def _with_collection(steps: list[str], state: State) -> list[str]:
    """Return the paths of an entity that was named without its collection."""
    return [path_text([name, *steps]) for name in sorted(state) if steps[0] in state[name]]


def _issue(message: str, at: str, near: Iterable[str] = ()) -> Issue:
    return Issue(code=Code.ENVELOPE_INVALID, message=message, at=at, suggestions=tuple(near)[:3])
