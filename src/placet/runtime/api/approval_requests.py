"""Pure functions of the inbox: from the fields of a request to `Approval`, and back."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Final

from placet.kernel.plugin.approved import COLLECTIONS, NOT_FORESEEN, key_of
from placet.kernel.plugin.registry import Registry
from placet.runtime.api.signatures import signature_of
from placet.schemas.approval import Approval, HeldIntent
from placet.schemas.codec import Json, canonical, thaw
from placet.schemas.foreseen import UNDECIDED, FieldChange, Foreseen
from placet.schemas.intent import Intent, new_intent
from placet.schemas.refusal import Refusal, RefusalCode, Stage
from placet.schemas.verdict import Verdict

UNFORESEEN: Final[Mapping[str, Json]] = {
    "risk": "high",
    "foreseen": "",
    "undecided": [[], []],
    "shown": [],
}
"""The fields of a request that the result of a dry run fills in."""

_TEMPORARY: Final = frozenset(
    {
        RefusalCode.STALE_CONTEXT,
        RefusalCode.LEASED,
        RefusalCode.BUDGET_EXCEEDED,
        RefusalCode.TOOL_UNREGISTERED,
    }
)
"""Codes of the stages staleness and domain that are temporary: a later decision may pass."""


def approval_of(
    request: str, fields: Mapping[str, Json], now: float, registry: Registry
) -> Approval:
    """Return a request by its fields in the state; an open one past its time is `expired`.

    Args:
        request: Id of the request.
        fields: Its fields.
        now: Simulated time, seconds.
        registry: The kinds of the world, in whose order a person reads the payloads.
    """
    intents: Sequence[HeldIntent] = fields["intents"]
    signatures = [signature_of(registry, one["kind"]) for one in intents]
    is_over = fields["state"] == "open" and fields["expires"] < now
    names = ("number", "agent", "risk", "role", "expires", "digest", "by", "reason", "decided")
    return Approval(
        id=request,
        intents=tuple(
            HeldIntent(**{**one, "payload": signature.ordered(one["payload"])})
            for one, signature in zip(intents, signatures, strict=True)
        ),
        changes=tuple(map(tuple, fields["shown"])),
        state="expired" if is_over else fields["state"],
        requested=fields.get("requested"),
        codes=tuple(fields.get("codes", ())),
        defaults=tuple(
            signature.defaults_of(one["payload"])
            for one, signature in zip(intents, signatures, strict=True)
            if one["agent"] == fields["agent"]
        ),
        is_outside=any(signature.is_outside for signature in signatures),
        **{name: fields[name] for name in (*names, "about", "amends", "amended_by")},
    )


def amendment_of(amended: Approval, payload: Mapping[str, Json], registry: Registry) -> Approval:
    """Return the request that an amendment would make, as a person is shown it.

    It is in no state and has no id. Its digest is that of its calls, changes and risk alone, so two
    dry runs of one amendment have one digest, though each has other keys.

    Args:
        amended: The request that is amended.
        payload: Payload of the new request, with the result of its dry run.
        registry: The kinds of the world.
    """
    fields = {
        **payload,
        "state": "open",
        "number": amended.number,
        "expires": amended.expires,
        "amends": amended.id,
        **dict.fromkeys(("digest", "by", "reason", "amended_by"), ""),
        "decided": 0.0,
    }
    made = approval_of("", fields, 0.0, registry)
    shown = [made.calls, made.changes, made.risk, made.is_outside]
    return replace(made, digest=blake2b(canonical(shown), digest_size=16).hexdigest())


def held_of(intent: Intent) -> HeldIntent:
    """Return an intent in the form that a request keeps."""
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
    """Return the intent that submits a held intent, with a new req_id."""
    intent = new_intent(held["kind"], held["payload"], held["agent"], req_id, seq)
    if "expect" in held:
        intent["expect"] = held["expect"]
    if "valid_until" in held:
        intent["valid_until"] = held["valid_until"]
    return intent


def outside_of(unshown: Sequence[str], foreseen: Foreseen) -> Foreseen:
    """Return the foreseen changes without those of the domain `approvals` and of `unshown`."""
    own = {*COLLECTIONS, *unshown}
    changes = [change for change in foreseen.changes if change.collection not in own]
    return foreseen._replace(changes=tuple(changes))


def shown_of(changes: Sequence[FieldChange]) -> list[list[Json]]:
    """Return changes in the form in which a request keeps and shows them: all of them."""
    return [
        [one.collection, UNDECIDED if one.entity is None else one.entity, *one[2:]]
        for one in changes
    ]


def ends_request(verdict: Verdict) -> bool:
    """Return whether the refusal of an approving batch ends its request as `stale`.

    It does if the decision itself is valid, and the batch is refused by a rule of its intents, by a
    condition, or because its changes differ from the shown ones. A quota, a full queue, a lease,
    and any refusal that says when to retry leave the request open.
    """
    is_of_decision = any(
        one.code.startswith("approvals.") and one.code != NOT_FORESEEN for one in verdict.refusals
    )
    if is_of_decision or any(_is_temporary(one) for one in verdict.refusals):
        return False
    return any(one.stage in {Stage.DOMAIN, Stage.STALENESS} for one in verdict.refusals)


def _is_temporary(refusal: Refusal) -> bool:
    return refusal.code in _TEMPORARY or refusal.retry_after is not None
