"""Payloads, collections and limits of the session domain."""

from typing import Annotated, Final, Literal, NotRequired

from pydantic import Field, JsonValue
from typing_extensions import TypedDict

SESSIONS: Final = "session.sessions"
TURNS: Final = "session.turns"
APPROVALS: Final = "session.approvals"
GRANTS: Final = "session.grants"

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
    """A turn begins."""

    session: SessionName
    turn: Count
    agent: Name
    mode: Name
    route: Literal["command", "agent", "person"]
    message: Text


class AskPayload(TypedDict):
    """A proposer is asked. `digest` covers the context that it receives."""

    session: SessionName
    turn: Count
    attempt: Count
    adapter: Name
    digest: Annotated[str, Field(max_length=64)]


class EndPayload(TypedDict):
    """A turn ends."""

    session: SessionName
    turn: Count
    outcome: Name
    stop: Name
    text: Text
    results: Annotated[list[dict[str, JsonValue]], Field(max_length=64)]
    approval_id: NotRequired[Annotated[str, Field(max_length=128)]]


class ApprovalPayload(TypedDict):
    """A plan waits for a person.

    `digest` covers the actions, the proposer, and the seq at which they were judged; `foreseen`
    covers the changes that they would have made then.
    """

    approval_id: Name
    session: SessionName
    proposer: Name
    goal: Annotated[str, Field(max_length=2_000)]
    base_seq: Count
    actions: Annotated[list[dict[str, JsonValue]], Field(min_length=1, max_length=512)]
    needs: Literal["confirm", "approve"]
    foreseen: Annotated[str, Field(max_length=64)]
    role: Annotated[str, Field(max_length=ROLE_CHARS_MAX)]
    digest: Annotated[str, Field(min_length=16, max_length=64)]
    seconds: Annotated[float, Field(gt=0, le=10_000_000)]


class ResolvePayload(TypedDict):
    """A person decides about an approval request. No field can change the stored plan."""

    approval_id: Name
    decision: Literal["approve", "deny", "edit", "stale"]
    by: Name
    role: Annotated[str, Field(max_length=ROLE_CHARS_MAX)]
    digest: Annotated[str, Field(max_length=64)]


class GrantPayload(TypedDict):
    """A person permits kinds in advance, for a number of uses and of simulated seconds."""

    grant: Name
    proposer: Name
    kinds: Annotated[str, Field(min_length=1, max_length=128)]
    equals: dict[str, JsonValue]
    uses: Annotated[int, Field(ge=1, le=1_000_000)]
    seconds: Annotated[float, Field(gt=0, le=1e9)]
    by: Name


class GuardPayload(TypedDict):
    """Refuse the batch unless the world is at this seq."""

    seq: Count


class UsePayload(TypedDict):
    """A batch uses a grant `uses` times."""

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
    }
)
"""The kinds of the domain. No agent but the recorder is permitted them."""
