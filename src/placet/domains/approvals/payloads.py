"""Payloads, collections and limits of the domain `approvals`."""

from typing import Annotated, Final, Literal, NotRequired

from pydantic import Field, JsonValue
from typing_extensions import TypedDict

from placet.kernel.plugin.domain import Risk

PLANS: Final = "approvals.plans"
"""Collection of the latest request of each plan: digest of its intents -> request."""

SLOTS: Final = "approvals.slots"
"""Collection of the places of the kept requests; the oldest place is used again."""

COUNTS: Final = "approvals.counts"

Name = Annotated[str, Field(min_length=1, max_length=128)]
Role = Annotated[str, Field(max_length=64)]
Digest = Annotated[str, Field(max_length=64)]
Reason = Annotated[str, Field(max_length=2_000)]
Code = Annotated[str, Field(max_length=256)]


class RequestedIntent(TypedDict):
    """One intent of a request, in the form of the approving batch.

    `key` is the part of its req_id before the last slash.
    """

    agent: Name
    key: Name
    kind: Name
    payload: dict[str, JsonValue]
    expect: NotRequired[Annotated[list[dict[str, JsonValue]], Field(max_length=16)]]
    valid_until: NotRequired[float]


class RequestPayload(TypedDict):
    """Payload of `approvals.ask`: intents that wait for a person's decision.

    `agent` requests the approval, and at least one intent is of `agent`. Intents of other agents
    are records of the requesting program. Two requests are of one plan if their intents of `agent`
    are equal. `role` is the role that the person must have; if it is empty, any person may decide.
    `about` has facts for the person, and `risk` is the greatest risk of the intents. `seconds` is
    the simulated time for which the request is open.

    `foreseen` (a digest) and `undecided` (paths) describe the changes that the person is shown; see
    `placet.schemas.foreseen`. Changes of the collections `unshown`, which hold the records of the
    requesting domain, are left out. `shown` has these changes as a person reads them, all of them:
    a request with more is refused. `requested` is its simulated time.
    """

    id: Name
    agent: Name
    intents: Annotated[list[RequestedIntent], Field(min_length=1, max_length=510)]
    about: dict[str, JsonValue]
    risk: Risk
    foreseen: Digest
    undecided: list[list[list[JsonValue]]]
    unshown: Annotated[list[Name], Field(max_length=64)]
    shown: Annotated[list[list[JsonValue]], Field(max_length=4_096)]
    role: Role
    seconds: Annotated[float, Field(gt=0, le=10_000_000)]
    requested: NotRequired[float]


class PreviewPayload(TypedDict):
    """Payload of `approvals.preview`: a dry run permits the intents of a request, without a person.

    The batch draws the same random numbers as the batch that approves the request.
    """

    id: Name


class DecidePayload(TypedDict):
    """Payload of `approvals.decide`: a decision about the request `id` with the digest `digest`.

    An `approve` is the first intent of a batch, and the intents of the request follow. The program
    that submits decisions records `expire` and `stale`; no person makes them. `codes` are those of
    the refusals that made a request `stale`.
    """

    id: Name
    decision: Literal["approve", "deny", "expire", "stale"]
    by: Name
    role: Role
    digest: Digest
    reason: Reason
    codes: NotRequired[Annotated[list[Code], Field(min_length=1, max_length=16)]]


class SettleEffectPayload(TypedDict):
    """Payload of `approvals.settle`: the outcome of an effect in doubt, as a person found it.

    It is recorded before the settlement of the effect, which has no place for a name; a record that
    no settlement of its effect follows is void. `call` is the key of a call of a tool; `agent` is
    the agent of the effect, which does not settle it itself.
    """

    effect: Name
    kind: Name
    call: Annotated[str, Field(max_length=128)]
    agent: Name
    outcome: Literal["done", "failed"]
    by: Name
    reason: Reason


class AmendPayload(TypedDict):
    """Payload of `approvals.amend`: a person approves other intents in the place of a request.

    It ends the request `id` with the digest `digest`; `request` is the new request. It is the first
    intent of a batch, and the intents of the new request follow.
    """

    id: Name
    by: Name
    role: Role
    digest: Digest
    reason: Reason
    request: RequestPayload
