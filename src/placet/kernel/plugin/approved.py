"""Checks for the rule of a kind whether a person has approved exactly this intent.

A rule that needs approval returns the refusal `approval_required` unless `is_approved`. The domain
`approvals` (`placet.domains.approvals`) keeps the requests and the decisions. An approved request
permits its intents in the batch of its decision and in no other batch.

An intent is known by its key, which is the same in every submission: of a req_id `<key>/<suffix>`
it is the part before the last slash.
"""

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from placet.schemas.codec import Json, canonical
from placet.schemas.intent import Intent

if TYPE_CHECKING:
    from placet.kernel.state.draft import Draft

REQUESTS: Final = "approvals.requests"
"""Collection of the requests for approval, by id."""

INTENTS: Final = "approvals.intents"
"""Collection of the intents of all requests: the key of an intent -> its request and digest."""

COLLECTIONS: Final = (
    "approvals.counts",
    INTENTS,
    "approvals.plans",
    REQUESTS,
    "approvals.slots",
)
"""All collections of the domain `approvals`."""

RECORDER: Final = "approvals.recorder"
"""Id of the agent that submits the kinds of the domain; any other agent is refused them."""

APPROVAL_REQUIRED: Final = "approval_required"
"""Code, without the prefix of its domain, of a rule that needs an approval."""

ASK: Final = "approvals.ask"
PREVIEW: Final = "approvals.preview"
DECIDE: Final = "approvals.decide"
AMEND: Final = "approvals.amend"
SETTLE: Final = "approvals.settle"

KINDS: Final = frozenset({ASK, PREVIEW, DECIDE, AMEND, SETTLE})
"""The kinds of the domain. No agent but the recorder is permitted them."""

NOT_FORESEEN: Final = "approvals.not_foreseen"
"""Code of the refusal of an approved batch whose changes or effects differ from the shown ones."""

APPROVING: Final = "approving"
"""State of a request in the batch of its decision, after which it is `approved`."""


def key_of(req_id: str) -> str:
    """Return the key of an intent by its req_id; the whole req_id if it has no slash."""
    return req_id.rpartition("/")[0] or req_id


def digest_of(kind: str, payload: Json, agent_id: str) -> str:
    """Return the digest of the kind, payload and agent of an intent, hexadecimal."""
    return blake2b(canonical([kind, payload, agent_id]), digest_size=16).hexdigest()


def is_approved(draft: "Draft", intent: Intent, *, role: str | None = None) -> bool:
    """Return whether the batch decides a request for approval of exactly this intent.

    It compares agent, kind and validated payload. Always false in a world without the domain
    `approvals`.

    Args:
        draft: The draft of the batch.
        intent: The intent, as the rule of its kind receives it.
        role: Role that the person must have; None for any.
    """
    asked = draft.entity(INTENTS, key_of(intent["req_id"]))
    if asked is None or draft.get(REQUESTS, asked["request"], "state") != APPROVING:
        return False
    if role not in {None, draft.get(REQUESTS, asked["request"], "role")}:
        return False
    content = digest_of(intent["kind"], intent["payload"], intent["agent_id"])
    return bool(asked["digest"] == content)
