"""Payloads, collections and limits of the domain `approvals`."""

from typing import Annotated, Final, Literal

from pydantic import Field, JsonValue
from typing_extensions import TypedDict

from placet.kernel.plugin.approved import INTENTS, REQUESTS

PLANS: Final = "approvals.plans"
"""Collection of the latest request of each plan: digest of agent and intents -> request."""

SLOTS: Final = "approvals.slots"
"""Collection of the places of the kept requests; the oldest place is used again."""

COUNTS: Final = "approvals.counts"
COLLECTIONS: Final = (COUNTS, INTENTS, PLANS, REQUESTS, SLOTS)

RECORDER: Final = "approvals.recorder"
"""Id of the agent that submits the kinds of this domain; they are refused from any other agent."""

ASK: Final = "approvals.ask"
PREVIEW: Final = "approvals.preview"
DECIDE: Final = "approvals.decide"

Name = Annotated[str, Field(min_length=1, max_length=128)]
Role = Annotated[str, Field(min_length=1, max_length=64)]


class RequestedIntent(TypedDict):
    """One intent of a request; its key is the part of its req_id before the last slash."""

    key: Name
    kind: Name
    payload: dict[str, JsonValue]


class RequestPayload(TypedDict):
    """Payload of `approvals.ask`: intents of an agent that wait for a person's decision.

    `foreseen` and `undecided` are of the changes that the person is shown
    (`placet.schemas.foreseen`), without those of the collections `unshown`, which hold the records
    of the asking domain itself. `shown` is the text of these changes.
    """

    id: Name
    agent: Name
    intents: Annotated[list[RequestedIntent], Field(min_length=1, max_length=512)]
    foreseen: Annotated[str, Field(max_length=64)]
    undecided: list[list[list[JsonValue]]]
    unshown: Annotated[list[Name], Field(max_length=64)]
    shown: Annotated[list[list[JsonValue]], Field(max_length=512)]
    role: Role
    seconds: Annotated[float, Field(gt=0, le=10_000_000)]


class PreviewPayload(TypedDict):
    """Payload of `approvals.preview`: a dry run permits the intents of a request, without a person.

    The batch draws the same random numbers as the batch that approves the request.
    """

    id: Name


class DecidePayload(TypedDict):
    """Payload of `approvals.decide`: a decision about a request, which it names by its digest.

    `approve` is the first intent of a batch, and the intents of the request follow. `expire` and
    `stale` are recorded by the program that asked.
    """

    id: Name
    decision: Literal["approve", "deny", "expire", "stale"]
    by: Name
    role: Role
    digest: Annotated[str, Field(max_length=64)]
    reason: Annotated[str, Field(max_length=2_000)]
