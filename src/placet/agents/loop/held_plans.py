"""Held plans of sessions: how a plan becomes a request for approval, and is read from one."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

from placet.agents.ports import InboxPort
from placet.agents.proposal.codes import Code
from placet.agents.proposal.plan import IF_UNCHANGED, DecidedAction, Plan
from placet.agents.proposal.turn_result import (
    ActionOutcome,
    ApprovalRequest,
    PlanResult,
    StateChange,
    TurnEnd,
)
from placet.schemas.approval import Approval, ApprovalUnknown
from placet.schemas.codec import Json, canonical
from placet.schemas.foreseen import UNDECIDED, FieldChange
from placet.schemas.verdict import Verdict

_OF_PROPOSER: Final = frozenset({"id", "payload", "why", IF_UNCHANGED})
"""The fields of an action that a request keeps beside its intent."""

_PAGE: Final = 256
"""Requests that are read at a time."""


class HeldPlans:
    """The requests for approval of one session, in the inbox of its world.

    Args:
        inbox: The inbox.
        session: Name of the session.
        agent: Id of the agent of the session.
    """

    def __init__(self, inbox: InboxPort, session: str, agent: str) -> None:
        self._inbox = inbox
        self._owner = (session, agent)

    async def all(self) -> list[ApprovalRequest]:
        """Return all requests of the session, newest last."""
        own: list[ApprovalRequest] = []
        cursor = 0
        while True:
            page = await self._inbox.list(cursor=cursor, limit=_PAGE)
            own += [shown_request(one) for one in page if self._is_own(one)]
            if len(page) < _PAGE:
                return own
            cursor = page[-1].number

    async def get(self, approval_id: str) -> Approval | None:
        """Return a request of the session; None if the session has no request of this id."""
        try:
            request = await self._inbox.get(approval_id)
        except ApprovalUnknown:
            return None
        return request if self._is_own(request) else None

    async def ended(self, approval_ids: Sequence[str]) -> list[str]:
        """Return the ids of the requests that are no longer open."""
        held = {name: await self.get(name) for name in approval_ids}
        return [name for name, one in held.items() if one is None or one.state != "open"]

    def _is_own(self, request: Approval) -> bool:
        return (request.about.get("session"), request.agent) == self._owner


def request_id_of(session: str, agent: str, plan: Plan, seq: int) -> str:
    """Return the id of the request for a plan: equal in every run of a session with one log."""
    rows = [action.to_row() for action in plan.actions]
    content = canonical([rows, plan.base_seq, agent, session])
    return f"{session}-{blake2b(content, digest_size=6).hexdigest()}-{seq}"


def about_plan(session: str, plan: Plan, previewed: Verdict) -> dict[str, Json]:
    """Return the field `about` of a request: the facts of a plan that are not in its intents.

    Args:
        session: Name of the session.
        plan: The plan.
        previewed: Verdict of its dry run. A payload is kept only where it differs from the
            validated payload, which the intents of the request have.
    """
    rows = []
    for index, action in enumerate(plan.actions):
        row = {name: value for name, value in action.to_row().items() if name in _OF_PROPOSER}
        validated = previewed.results[index].normalized if previewed.admitted else None
        if validated is None or canonical(validated) == canonical(action.payload):
            del row["payload"]
        rows.append(row)
    return {"session": session, "goal": plan.goal, "base_seq": plan.base_seq, "actions": rows}


def plan_of(request: Approval, base_seq: int) -> Plan:
    """Return the plan of a request, to be judged at a seq."""
    actions = tuple(DecidedAction(**row) for row in _rows(request))
    goal = request.about["goal"]
    return Plan.model_construct(goal=goal, base_seq=base_seq, actions=actions)


def shown_request(request: Approval) -> ApprovalRequest:
    """Return a request of a session in the form that a person is shown."""
    about = request.about
    return ApprovalRequest(
        id=request.id,
        session=about["session"],
        goal=about["goal"],
        actions=tuple(_rows(request)),
        base_seq=about["base_seq"],
        digest=request.digest,
        needs="approve" if request.role else "confirm",
        role=request.role,
        proposer=request.agent,
        state=request.state,
        expires=request.expires,
        by=request.by,
        diff=changes_of(request),
    )


def changes_of(request: Approval) -> tuple[StateChange, ...]:
    """Return the changes of a request that a person is shown."""
    return tuple(
        StateChange.of(FieldChange(collection, None if entity == UNDECIDED else entity, *rest))
        for collection, entity, *rest in request.changes
    )


def end_of_request(request: Approval) -> TurnEnd:
    """Return the end of the turn that records a decision made outside of the session.

    It has neither outputs nor outcomes of effects: only the log has them.
    """
    is_applied = request.state == "approved"
    who = f" by {request.by}" if request.by else ""
    why = f": {request.reason}" if request.reason else ""
    text = f"approval request {request.id} is {request.state}{who}{why}"
    if request.state == "amended":
        text = f"{text}; request {request.amended_by} was applied in its place"
    results = tuple(
        ActionOutcome(
            id=str(row["id"] or index),
            kind=str(row["kind"]),
            outcome="applied" if is_applied else "rejected",
        )
        for index, row in enumerate(_rows(request))
    )
    if is_applied:
        return TurnEnd("applied", Code.COMPLETED, text, PlanResult("applied", results=results))
    return TurnEnd("refused", Code.DENIED, text, PlanResult("rejected", results=results))


def end_of_unknown(approval_id: str) -> TurnEnd:
    """Return the end of a turn about a request that the session does not have."""
    text = (
        f"there is no approval request {approval_id!r} in this session; if an earlier release "
        "held it, it has ended: propose the plan again"
    )
    return TurnEnd("refused", Code.DENIED, text)


def _rows(request: Approval) -> list[dict[str, Json]]:
    """Return the actions of a request as they were proposed."""
    held = request.own_intents
    # A request that replaces another one has the `about` of the replaced request.
    rows = [{"id": "", "why": ""} for _ in held] if request.amends else request.about["actions"]
    return [
        {name: intent[name] for name in ("kind", "payload", "expect") if name in intent} | row
        for row, intent in zip(rows, held, strict=True)
    ]
