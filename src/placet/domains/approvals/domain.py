"""The domain `approvals`: requests for approval of intents, and the decisions of people.

    ask -> open -> approved | denied | amended | expired | stale

A request is decided once, and never by an agent of its intents. An amendment ends a request and
approves another one in its place; each of the two has the id of the other.

The batch of an approval has the decision and the intents of the request. In this batch
`placet.kernel.is_approved` is true for these intents. The batch is refused if its changes differ
from the changes that the person was shown. Only `RECORDER` may submit these kinds, so an agent that
is permitted every kind cannot approve anything.
"""

from collections.abc import Collection, Mapping
from hashlib import blake2b
from typing import Final

from placet.domains.approvals.payloads import (
    COUNTS,
    PLANS,
    SLOTS,
    AmendPayload,
    DecidePayload,
    PreviewPayload,
    RequestPayload,
    SettleEffectPayload,
)
from placet.kernel.plugin.approved import (
    AMEND,
    APPROVING,
    ASK,
    COLLECTIONS,
    DECIDE,
    INTENTS,
    PREVIEW,
    RECORDER,
    REQUESTS,
    SETTLE,
    digest_of,
)
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
_OF_PEOPLE: Final = frozenset({"shown", "foreseen", "undecided"})
"""Fields of a request that disclose the changes of its intents."""


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
            _kind(AMEND, AmendPayload, self._amend, "A person approves other intents."),
            _kind(SETTLE, SettleEffectPayload, _settle, "A person settles an effect in doubt."),
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
        """Drop the requests with intents of a removed agent.

        An agent that registers later under the same name is another agent. The log keeps them.
        """
        for request in list(draft.ids(REQUESTS)):
            if agent_id in _agents_of(draft.entity(REQUESTS, request) or {}):
                _drop(draft, request)

    def may_see(self, state: State, agent_id: str, ref: Ref) -> bool:
        """Return whether a request is the agent's; False for all else, which only rules read."""
        if ref.collection != REQUESTS or ref.entity is None:
            return False
        return bool(state.get(REQUESTS, ref.entity, "agent") == agent_id)

    def hidden_fields(self, state: State, agent_id: str, ref: Ref) -> Collection[str]:
        """Return the fields that disclose changes of a request, which may be of hidden entities."""
        return _OF_PEOPLE if ref.collection == REQUESTS else ()

    def _ask(self, draft: Draft, intent: Intent) -> RuleRefusal | None:
        return self._create(draft, intent["payload"], amends="")

    def _create(
        self, draft: Draft, payload: Mapping[str, Json], *, amends: str
    ) -> RuleRefusal | None:
        """Record a request; if `amends` is not empty, it replaces the request of that id."""
        request, intents = payload["id"], payload["intents"]
        draft.charge(len(intents) * _UNITS_PER_INTENT)
        if draft.exists(REQUESTS, request):
            return refuse("request_exists", f"there is a request {request!r} already", at="/id")
        if all(asked["agent"] != payload["agent"] for asked in intents):
            return refuse(
                "intent_missing",
                f"the request is of {payload['agent']!r}, but none of its intents is; add one",
                at="/intents",
            )
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
            content = digest_of(asked["kind"], asked["payload"], asked["agent"])
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
                "number": draft.get(COUNTS, _ALL, "asked"),
                "plan": plan,
                "digest": _request_digest(payload),
                "expires": draft.sim_time + payload["seconds"],
                "amends": amends,
                "amended_by": "",
                "state": "open",
                "by": "",
                "reason": "",
                "decided": 0.0,
            },
        )
        return None

    def _amend(self, draft: Draft, intent: Intent) -> RuleRefusal | None:
        """End a request, and record and approve the one that takes its place."""
        payload: Mapping[str, Json] = intent["payload"]
        request, new = payload["id"], payload["request"]
        fields = draft.entity(REQUESTS, request)
        if (refusal := _undecidable(draft, payload, fields)) is not None:
            return refusal
        assert fields is not None, "an unknown request is refused"
        if new["agent"] != fields["agent"]:
            return refuse(
                "agent_changed",
                f"amend the request for its agent {fields['agent']!r}, not for {new['agent']!r}",
                at="/request/agent",
            )
        if new["role"] != fields["role"]:
            return refuse(
                "role_changed",
                f"amend the request with its role {fields['role']!r}, not with {new['role']!r}",
                at="/request/role",
            )
        if payload["by"] in _agents_of(new):
            return _own_decision()
        if (refusal := self._create(draft, new, amends=request)) is not None:
            return refusal._replace(at=f"/request{refusal.at}")
        _record(draft, request, payload, "amended")
        draft.put(REQUESTS, request, "amended_by", new["id"])
        _approve(draft, new["id"], payload)
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
    """Return the digest of the intents of an agent without their keys, hexadecimal.

    An agent has at most one open request for equal intents.
    """
    own = [
        {name: asked[name] for name in asked if name != "key"}
        for asked in intents
        if asked["agent"] == agent
    ]
    return blake2b(canonical(own), digest_size=16).hexdigest()


def _request_digest(payload: Mapping[str, Json]) -> str:
    """Return the digest of all that a person is shown of a request, but for its times."""
    names = sorted(payload.keys() - {"seconds", "shown", "requested"})
    return blake2b(canonical([payload[name] for name in names]), digest_size=16).hexdigest()


def _agents_of(fields: Mapping[str, Json]) -> set[str]:
    """Return the agents of the intents of a request, from its fields or its payload."""
    return {asked["agent"] for asked in fields.get("intents", ())}


def _kind(name: str, payload: object, rule: Rule, summary: str) -> Kind:
    """Make a kind that the recorder alone may submit."""

    def guarded(draft: Draft, intent: Intent) -> RuleRefusal | None:
        if intent["agent_id"] != RECORDER:
            return refuse(
                "recorder_only", f"{RECORDER!r} alone records approvals; propose something else"
            )
        return rule(draft, intent)

    return Kind(name, payload, guarded, summary=summary)


def _settle(_draft: Draft, intent: Intent) -> RuleRefusal | None:
    """Record who settles an effect, and why; the state has nothing of it."""
    payload = intent["payload"]
    if payload["by"] == payload["agent"]:
        who = repr(payload["by"])
        return refuse(
            "decider_asked", f"{who} asked for the work itself; another person settles it", at="/by"
        )
    return None


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
    draft.pin_draws(request)
    draft.put(REQUESTS, request, "state", APPROVING)
    return None


def _decide(draft: Draft, intent: Intent) -> RuleRefusal | None:
    payload: Mapping[str, Json] = intent["payload"]
    fields = draft.entity(REQUESTS, payload["id"])
    if (refusal := _undecidable(draft, payload, fields)) is not None:
        return refusal
    if payload["decision"] == "approve":
        _approve(draft, payload["id"], payload)
    else:
        _record(draft, payload["id"], payload, _ENDS[payload["decision"]])
    return None


def _record(draft: Draft, request: str, payload: Mapping[str, Json], state: str) -> None:
    """Record a decision about a request: the person, the reason, the time, and the state."""
    draft.put(REQUESTS, request, "by", payload["by"])
    draft.put(REQUESTS, request, "reason", payload["reason"])
    draft.put(REQUESTS, request, "decided", draft.sim_time)
    if "codes" in payload:
        draft.put(REQUESTS, request, "codes", payload["codes"])
    draft.put(REQUESTS, request, "state", state)


def _approve(draft: Draft, request: str, payload: Mapping[str, Json]) -> None:
    """Permit the intents of a request, if the changes of the batch are exactly the shown ones."""
    _record(draft, request, payload, APPROVING)
    fields: Mapping[str, Json] = draft.entity(REQUESTS, request) or {}
    foreseen, undecided = fields["foreseen"], fields["undecided"]
    unshown = {*COLLECTIONS, *fields["unshown"]}
    draft.pin_draws(request)
    draft.check_changes(lambda preview: _require_foreseen(preview, unshown, foreseen, undecided))


def _undecidable(
    draft: Draft, payload: Mapping[str, Json], fields: Mapping[str, Json] | None
) -> RuleRefusal | None:
    """Return the refusal of a decision about a request that is not open, or not for this person."""
    if fields is None:
        return refuse("request_unknown", f"there is no request {payload['id']!r}", at="/id")
    if fields["state"] != "open":
        return refuse(
            "request_decided",
            f"request {payload['id']!r} is {fields['state']} already; it is decided once",
            at="/id",
        )
    return _of_person(draft, payload, fields)


def _own_decision() -> RuleRefusal:
    return refuse(
        "decider_asked", "the agent of an intent does not decide about it; ask a person", at="/by"
    )


def _of_person(
    draft: Draft, payload: Mapping[str, Json], fields: Mapping[str, Json]
) -> RuleRefusal | None:
    """Return the refusal of a decision that this person may not make, or not make now."""
    if payload.get("decision") in {"expire", "stale"}:
        return None
    if payload["by"] in _agents_of(fields):
        return _own_decision()
    if fields["role"] and payload["role"] != fields["role"]:
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
