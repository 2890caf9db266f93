"""The persons who may decide about a request for approval or see it, and its JSON."""

from collections.abc import Sequence
from typing import NamedTuple

from starlette.requests import Request

from placet.kernel.gate.conditions import text_of
from placet.kernel.intent_visibility import speaks_for
from placet.kernel.ledger.ledger import Ledger
from placet.schemas.approval import Approval
from placet.schemas.codec import Json, thaw
from placet.schemas.identity import OPERATOR
from placet.server.approvals.outcomes import CallOutcome
from placet.server.context import RequestContext
from placet.server.credentials import Principal
from placet.server.people import has_role
from placet.server.roles import Role


class Reader(NamedTuple):
    """The caller of a request, as a person and as a submitter.

    Attributes:
        name: Name of the token; the name with which a decision is recorded.
        is_operator: The token is the operator's in the world, and is shown every request.
        roles: Roles of the person.
        is_person: The person may decide requests.
    """

    name: str
    is_operator: bool
    roles: Sequence[str]
    is_person: bool

    def role_for(self, approval: Approval) -> str:
        """Return the role with which the person decides about a request."""
        if has_role(self.roles, approval.role):
            return approval.role
        return next(iter(self.roles), "")


def reader_of(context: RequestContext, request: Request, who: Principal) -> Reader:
    """Return the reader of a request.

    Args:
        context: The context of the application.
        request: The HTTP request.
        who: The caller as the world knows it.
    """
    return _reader(context, context.principal(request).submitter, is_operator=who.is_operator)


def _reader(context: RequestContext, name: str, *, is_operator: bool) -> Reader:
    people = context.config.people
    roles = [*people.get(name, ()), *([OPERATOR] if is_operator else ())]
    return Reader(name, is_operator, roles, is_operator or name in people)


def may_decide(ledger: Ledger, reader: Reader, approval: Approval) -> bool:
    """Return whether a reader has the role of a request, and does not speak for an agent of it."""
    if not reader.is_person or not has_role(reader.roles, approval.role):
        return False
    asked = {one["agent"] for one in approval.intents}
    if reader.is_operator:
        return reader.name not in asked
    return not any(speaks_for(ledger, reader.name, agent) for agent in asked)


def may_see(ledger: Ledger, reader: Reader, approval: Approval) -> bool:
    """Return whether a reader is shown a request: who decides or decided, and who asked."""
    is_decider = reader.is_person and has_role(reader.roles, approval.role)
    if reader.is_operator or is_decider or reader.name == approval.by:
        return True
    return speaks_for(ledger, reader.name, approval.agent)


def deciders_of(
    context: RequestContext, world: str, ledger: Ledger, approval: Approval
) -> list[str]:
    """Return the names of the persons who may decide about a request, with the operator."""
    names = []
    for name in (*sorted(context.config.people), OPERATOR):
        role = context.role_in(Principal(name), world)
        if role is None or role < Role.AGENT:
            continue
        reader = _reader(context, name, is_operator=role is Role.OPERATOR)
        if may_decide(ledger, reader, approval):
            names.append(name)
    return names


def notice_json(
    context: RequestContext, world: str, ledger: Ledger, approval: Approval, sim_time: float
) -> dict[str, Json]:
    """Return a request as JSON for a notice: all that a person who decides is shown."""
    deciders = deciders_of(context, world, ledger, approval)
    return approval_json(approval, deciders, is_shown=True, decides=False, sim_time=sim_time)


def approval_json(
    approval: Approval,
    deciders: Sequence[str],
    *,
    is_shown: bool,
    decides: bool,
    sim_time: float,
    outcomes: Sequence[CallOutcome] | None = None,
) -> dict[str, Json]:
    """Return a request as JSON.

    Args:
        approval: The request.
        deciders: Names of the persons who may decide.
        is_shown: The changes are shown. The agent that asked is shown none: it may not see some of
            the changed values.
        decides: The reader may decide about the request while it is open.
        sim_time: Simulated time of the world now, seconds; that of the kernel is the time of the
            latest record, which may be long ago.
        outcomes: Outcomes of its calls, if they were read.
    """
    calls: list[dict[str, Json]] = [
        {
            "kind": one["kind"],
            "payload": thaw(one["payload"]),
            "key": one["key"],
            "conditions": [text_of(condition) for condition in one.get("expect", ())],
            "defaults": list(defaults),
        }
        for one, defaults in zip(approval.own_intents, approval.defaults, strict=True)
    ]
    for call, outcome in zip(calls, outcomes or (), strict=False):
        call["status"], call["output"] = outcome.status, outcome.output
    # Rounded: the difference of two times may be a hair more than the seconds that were asked for.
    left = round(max(0.0, approval.expires - sim_time), 6)
    return {
        "id": approval.id,
        "number": approval.number,
        "state": approval.state,
        "agent": approval.agent,
        "calls": calls,
        "changes": [_change(one) for one in approval.changes] if is_shown else None,
        "outside": approval.is_outside,
        "asks": list(approval.asks),
        "risk": approval.risk,
        "cost": thaw(approval.about.get("cost")),
        "about": thaw(dict(approval.about)),
        "role": approval.role,
        "deciders": list(deciders),
        "decides": decides and approval.state == "open",
        "requested": approval.requested,
        "age_s": None if approval.requested is None else max(0.0, sim_time - approval.requested),
        "expires": approval.expires,
        "left_s": left if approval.state == "open" else 0.0,
        "digest": approval.digest,
        "by": approval.by,
        "reason": approval.reason,
        "decided": approval.decided if approval.by else None,
        "amends": approval.amends or None,
        "amended_by": approval.amended_by or None,
    }


def _change(change: Sequence[Json]) -> dict[str, Json]:
    collection, entity, field, op, old, new = change
    return {"entity": f"{collection}/{entity}", "field": field, "op": op, "old": old, "new": new}
