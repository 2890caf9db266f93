"""Payloads, collections and limits of the session domain."""

from typing import Annotated, Final, Literal, NotRequired

from pydantic import Field, JsonValue
from typing_extensions import TypedDict

SESSIONS: Final = "session.sessions"
TURNS: Final = "session.turns"
APPROVALS: Final = "session.approvals"
GRANTS: Final = "session.grants"
COLLECTIONS: Final = frozenset({SESSIONS, TURNS, APPROVALS, GRANTS})
"""The collections of the domain: a plan changes none of them."""

PLAN_CHANGED: Final = "plan_changed"
"""Code of the refusal of an approved plan that would not do what was shown."""

RECORDER: Final = "session.recorder"
"""Id of the agent that submits the session kinds. The rules refuse them from any other agent, so
an agent that is permitted every kind can make neither a grant nor an approval."""

PROPOSE: Final = "session.propose"
"""Kind of the effect that calls a proposer. A recorded answer is never requested again."""

SESSION_CHARS_MAX: Final = 64
"""Ids of approval requests and grants start with the session name; this leaves them room."""

ROLE_CHARS_MAX: Final = 64

Name = Annotated[str, Field(min_length=1, max_length=128)]
SessionName = Annotated[str, Field(min_length=1, max_length=SESSION_CHARS_MAX)]
Text = Annotated[str, Field(max_length=32_000)]
Count = Annotated[int, Field(ge=0, le=2**53)]


class TurnPayload(TypedDict):
    """Payload of `session.turn`: the beginning of a turn, and the message that it answers."""

    session: SessionName
    turn: Count
    agent: Name
    mode: Name
    route: Literal["command", "agent", "person"]
    message: Text


class AskPayload(TypedDict):
    """Payload of `session.ask`: a request to a proposer.

    `digest` covers the planner input, `request` the model, messages, tools and settings. The record
    of an older release has no `request`.
    """

    session: SessionName
    turn: Count
    attempt: Count
    adapter: Name
    digest: Annotated[str, Field(max_length=64)]
    request: NotRequired[Annotated[str, Field(max_length=64)]]


class EndPayload(TypedDict):
    """Payload of `session.end`: the end of a turn, with its outcome and results."""

    session: SessionName
    turn: Count
    outcome: Name
    stop: Name
    text: Text
    results: Annotated[list[dict[str, JsonValue]], Field(max_length=64)]
    approval_id: NotRequired[Annotated[str, Field(max_length=128)]]


class ApprovalPayload(TypedDict):
    """Payload of `session.request_approval`: a plan that waits for a person's decision.

    `digest` covers the actions, the proposer, and the seq at which they were judged. `foreseen` and
    `undecided` are of the changes that a person is shown (`placet.schemas.foreseen`). A request of
    an older release has no `undecided`: its draws are not pinned, and its changes not compared.
    """

    approval_id: Name
    session: SessionName
    proposer: Name
    goal: Annotated[str, Field(max_length=2_000)]
    base_seq: Count
    actions: Annotated[list[dict[str, JsonValue]], Field(min_length=1, max_length=512)]
    needs: Literal["confirm", "approve"]
    foreseen: Annotated[str, Field(max_length=64)]
    undecided: NotRequired[list[list[list[JsonValue]]]]
    role: Annotated[str, Field(max_length=ROLE_CHARS_MAX)]
    digest: Annotated[str, Field(min_length=16, max_length=64)]
    seconds: Annotated[float, Field(gt=0, le=10_000_000)]


class ResolvePayload(TypedDict):
    """Payload of `session.resolve`: a person's decision about an approval request.

    No field can change the stored plan.
    """

    approval_id: Name
    decision: Literal["approve", "deny", "edit", "stale"]
    by: Name
    role: Annotated[str, Field(max_length=ROLE_CHARS_MAX)]
    digest: Annotated[str, Field(max_length=64)]


class GrantPayload(TypedDict):
    """Payload of `session.grant`: a person's permission of kinds in advance.

    It is valid for a number of uses and of simulated seconds.
    """

    grant: Name
    proposer: Name
    kinds: Annotated[str, Field(min_length=1, max_length=128)]
    equals: dict[str, JsonValue]
    uses: Annotated[int, Field(ge=1, le=1_000_000)]
    seconds: Annotated[float, Field(gt=0, le=1e9)]
    by: Name


class GuardPayload(TypedDict):
    """Payload of `session.guard`, which refuses the batch unless the world is at this seq."""

    seq: Count


class PinPayload(TypedDict):
    """Payload of `session.pin_draws`, the first intent of the dry run of a plan to be approved.

    The plan draws the numbers that it draws when this approval request is approved.
    """

    approval_id: Name


class UsePayload(TypedDict):
    """Payload of `session.use`: the grant that a batch uses, and how many times."""

    grant: Name
    proposer: Name
    uses: Annotated[int, Field(ge=1, le=512)]


KINDS: Final = frozenset(
    {
        "session.turn",
        "session.ask",
        "session.end",
        "session.request_approval",
        "session.resolve",
        "session.grant",
        "session.use",
        "session.guard",
        "session.pin_draws",
    }
)
"""The kinds of the domain. No agent but the recorder is permitted them."""
