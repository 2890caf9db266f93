"""The domain `approvals`: requests for approval of intents, and the decisions of people.

    ask -> open -> approved | denied | expired | stale

A request is decided once. The batch that approves it has the decision and the intents of the
request: the rules of their kinds find them approved (`placet.kernel.is_approved`), and the batch
is refused if it changes anything else than the person was shown. Only `RECORDER` may submit these
kinds, so an agent that is permitted every kind can approve nothing.
"""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Final

from placet.domains.approvals.payloads import (
    ASK,
    COLLECTIONS,
    COUNTS,
    DECIDE,
    PLANS,
    PREVIEW,
    RECORDER,
    SLOTS,
    DecidePayload,
    PreviewPayload,
    RequestPayload,
)
from placet.kernel.plugin.approved import APPROVING, INTENTS, REQUESTS, digest_of
from placet.kernel.plugin.domain import Domain, Kind, Rule, RuleRefusal, refuse
from placet.kernel.state.draft import Draft
from placet.kernel.state.tree import State
from placet.schemas.codec import Json, canonical
from placet.schemas.foreseen import Preview, is_foreseen
from placet.schemas.identity import Ref
from placet.schemas.intent import Intent

_ALL: Final = "all"
_DENIED_SECONDS: Final = 3_600.0
"""Simulated seconds for which an equal plan of the agent is refused after a denial."""

_ENDS: Final[Mapping[str, str]] = {"deny": "denied", "expire": "expired", "stale": "stale"}
_UNITS_PER_INTENT: Final = 5


class Approvals(Domain):
    """Requests for approval of intents of any domain.

    Args:
        kept: Number of requests that the state keeps, open ones included; the log has all of them.

    Raises:
        ValueError: The number is not a positive int.
    """

    name = "approvals"
    version = "1"
    collections = COLLECTIONS

    def __init__(self, *, kept: int = 1_024) -> None:
        if type(kept) is not int or kept < 1:
            raise ValueError(f"kept must be an int >= 1, got {kept!r}")
        self._kept = kept
        self.kinds = (
            _kind(ASK, RequestPayload, self._ask, "Intents wait for a person."),
            _kind(PREVIEW, PreviewPayload, _preview, "A dry run shows the changes of an approval."),
            _kind(DECIDE, DecidePayload, _decide, "A person decides."),
        )

    def settings(self) -> Mapping[str, Json]:
        """Return the keyword arguments that recreate the domain."""
        return {"kept": self._kept}

    def on_batch(self, draft: Draft) -> None:
        """End the approval of a request with the batch that approved it."""
        for collection, request, field, _ in draft.previous_values():
            if (
                collection == REQUESTS
                and field == "state"
                and draft.get(REQUESTS, request, "state") == APPROVING
            ):
                draft.put(REQUESTS, request, "state", "approved")

    def on_remove(self, draft: Draft, agent_id: str) -> None:
        """Drop the requests of a removed agent: a later agent of the same name is a different one.

        The log keeps them.
        """
        for request in list(draft.ids(REQUESTS)):
            if draft.get(REQUESTS, request, "agent") == agent_id:
                _drop(draft, request)

    def may_see(self, state: State, agent_id: str, ref: Ref) -> bool:
        """Return whether a request is the agent's; False for all else, which only rules read."""
        if ref.collection != REQUESTS or ref.entity is None:
            return False
        return bool(state.get(REQUESTS, ref.entity, "agent") == agent_id)

    def _ask(self, draft: Draft, intent: Intent) -> RuleRefusal | None:
        payload: Mapping[str, Json] = intent["payload"]
        request, intents = payload["id"], payload["intents"]
        draft.charge(len(intents) * _UNITS_PER_INTENT)
        if draft.exists(REQUESTS, request):
            return refuse("request_exists", f"there is a request {request!r} already", at="/id")
        plan = plan_digest(payload["agent"], intents)
        refusal = _earlier(draft, plan) or self._free_slot(draft, request)
        if refusal is not None:
            return refusal
        for number, asked in enumerate(intents):
            if draft.exists(INTENTS, asked["key"]):
                return refuse(
                    "key_taken",
                    f"the key {asked['key']!r} is of another request; ask with a new key",
                    at=f"/intents/{number}/key",
                )
            content = digest_of(asked["kind"], asked["payload"], payload["agent"])
            draft.create(INTENTS, asked["key"], {"request": request, "digest": content})
        if draft.exists(PLANS, plan):
            draft.put(PLANS, plan, "request", request)
        else:
            draft.create(PLANS, plan, {"request": request})
        fields = {name: payload[name] for name in payload if name not in {"id", "seconds"}}
        draft.create(
            REQUESTS,
            request,
            {
                **fields,
                "plan": plan,
                "digest": _request_digest(payload),
                "expires": draft.sim_time + payload["seconds"],
                "state": "open",
                "by": "",
                "reason": "",
                "decided": 0.0,
            },
        )
        return None

    def _free_slot(self, draft: Draft, request: str) -> RuleRefusal | None:
        """Assign the next slot to a request, and drop the ended request that has it."""
        asked = draft.get(COUNTS, _ALL, "asked", 0)
        slot = str(asked % self._kept)
        if draft.exists(SLOTS, slot):
            oldest = draft.get(SLOTS, slot, "request")
            if _is_open(draft, oldest):
                return refuse(
                    "requests_full",
                    f"{self._kept} requests wait for a person; decide the oldest first",
                )
            _drop(draft, oldest)
            draft.put(SLOTS, slot, "request", request)
        else:
            draft.create(SLOTS, slot, {"request": request})
        if asked:
            draft.put(COUNTS, _ALL, "asked", asked + 1)
        else:
            draft.create(COUNTS, _ALL, {"asked": 1})
        return None


def plan_digest(agent: str, intents: Json) -> str:
    """Return the digest of the agent and its intents without their keys, hexadecimal.

    Equal plans of an agent have one open request.
    """
    content = [agent, [[asked["kind"], asked["payload"]] for asked in intents]]
    return blake2b(canonical(content), digest_size=16).hexdigest()


def _request_digest(payload: Mapping[str, Json]) -> str:
    """Return the digest of all that a person is shown of a request."""
    names = ("id", "agent", "intents", "foreseen", "undecided", "unshown", "role")
    return blake2b(canonical([payload[name] for name in names]), digest_size=16).hexdigest()


def _kind(name: str, payload: object, rule: Rule, summary: str) -> Kind:
    """Make a kind that the recorder alone may submit."""

    def guarded(draft: Draft, intent: Intent) -> RuleRefusal | None:
        if intent["agent_id"] != RECORDER:
            return refuse(
                "recorder_only", f"{RECORDER!r} alone records approvals; propose something else"
            )
        return rule(draft, intent)

    return Kind(name, payload, guarded, summary=summary)


def _earlier(draft: Draft, plan: str) -> RuleRefusal | None:
    """Return the refusal for an equal plan that is open, or was denied lately."""
    request = draft.get(PLANS, plan, "request")
    if request is None:
        return None
    if _is_open(draft, request):
        return refuse(
            "request_open", "an equal plan waits for a person; wait for its decision", id=request
        )
    left = draft.get(REQUESTS, request, "decided", 0.0) + _DENIED_SECONDS - draft.sim_time
    if draft.get(REQUESTS, request, "state") == "denied" and left > 0:
        why = draft.get(REQUESTS, request, "reason") or "no reason given"
        return refuse(
            "plan_denied",
            f"a person denied an equal plan ({why}); propose something else",
            retry_after=left,
            id=request,
        )
    return None


def _is_open(draft: Draft, request: str) -> bool:
    fields = draft.entity(REQUESTS, request)
    return fields is not None and fields["state"] == "open" and draft.sim_time <= fields["expires"]


def _drop(draft: Draft, request: str) -> None:
    """Delete a request and its intents from the state."""
    fields = draft.entity(REQUESTS, request)
    if fields is None:  # its agent was removed
        return
    draft.charge(len(fields["intents"]) * _UNITS_PER_INTENT)
    for asked in fields["intents"]:
        draft.delete(INTENTS, asked["key"])
    if draft.get(PLANS, fields["plan"], "request") == request:
        draft.delete(PLANS, fields["plan"])
    draft.delete(REQUESTS, request)


def _preview(draft: Draft, intent: Intent) -> RuleRefusal | None:
    request = intent["payload"]["id"]
    if not _is_open(draft, request):
        return refuse("request_unknown", f"there is no open request {request!r}", at="/id")
    _begin(draft, request)
    return None


def _begin(draft: Draft, request: str) -> None:
    """Permit the intents of a request in the rest of the batch, with the draws that were shown."""
    draft.pin_draws(request)
    draft.put(REQUESTS, request, "state", APPROVING)


def _decide(draft: Draft, intent: Intent) -> RuleRefusal | None:
    payload: Mapping[str, Json] = intent["payload"]
    request = payload["id"]
    fields = draft.entity(REQUESTS, request)
    if fields is None:
        return refuse("request_unknown", f"there is no request {request!r}", at="/id")
    if fields["state"] != "open":
        return refuse(
            "request_decided",
            f"request {request!r} is {fields['state']} already; it is decided once",
            at="/id",
        )
    if (refusal := _of_person(draft, payload, fields)) is not None:
        return refusal
    draft.put(REQUESTS, request, "by", payload["by"])
    draft.put(REQUESTS, request, "reason", payload["reason"])
    draft.put(REQUESTS, request, "decided", draft.sim_time)
    if payload["decision"] != "approve":
        draft.put(REQUESTS, request, "state", _ENDS[payload["decision"]])
        return None
    foreseen, undecided = fields["foreseen"], fields["undecided"]
    unshown = {*COLLECTIONS, *fields["unshown"]}
    _begin(draft, request)
    draft.check_changes(lambda preview: _require_foreseen(preview, unshown, foreseen, undecided))
    return None


def _of_person(
    draft: Draft, payload: Mapping[str, Json], fields: Mapping[str, Json]
) -> RuleRefusal | None:
    """Return the refusal of a decision that this person may not make, or not make now."""
    if payload["decision"] in {"expire", "stale"}:
        return None
    if payload["by"] == fields["agent"]:
        return refuse(
            "decider_asked", "the agent that asked does not decide; ask a person", at="/by"
        )
    if payload["role"] != fields["role"]:
        return refuse(
            "role_missing",
            f"this needs the role {fields['role']!r}, {payload['by']!r} came with "
            f"{payload['role']!r}",
            at="/role",
        )
    if payload["digest"] != fields["digest"]:
        return refuse(
            "request_changed",
            "the digest shown is not the digest of this request; look again",
            at="/digest",
        )
    if draft.sim_time > fields["expires"]:
        return refuse("request_expired", f"request {payload['id']!r} is expired; ask again")
    return None


def _require_foreseen(
    preview: Preview, unshown: set[str], foreseen: str, undecided: Json
) -> RuleRefusal | None:
    """Refuse an approval whose batch differs from the preview that the person was shown."""
    changes = [change for change in preview.changes if change.collection not in unshown]
    if is_foreseen(preview._replace(changes=changes), foreseen, undecided):
        return None
    return refuse(
        "not_foreseen",
        "the batch changes other values, or has other effects, than the request showed; ask again",
        at="/id",
    )
