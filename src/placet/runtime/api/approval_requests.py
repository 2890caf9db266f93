"""Requests for approval as an inbox reads and writes them: pure functions of its values."""

from collections.abc import Mapping, Sequence
from typing import Final

from placet.kernel.plugin.approved import COLLECTIONS, NOT_FORESEEN, key_of
from placet.schemas.approval import Approval, HeldIntent
from placet.schemas.codec import Json, thaw
from placet.schemas.foreseen import UNDECIDED, FieldChange, Foreseen
from placet.schemas.intent import Intent, new_intent
from placet.schemas.refusal import RefusalCode, Stage
from placet.schemas.verdict import Verdict

_SHOWN_MAX: Final = 512

UNFORESEEN: Final[Mapping[str, Json]] = {
    "risk": "high",
    "foreseen": "",
    "undecided": [[], []],
    "shown": [],
}
"""The fields of a request that its dry run finds."""

_TEMPORARY: Final = frozenset(
    {
        RefusalCode.STALE_CONTEXT,
        RefusalCode.LEASED,
        RefusalCode.BUDGET_EXCEEDED,
        RefusalCode.TOOL_UNREGISTERED,
    }
)
"""Refusals of the stages staleness and domain that a later decision may not meet."""


def approval_of(request: str, fields: Mapping[str, Json], now: float) -> Approval:
    """Return a request by its fields in the state; one whose time is over is `expired`.

    Args:
        request: Id of the request.
        fields: Its fields.
        now: Simulated time, seconds.
    """
    is_over = fields["state"] == "open" and fields["expires"] < now
    names = ("number", "agent", "risk", "role", "expires", "digest", "by", "reason", "decided")
    return Approval(
        id=request,
        intents=tuple(fields["intents"]),
        changes=tuple(map(tuple, fields["shown"])),
        state="expired" if is_over else fields["state"],
        **{name: fields[name] for name in (*names, "about", "amends", "amended_by")},
    )


def held_of(intent: Intent) -> HeldIntent:
    """Return an intent as a request keeps it."""
    held: HeldIntent = {
        "agent": intent["agent_id"],
        "key": key_of(intent["req_id"]),
        "kind": intent["kind"],
        "payload": thaw(intent["payload"]),
    }
    if intent.get("expect"):
        held["expect"] = thaw(intent["expect"])
    if intent.get("valid_until") is not None:
        held["valid_until"] = intent["valid_until"]
    return held


def intent_of(held: HeldIntent, req_id: str, seq: int) -> Intent:
    """Return the intent of one submission of a held intent."""
    intent = new_intent(held["kind"], held["payload"], held["agent"], req_id, seq)
    if "expect" in held:
        intent["expect"] = held["expect"]
    if "valid_until" in held:
        intent["valid_until"] = held["valid_until"]
    return intent


def outside_of(unshown: Sequence[str], foreseen: Foreseen) -> Foreseen:
    """Return the foreseen changes without those of requests and of the asking domain's records."""
    own = {*COLLECTIONS, *unshown}
    changes = [change for change in foreseen.changes if change.collection not in own]
    return foreseen._replace(changes=tuple(changes))


def shown_of(changes: Sequence[FieldChange]) -> list[list[Json]]:
    """Return changes as a request keeps them to be shown."""
    return [
        [one.collection, UNDECIDED if one.entity is None else one.entity, *one[2:]]
        for one in changes[:_SHOWN_MAX]
    ]


def ends_request(verdict: Verdict) -> bool:
    """Return whether the refusal of an approving batch ends its request.

    It does if the decision itself is in order, and a rule of the intents, the changes of the batch
    or a condition is not. A quota, a full queue or a lease leaves the request open.
    """
    is_of_decision = any(
        one.code.startswith("approvals.") and one.code != NOT_FORESEEN for one in verdict.refusals
    )
    if is_of_decision or any(one.code in _TEMPORARY for one in verdict.refusals):
        return False
    return any(one.stage in {Stage.DOMAIN, Stage.STALENESS} for one in verdict.refusals)
