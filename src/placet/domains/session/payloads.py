"""Payloads, collections and limits of the session domain."""

from typing import Annotated, Final, Literal, NotRequired

from pydantic import Field, JsonValue
from typing_extensions import TypedDict

SESSIONS: Final = "session.sessions"
TURNS: Final = "session.turns"
GRANTS: Final = "session.grants"
COLLECTIONS: Final = frozenset({SESSIONS, TURNS, GRANTS})
"""The collections of the domain: a plan changes none of them."""

RECORDER: Final = "session.recorder"
"""Id of the agent that submits the session kinds. The rules refuse them from any other agent, so
an agent that is permitted every kind cannot make a grant."""

PROPOSE: Final = "session.propose"
"""Kind of the effect that calls a proposer. A recorded answer is never requested again."""

SESSION_CHARS_MAX: Final = 64
"""Ids of grants start with the session name; this leaves them room."""

APPROVALS_MAX: Final = 64
"""Maximum number of requests of a session whose end no turn has recorded; the latest are kept."""

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
    """Payload of `session.end`: the end of a turn, with its outcome and results.

    `approval_id` is the approval request of the plan that the turn held. `ended` has the ids of
    requests of the session that were decided or expired, and whose end this turn records.
    """

    session: SessionName
    turn: Count
    outcome: Name
    stop: Name
    text: Text
    results: Annotated[list[dict[str, JsonValue]], Field(max_length=64)]
    approval_id: NotRequired[Annotated[str, Field(max_length=128)]]
    ended: NotRequired[Annotated[list[Name], Field(max_length=APPROVALS_MAX)]]


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
        "session.grant",
        "session.use",
        "session.guard",
    }
)
"""The kinds of the domain. No agent but the recorder is permitted them."""
