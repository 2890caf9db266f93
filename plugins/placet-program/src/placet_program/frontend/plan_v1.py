"""Seed 001's planner envelope, as a plan.

{"version": "1", "goal": "...", "actions": [{"type": "verify", "payload": {}}], "notes": "..."}
{"version": "1", "goal": "...", "stop_reason": {"code": "unsafe_goal", "message": "..."}}

Bare names of actions belong to the domain `program`. An envelope has no `base_seq`; it is that of
the planner's view. An envelope that cannot be translated is left unchanged, for the parser to
refuse.
"""

from collections.abc import Callable, Mapping
from inspect import isawaitable
from typing import Final

from placet.agents.proposal.adapter import PlannerInput, PlannerOutput
from placet.agents.proposal.catalogue import Vocabulary
from placet.agents.proposal.codes import TABLE, Code, facts_of
from placet.agents.proposal.limits import AgentLimits
from placet.agents.proposal.plan import VERSION, Issue, Plan
from placet.agents.proposal.plan_parser import parse
from placet.agents.proposal.turn_result import Turn
from placet.schemas.codec import Json, from_json

VERSIONS: Final = ("1", "1.0", "v1")
"""Names of the version that an envelope may have."""

_LIMITS: Final = AgentLimits()
_STOPS: Final = frozenset({"clarification_needed", "unsupported_goal", "unsafe_goal"})


def read(
    text: object,
    *,
    base_seq: int,
    domain: Vocabulary,
    limits: AgentLimits = _LIMITS,
    actions_max: int | None = None,
) -> tuple[Plan | None, list[Issue]]:
    """Parse an envelope of the planner contract, version 1, into a plan.

    Args:
        text: The envelope, as JSON text or as the parsed value.
        base_seq: Sequence number of the world that the planner was shown.
        domain: Domain whose kinds may be proposed.
        limits: Limits of sizes and counts.
        actions_max: A stricter limit of the number of actions; None for none.

    Returns:
        The plan and no issues, or None and at least one; issues point into the plan.
    """
    return parse(
        translated(text, base_seq, limits), domain=domain, limits=limits, actions_max=actions_max
    )


def translated(text: object, base_seq: int, limits: AgentLimits = _LIMITS) -> object:
    """Return an envelope as a plan in this package's form.

    Any other value is returned unchanged.
    """
    value = text
    if isinstance(text, str | bytes) and len(text) <= limits.plan_bytes_max:
        try:
            value = from_json(text)
        except ValueError:
            return text
    if not isinstance(value, Mapping) or value.get("version") not in VERSIONS:
        return value if isinstance(value, Mapping) else text
    plan = {**value, "version": VERSION, "base_seq": base_seq}
    stop = plan.pop("stop_reason", None)
    if stop is not None:
        plan["stop"] = _stop(stop)
    if plan.get("notes") is None:
        plan.pop("notes", None)
    actions = plan.get("actions")
    if isinstance(actions, list | tuple):
        plan["actions"] = [_action(action) for action in actions]
    return plan


def failure_of(turn: Turn) -> dict[str, str] | None:
    """Return the failure of a turn for a caller of the planner contract; None if there is a plan.

    A turn with words and without actions is the failure `said`.
    """
    if turn.outcome in {"applied", "held"}:
        return None
    text = TABLE[Code.SAID].text if turn.outcome == "said" else turn.message
    return {"code": turn.stop, "message": text or facts_of(turn.stop).text}


class PlanV1:
    """An adapter for a planner that answers with envelopes of the planner contract, version 1.

    Args:
        planner: Plain or async function of the context; returns an envelope as text or object.
    """

    is_priced = True

    def __init__(self, planner: Callable[[PlannerInput], object]) -> None:
        self._planner = planner

    async def propose(self, context: PlannerInput) -> PlannerOutput:
        """Call the planner, and return its answer.

        Raises:
            Exception: Whatever the planner raises.
        """
        answer = self._planner(context)
        envelope: Json = await answer if isawaitable(answer) else answer
        return PlannerOutput(plan=translated(envelope, context.base_seq))


def _action(action: object) -> object:
    """Return an action its kind: `type` is the envelope's word for it."""
    if not isinstance(action, Mapping):
        return action
    fields = dict(action)
    if "type" in fields and "kind" not in fields:
        fields["kind"] = fields.pop("type")
    kind = fields.get("kind")
    if isinstance(kind, str) and "." not in kind:
        fields["kind"] = f"program.{kind}"
    return fields


def _stop(reason: object) -> object:
    """Return a reason to stop its code, where it is one, or a sentence."""
    if not isinstance(reason, str):
        return reason
    if reason in _STOPS:
        return {"code": reason, "message": TABLE[Code(reason)].text}
    return {"code": "unsupported_goal", "message": reason[:500]}
