"""Routes of requests for approval: list, get, decide, and a stream of changes.

And of effects in doubt, which a person with the role of the operator settles.

The person who decides is named by the token, never by the body; the roles of persons are those of
the configuration (`people`). A decision names the digest of the request that the person was shown.
"""

from collections.abc import Sequence
from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, UnsetType, field
from starlette.requests import Request

from placet.kernel.intent_visibility import speaks_for
from placet.kernel.kernel import Kernel
from placet.kernel.ledger.ledger import Ledger
from placet.runtime.inbox import Inbox
from placet.runtime.orchestrator import Orchestrator
from placet.schemas.approval import Approval, ApprovalState, ApprovalUnknown, InboxAnswer
from placet.schemas.codec import Json, thaw, to_json
from placet.schemas.effect import EffectStatus, OutcomeUnknown, call_key_of
from placet.schemas.identity import OPERATOR
from placet.schemas.intent import Intent
from placet.server.approvals.amendment import AmendmentError, amended
from placet.server.approvals.deciders import (
    Reader,
    approval_json,
    deciders_of,
    may_decide,
    may_see,
    reader_of,
)
from placet.server.approvals.events import ApprovalEvents
from placet.server.approvals.outcomes import outcomes_of
from placet.server.context import RequestContext, context_of, entered
from placet.server.http.fair_share import release_body
from placet.server.http.parameters import Fields
from placet.server.http.problems import Problem, code_of_status
from placet.server.http.routing import OF_WORLD, WORLD_PREFIX, Body, Routes
from placet.server.http.verdict_status import retry_after, status_of
from placet.server.people import has_role
from placet.server.roles import Role
from placet.server.streams import NO_MORE_STREAMS

table = Routes("approvals", WORLD_PREFIX + "/approvals")

DOMAIN: Final = "approvals"
"""Name of the domain that keeps the requests of a world."""

_PAGE: Final = 64
_DIGEST_CHARS_MAX: Final = 64
_REASON_CHARS_MAX: Final = 2_000
_CALLS_MAX: Final = 256

_FORBIDDEN: Final = frozenset({"approvals.role_missing", "approvals.decider_asked"})
_CONFLICTS: Final = frozenset(
    f"approvals.{code}"
    for code in ("request_decided", "request_changed", "request_expired", "not_foreseen")
)

_Cursor = Annotated[int, Meta(ge=0, le=2**62, description="`next` of the page before.")]


class ApprovalsQuery(Fields, frozen=True):
    """The query parameters of `list_requests`."""

    state: ApprovalState | None = None
    cursor: _Cursor = 0


class ReplacementCall(Fields, frozen=True):
    """A call in a `DecisionBody`, which a person approves instead of one that was asked for."""

    kind: Annotated[str, Meta(min_length=1, max_length=128)]
    payload: dict[str, Json] = field(default_factory=dict)


class DecisionBody(Fields, frozen=True):
    """The request body of `decide_request`; `calls` are for an amendment.

    `digest` is that of the request as the person was shown it. `dry_run` shows the intents that an
    amendment would approve; with the digest of that answer as `foreseen`, just these are done.
    """

    decision: Literal["approve", "deny", "amend"]
    digest: Annotated[str, Meta(min_length=1, max_length=_DIGEST_CHARS_MAX)]
    reason: Annotated[str, Meta(max_length=_REASON_CHARS_MAX)] = ""
    calls: (
        Annotated[list[ReplacementCall], Meta(min_length=1, max_length=_CALLS_MAX)] | UnsetType
    ) = UNSET
    dry_run: bool = False
    foreseen: Annotated[str, Meta(max_length=_DIGEST_CHARS_MAX)] = ""


class DoubtBody(Fields, frozen=True):
    """The request body of `settle_doubt`; `output` is that of work that was done."""

    effect: Annotated[str, Meta(min_length=1, max_length=256)]
    outcome: Literal["done", "failed"]
    reason: Annotated[str, Meta(max_length=_REASON_CHARS_MAX)] = ""
    output: Json = None


_DECISION: Final = Body(
    DecisionBody,
    {
        "approve": {"value": {"decision": "approve", "digest": "0e62…", "reason": "agreed"}},
        "amend": {
            "value": {
                "decision": "amend",
                "digest": "0e62…",
                "reason": "four are enough",
                "calls": [{"kind": "desk.order", "payload": {"item": "chairs", "count": 4}}],
            }
        },
    },
)


@table.on("GET", "", "List requests for approval", "ApprovalPage", *OF_WORLD)
async def list_requests(world: str, request: Request, query: ApprovalsQuery) -> Json:
    """List the requests that the token may see, in the order of asking, a page at a time.

    These are the requests that the person may decide, has decided, or whose agent is the token's;
    all of them for the operator. A page may have fewer than the next one: read on until `next` is
    null. The outcomes of calls are with the single request.
    """
    context, orchestrator, reader = _entered(world, request)
    page = await Inbox(orchestrator).list(state=query.state, cursor=query.cursor, limit=_PAGE)
    described = await _described(context, world, orchestrator, reader, page)
    following = page[-1].number if len(page) == _PAGE else None
    return {"approvals": described, "next": following, "sim_time": orchestrator.sim_time}


# Before the path of one request, which has the same form.
@table.on(
    "GET",
    "/events",
    "Follow requests for approval",
    "text/event-stream",
    429,
    *OF_WORLD,
    is_read=False,
)
async def follow_requests(world: str, request: Request) -> ApprovalEvents:
    """Send the requests that the token may see as server-sent events: the open ones, then changes.

    The data of each event is a request as `get_request` has it, without the outcomes of calls; the
    name of the event is its state.
    """
    context = context_of(request)
    token = context.principal(request).submitter
    await context.reads.require(token)
    _, orchestrator, _ = _entered(world, request)
    if context.is_draining:
        raise Problem("unavailable", NO_MORE_STREAMS)

    async def describe(approvals: Sequence[Approval]) -> list[dict[str, Json]]:
        # The token may have lost the world, or its role there, since the stream began.
        current = _entered(world, request)[2]
        return await _described(context, world, orchestrator, current, approvals)

    return ApprovalEvents(context, orchestrator, token, describe)


@table.on("GET", "/doubts", "List effects in doubt", "DoubtList", *OF_WORLD)
async def list_doubts(world: str, request: Request) -> Json:
    """List the oldest 64 effects whose outcome is unknown, such as calls of tools, oldest first.

    `left_out` is the number of later ones, which are listed when these are settled. Only persons
    with the role `operator` are shown any.
    """
    _, orchestrator, reader = _entered(world, request)
    if not _is_settler(reader):
        return {"doubts": [], "left_out": 0}
    found = await Inbox(orchestrator).doubts()
    page = found[:_PAGE]

    def look(kernel: Kernel) -> list[bool]:
        return [_may_settle(kernel.ledger, reader, one) for one in page]

    may_settle = await orchestrator.query(look)
    return {
        "doubts": [_doubt(one, decides) for one, decides in zip(page, may_settle, strict=True)],
        "left_out": len(found) - len(page),
    }


@table.on(
    "POST",
    "/doubts",
    "Settle an effect in doubt",
    "Doubt",
    409,
    500,
    *OF_WORLD,
    body=Body(
        DoubtBody,
        {"done": {"value": {"effect": "world/17/0", "outcome": "done", "reason": "it is paid"}}},
    ),
)
async def settle_doubt(world: str, request: Request) -> Json:
    """Settle an effect in doubt as `done` or `failed`, and record the person.

    The answer is the effect as it was shown. The status is 409 if it is no longer in doubt; 403 if
    the token does not have the role `operator`, or speaks for the agent of the effect.
    """
    context, orchestrator, reader = _entered(world, request, Role.AGENT)
    body = await context.read(request, DoubtBody)
    release_body(request.scope)
    if not _is_settler(reader):
        raise Problem("forbidden", f"{reader.name!r} does not have the role {OPERATOR!r}")
    inbox = Inbox(orchestrator)
    found = next((one for one in await inbox.doubts() if str(one.key) == body.effect), None)
    if found is None:
        raise Problem("conflict", f"no effect {body.effect!r} is in doubt; it may be settled")
    if not await orchestrator.query(lambda kernel: _may_settle(kernel.ledger, reader, found)):
        raise Problem("forbidden", f"{reader.name!r} speaks for the agent of the effect")
    try:
        await inbox.settle(
            found.key,
            done=body.outcome == "done",
            by=reader.name,
            reason=body.reason,
            output=body.output,
        )
    except LookupError as error:
        raise Problem("conflict", str(error.args[0])) from error
    except ValueError as error:
        raise Problem("request_invalid", str(error)) from error
    return _doubt(found, decides=False)


@table.on("GET", "/{approval}", "Get a request for approval", "Approval", *OF_WORLD)
async def get_request(world: str, approval: str, request: Request) -> Json:
    """Return a request; of an approved one also the outcome of each call.

    The `status` of a call is `running`, `done`, `failed` (certainly not done), `doubt` (it was
    started, and its outcome is unknown), or `unknown` (the log does not have it any more).
    """
    context, orchestrator, reader = _entered(world, request)
    found = await _found(orchestrator, approval)
    return await _whole(context, world, orchestrator, reader, found, request)


@table.on(
    "POST",
    "/{approval}",
    "Decide about a request for approval",
    "Approval",
    409,
    500,
    *OF_WORLD,
    body=_DECISION,
)
async def decide_request(world: str, approval: str, request: Request) -> Json:
    """Approve a request, deny it, or amend it: approve other calls of its agent in its place.

    The answer is the request after the decision; approved calls may still run. With `dry_run` an
    amendment records nothing, and the answer is the request that it would make. The status is 409
    if the request was decided already, is expired, has another digest, or would now do something
    else than was shown; 404 if the token may not see it, as for `get_request`; 403 if it may see it
    and not decide: it has another role, or speaks for an agent of the request.
    """
    context, orchestrator, reader = _entered(world, request, Role.AGENT)
    body = await context.read(request, DecisionBody)
    release_body(request.scope)  # a decision may wait for a step
    found = await _found(orchestrator, approval)
    await _require_decider(context, world, orchestrator, reader, found)
    calls = [] if body.calls is UNSET else [(one.kind, one.payload) for one in body.calls]
    if (body.decision == "amend") != bool(calls):
        raise Problem("request_invalid", "calls are for an amendment, and an amendment needs them")
    try:
        intents = amended(found, calls, orchestrator.seq) if calls else ()
    except AmendmentError as error:
        raise Problem("request_invalid", str(error)) from error
    if body.dry_run:
        return await _foreseen(context, world, orchestrator, reader, found, intents)
    answer = await Inbox(orchestrator).decide(
        found.id,
        body.decision,
        by=reader.name,
        role=reader.role_for(found),
        digest=body.digest,
        reason=body.reason,
        intents=intents,
        foreseen=body.foreseen,
    )
    if not answer.verdict.admitted:
        agents = [one["agent_id"] for one in intents] or [one["agent"] for one in found.intents]
        raise _refused(answer, found, agents)
    return await _whole(context, world, orchestrator, reader, answer.approval, request)


async def _foreseen(
    context: RequestContext,
    name: str,
    world: Orchestrator,
    reader: Reader,
    found: Approval,
    intents: Sequence[Intent],
) -> Json:
    """Return the request that an amendment would make, as JSON.

    Raises:
        Problem: It is no amendment, or the dry run is refused.
    """
    if not intents:
        raise Problem("request_invalid", "dry_run is for an amendment")
    answer = await Inbox(world).foresee_amendment(found.id, intents)
    if answer.request is None:
        raise _refused(answer, found, [one["agent_id"] for one in intents])
    return (await _described(context, name, world, reader, [answer.request]))[0]


def _entered(
    world: str, request: Request, needs: Role = Role.READER
) -> tuple[RequestContext, Orchestrator, Reader]:
    """Return the context, the world and the reader of a request.

    Raises:
        Problem: The world is none for this token, or keeps no requests.
    """
    context, who, orchestrator = entered(request, world, needs)
    if not any(domain.name == DOMAIN for domain in orchestrator.domains):
        raise Problem(
            "not_found",
            f"the world {world!r} has no domain {DOMAIN!r}, so nothing of it waits for a person",
        )
    return context, orchestrator, reader_of(context, request, who)


def _is_settler(reader: Reader) -> bool:
    return reader.is_person and has_role(reader.roles, OPERATOR)


def _may_settle(ledger: Ledger, reader: Reader, effect: EffectStatus) -> bool:
    """Return whether a reader may settle an effect: never the agent of it, or its owner."""
    if reader.is_operator:
        return reader.name != effect.agent_id
    return not speaks_for(ledger, reader.name, effect.agent_id)


def _doubt(effect: EffectStatus, decides: bool) -> dict[str, Json]:
    """Return an effect in doubt as JSON; the payload of a call of a tool is its arguments."""
    payload, call = thaw(effect.payload), call_key_of(effect.payload)
    arguments = payload.get("args")
    why = effect.why if isinstance(effect.why, str) else to_json(effect.why).decode()
    return {
        "effect": str(effect.key),
        "kind": effect.kind,
        "call": call,
        "agent": effect.agent_id,
        "payload": arguments if call and isinstance(arguments, dict) else payload,
        "why": why.removeprefix(f"{OutcomeUnknown.__name__}: "),
        "decides": decides,
    }


async def _found(world: Orchestrator, approval: str) -> Approval:
    try:
        return await Inbox(world).get(approval)
    except ApprovalUnknown:
        raise _no_request(approval) from None


def _no_request(approval: str) -> Problem:
    return Problem(
        "not_found", f"there is no request for approval {approval!r:.200} that you may see"
    )


async def _described(
    context: RequestContext,
    name: str,
    world: Orchestrator,
    reader: Reader,
    approvals: Sequence[Approval],
) -> list[dict[str, Json]]:
    """Return the requests that a reader may see, as JSON."""
    now = world.sim_time

    def look(kernel: Kernel) -> list[dict[str, Json]]:
        ledger = kernel.ledger
        return [
            approval_json(
                one,
                deciders_of(context, name, ledger, one),
                is_shown=reader.is_operator or may_decide(ledger, reader, one),
                decides=may_decide(ledger, reader, one),
                sim_time=now,
            )
            for one in approvals
            if may_see(ledger, reader, one)
        ]

    return await world.query(look)


async def _whole(
    context: RequestContext,
    name: str,
    world: Orchestrator,
    reader: Reader,
    found: Approval,
    request: Request,
) -> dict[str, Json]:
    """Return one request as JSON, with the outcomes of its calls.

    Raises:
        Problem: The reader may not see it.
    """
    described = await _described(context, name, world, reader, [found])
    if not described:
        raise _no_request(found.id)
    if found.state == "approved":
        outcomes, records = await outcomes_of(world, found)
        context.reads.charge(context.principal(request).submitter, records=records)
        for call, outcome in zip(described[0]["calls"], outcomes, strict=True):
            call["status"], call["output"] = outcome
    return described[0]


async def _require_decider(
    context: RequestContext, name: str, world: Orchestrator, reader: Reader, found: Approval
) -> None:
    """Raise unless a reader may decide about a request; the rules of the world check it again.

    Raises:
        Problem: The reader may not see it, or not decide.
    """

    def look(kernel: Kernel) -> tuple[bool, bool, list[str]]:
        ledger = kernel.ledger
        return (
            may_see(ledger, reader, found),
            may_decide(ledger, reader, found),
            deciders_of(context, name, ledger, found),
        )

    is_seen, is_decider, deciders = await world.query(look)
    if not is_seen:  # as `get_request` answers: the id of a request is no permission
        raise _no_request(found.id)
    if not is_decider:
        role = f"the role {found.role!r}" if found.role else "a person of the configuration"
        raise Problem(
            "forbidden",
            f"{reader.name!r} may not decide about this request: it needs {role}, and a token that "
            "does not speak for an agent of the request",
            deciders=[*deciders],
        )


def _refused(answer: InboxAnswer, found: Approval, agents: Sequence[str]) -> Problem:
    """Return the problem of a decision that was not recorded.

    Args:
        answer: The answer of the inbox.
        found: The request before the decision.
        agents: The agent of each intent of the approving batch, after those of the inbox.
    """
    code = answer.codes[0]
    approval = answer.request or found
    if code in _FORBIDDEN:
        problem = "forbidden"
    elif code in _CONFLICTS or approval.state == "stale":
        problem = "conflict"
    else:
        problem = code_of_status(status_of(answer.verdict))
    seconds = retry_after(answer.verdict)
    refusals: list[dict[str, Json]] = [
        {
            "call": _call_at(one.index, answer.ahead, found.agent, agents),
            "code": one.code,
            "message": one.message,
            # Within the call: the place of an intent in the batch is the server's own.
            "at": one.at.removeprefix(f"/intents/{one.index}"),
            "suggestions": [*one.suggestions],
            "retry_after": one.retry_after,
        }
        for one in answer.refusals
    ]
    return Problem(
        problem,
        answer.message,
        headers=None if seconds is None else {"retry-after": seconds},
        refusal=code,
        state=approval.state,
        refusals=refusals,
    )


def _call_at(index: int | None, ahead: int, agent: str, agents: Sequence[str]) -> int | None:
    """Return the number of the call that a refusal is of, from 0; None if it is of no call."""
    at = -1 if index is None else index - ahead
    if not 0 <= at < len(agents) or agents[at] != agent:
        return None
    return agents[:at].count(agent)
