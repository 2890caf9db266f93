"""Why a proposal or a turn ended as it did: one table.

The gate's codes (`RefusalCode`) and a domain's (`<domain>.<code>`) pass unchanged; the codes here
belong to the layer around the gate. Whether a proposer may repair its plan within the turn derives
from the code alone, never from the message.
"""

from enum import StrEnum
from typing import Final, Literal, NamedTuple

from placet.kernel.gate import STATUS_OF
from placet.schemas.refusal import STAGE_OF, RefusalCode
from placet.schemas.refusal import Stage as GateStage

StageName = Literal["contract", "registry", "gate", "domain", "effect", "planner", "turn"]


class Code(StrEnum):
    """The codes of faults and outcomes in the agent layer."""

    JSON_INVALID = "json_invalid"
    ENVELOPE_INVALID = "envelope_invalid"
    VERSION_UNSUPPORTED = "version_unsupported"
    GOAL_EMPTY = "goal_empty"
    ACTIONS_MISSING = "actions_missing"
    ACTIONS_TOO_MANY = "actions_too_many"
    STOP_CONFLICT = "stop_conflict"
    PLAN_TOO_LARGE = "plan_too_large"
    ACTION_ID_DUPLICATE = "action_id_duplicate"

    KIND_UNKNOWN = "kind_unknown"
    TOOL_UNREGISTERED = "tool_unregistered"
    PAYLOAD_MISSING = "payload_missing"
    PAYLOAD_INVALID = "payload_invalid"
    PAYLOAD_TOO_LARGE = "payload_too_large"

    CONFIRMATION_REQUIRED = "confirmation_required"
    APPROVAL_REQUIRED = "approval_required"
    DENIED = "denied"
    POLICY_DENIED = "policy_denied"
    POLICY_ERROR = "policy_error"
    BUDGET_EXCEEDED = "budget_exceeded"

    EFFECT_FAILED = "effect_failed"
    EFFECT_TIMEOUT = "effect_timeout"
    EFFECT_IN_DOUBT = "effect_in_doubt"

    PLANNER_UNCONFIGURED = "planner_unconfigured"
    PLANNER_UNAVAILABLE = "planner_unavailable"
    PLANNER_REFUSED = "planner_refused"
    CLARIFICATION_NEEDED = "clarification_needed"
    UNSUPPORTED_GOAL = "unsupported_goal"
    UNSAFE_GOAL = "unsafe_goal"

    COMPLETED = "completed"
    SAID = "said"
    REPAIR_EXHAUSTED = "repair_exhausted"
    REPAIR_NO_PROGRESS = "repair_no_progress"
    ATTEMPTS_EXHAUSTED = "attempts_exhausted"
    TOKENS_EXHAUSTED = "tokens_exhausted"
    COST_EXHAUSTED = "cost_exhausted"
    COST_UNKNOWN = "cost_unknown"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    OPERATOR_STOPPED = "operator_stopped"
    CONTEXT_TOO_LARGE = "context_too_large"
    INTERNAL = "internal"


class CodeFacts(NamedTuple):
    """The properties of a code.

    Attributes:
        stage: Part of the agent layer that reports the code.
        is_repairable: Another proposal in the same turn may succeed.
        http: HTTP status of a response with the code.
        text: One sentence for the user.
    """

    stage: StageName
    is_repairable: bool
    http: int
    text: str


def _contract(text: str) -> CodeFacts:
    return CodeFacts("contract", True, 422, text)


def _planner(http: int, text: str) -> CodeFacts:
    return CodeFacts("planner", False, http, text)


def _turn(http: int, text: str) -> CodeFacts:
    return CodeFacts("turn", False, http, text)


TABLE: Final[dict[Code, CodeFacts]] = {
    Code.JSON_INVALID: _contract("The plan was no valid JSON."),
    Code.ENVELOPE_INVALID: _contract("The plan did not have the form of a plan."),
    Code.VERSION_UNSUPPORTED: _contract("The plan named a version that is not spoken here."),
    Code.GOAL_EMPTY: _contract("The plan named no goal."),
    Code.ACTIONS_MISSING: _contract("The plan had neither actions nor a reason to stop."),
    Code.ACTIONS_TOO_MANY: _contract("The plan had more actions than are allowed."),
    Code.STOP_CONFLICT: _contract("The plan both acted and stopped."),
    Code.PLAN_TOO_LARGE: _contract("The plan was too large."),
    Code.ACTION_ID_DUPLICATE: _contract("Two actions of the plan had the same id."),
    Code.KIND_UNKNOWN: CodeFacts(
        "registry", True, 404, "The plan used an action that is not there."
    ),
    Code.TOOL_UNREGISTERED: CodeFacts(
        "registry", False, 424, "A tool that is needed is not there."
    ),
    Code.PAYLOAD_MISSING: CodeFacts("registry", True, 422, "A required value was missing."),
    Code.PAYLOAD_INVALID: CodeFacts("registry", True, 422, "A value was not of the right form."),
    Code.PAYLOAD_TOO_LARGE: CodeFacts("registry", True, 413, "A value was too large."),
    Code.CONFIRMATION_REQUIRED: CodeFacts("gate", False, 202, "This waits for your confirmation."),
    Code.APPROVAL_REQUIRED: CodeFacts("gate", False, 202, "This waits for an approval."),
    Code.DENIED: CodeFacts("gate", False, 403, "This was not approved."),
    Code.POLICY_DENIED: CodeFacts(
        "gate", False, 403, "The policy of this world does not allow it."
    ),
    Code.POLICY_ERROR: CodeFacts("gate", False, 500, "The policy failed, so nothing was allowed."),
    Code.BUDGET_EXCEEDED: CodeFacts("gate", False, 429, "The budget for today is used up."),
    Code.EFFECT_FAILED: CodeFacts("effect", True, 502, "The work outside failed."),
    Code.EFFECT_TIMEOUT: CodeFacts("effect", False, 504, "The work outside is not done yet."),
    Code.EFFECT_IN_DOUBT: CodeFacts("effect", False, 502, "Nobody knows if the work was done."),
    Code.PLANNER_UNCONFIGURED: _planner(501, "No planner is configured for this agent."),
    Code.PLANNER_UNAVAILABLE: _planner(503, "The planner could not be reached."),
    Code.PLANNER_REFUSED: _planner(422, "The planner refused to answer."),
    Code.CLARIFICATION_NEEDED: _planner(200, "The planner asks something back."),
    Code.UNSUPPORTED_GOAL: _planner(422, "The planner cannot reach this goal here."),
    Code.UNSAFE_GOAL: _planner(422, "The planner holds this goal to be unsafe."),
    Code.COMPLETED: _turn(200, "Done."),
    Code.SAID: _turn(200, "The planner answered in words and proposed nothing."),
    Code.REPAIR_EXHAUSTED: _turn(422, "The planner did not manage to make a valid plan."),
    Code.REPAIR_NO_PROGRESS: _turn(422, "The planner repeated the same invalid plan."),
    Code.ATTEMPTS_EXHAUSTED: _turn(409, "Every plan was refused; nothing was changed."),
    Code.TOKENS_EXHAUSTED: _turn(429, "The budget of tokens for this turn is used up."),
    Code.COST_EXHAUSTED: _turn(429, "The budget of money for this turn is used up."),
    Code.COST_UNKNOWN: _turn(
        422,
        "The price of this model is not known, and a limit in money is set: pass its prices "
        "(prices=, --price), set no limit in money (cost_usd_max=None, --max-usd none), or count "
        "tokens alone (on_unknown_price='tokens_only').",
    ),
    Code.DEADLINE_EXCEEDED: _turn(
        504,
        "The turn took longer than it may: raise its limit (--max-seconds, max_seconds, in Python "
        "seconds_max).",
    ),
    Code.OPERATOR_STOPPED: _turn(409, "An operator stopped the turn."),
    Code.CONTEXT_TOO_LARGE: _turn(413, "The context of the planner is larger than its limit."),
    Code.INTERNAL: _turn(500, "Something failed inside; nothing was changed."),
}

_REPAIRABLE_AT_GATE: Final = frozenset(
    {
        RefusalCode.STALE_CONTEXT,
        RefusalCode.CONDITION_FAILED,
        RefusalCode.CONTEXT_TOO_OLD,
        RefusalCode.CONTEXT_FROM_FUTURE,
        RefusalCode.CONFLICT,
        RefusalCode.LEASED,
        RefusalCode.LEASE_UNKNOWN,
        RefusalCode.LEASE_REFUSED,
        RefusalCode.INVARIANT_VIOLATED,
        RefusalCode.BATCH_TOO_LARGE,
        RefusalCode.WORK_EXCEEDED,
    }
)


def facts_of(code: str) -> CodeFacts:
    """Return the properties of a code of the agent layer, of the gate, or of a domain."""
    if code in Code.__members__.values():
        return TABLE[Code(code)]
    if code.startswith(("session.", "approvals.")):  # a record that the proposer cannot repair
        return CodeFacts("gate", False, 409, "The session cannot record it.")
    if "." in code:
        return CodeFacts("domain", True, 422, "The rules of this world do not allow it.")
    try:
        known = RefusalCode(code)
    except ValueError:
        return TABLE[Code.INTERNAL]
    stage = STAGE_OF[known]
    is_repairable = known in _REPAIRABLE_AT_GATE or stage is GateStage.STRUCTURE
    return CodeFacts("gate", is_repairable, STATUS_OF[known], "The gate refused it.")
