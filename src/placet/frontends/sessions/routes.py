"""Sessions over HTTP: send messages, read, and decide about approvals.

Served with the domain `session`.

The operator opens a session and names its people. An approval is decided by the owner of the
token, never by a name in a body; the submitter of a proposal cannot decide about it.
"""

from collections.abc import Awaitable, Mapping
from functools import partial
from typing import Final, NamedTuple

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response

from placet.agents.loop.recorder import SessionError, row_of
from placet.agents.loop.shared_budget import AccountNotFound
from placet.agents.proposal.codes import facts_of
from placet.agents.proposal.turn_result import Turn
from placet.agents.session.opener import agent_of
from placet.agents.session.session import Session
from placet.domains.session import Sessions
from placet.frontends.adapter_names import SCRIPTED, agent_limits
from placet.frontends.client_turn import failed_turn, visible_part
from placet.frontends.sessions.bodies import (
    DECISION,
    MESSAGE,
    MODE,
    OPENING,
    SCHEMAS,
    ApprovalDecision,
    SessionMessage,
    SessionMode,
    SessionOpening,
    adapter_of,
)
from placet.kernel.intent_visibility import speaks_for
from placet.runtime.orchestrator import Orchestrator
from placet.schemas.codec import Json, from_json
from placet.schemas.errors import AgentError, ClosedError
from placet.schemas.identity import OPERATOR
from placet.schemas.names import path_part_fault
from placet.server.context import RequestContext, context_of, entered
from placet.server.credentials import Principal
from placet.server.http.fair_share import release_body
from placet.server.http.problems import Problem
from placet.server.http.responses import json_response
from placet.server.http.routing import OF_WORLD, WORLD_PREFIX, Answers, ApiRoute, Routes
from placet.server.http.verdict_status import retry_after
from placet.server.openapi import answers
from placet.server.roles import Role

table = Routes("sessions", WORLD_PREFIX)

_TURN_STATUSES: Final = (403, 404, 409, 413, 422, 424, 429, 500, 501, 502, 503)
"""Statuses of a turn or of a problem."""


class _OpenSession(NamedTuple):
    """A session that is open in this process.

    Attributes:
        session: The session.
        proposer: Name of the adapter that proposes; None allows only commands.
        people: Roles of the people who may send messages and decide, besides the operator.
    """

    session: Session
    proposer: str | None
    people: Mapping[str, str]


Key = tuple[str, str]


def routes(app: Starlette) -> list[ApiRoute]:
    """Return the HTTP routes of agent sessions; none if the worlds have no domain `session`."""
    context: RequestContext = app.state.context
    if not any(isinstance(domain, Sessions) for domain in context.worlds.first.domains):
        return []
    opened: dict[Key, _OpenSession] = {}
    app.state.sessions = opened
    context.worlds.on_reopened.append(partial(_forget_sessions, opened))
    app.state.schemas = {**app.state.schemas, **SCHEMAS}
    return table.routes()


def _forget_sessions(opened: dict[Key, _OpenSession], world: str) -> None:
    """Forget the sessions of a world that was opened again, as after a start of the server."""
    for key in [key for key in opened if key[0] == world]:
        del opened[key]


def _turn_answers() -> Answers:
    """Declare a turn: its status is that of the code which ended it."""
    declared = dict(answers(200, "Turn", 401, 408, 415, *_TURN_STATUSES))
    turn = declared[200]["content"]
    for status in (202, *_TURN_STATUSES, 504):
        problem = declared.get(status, {}).get("content", {})
        declared[status] = {"description": "a turn, or a problem", "content": {**problem, **turn}}
    return declared


@table.on(
    "POST", "/sessions", "Open a session", "Session", 409, *OF_WORLD, status=201, body=OPENING
)
async def open_session(world: str, request: Request) -> Json:
    """Open a session in which an agent proposes, or continue the one of this name; operator only.

    Its turns and approvals are in the log, and so is each turn's mode, which is the default on
    reopening. Proposer and people are not in the log: pass them each time.
    """
    context, _, orchestrator = entered(request, world, Role.OPERATOR)
    body = await context.read(request, SessionOpening, is_optional=True)
    name = body.session
    await _require_address(orchestrator, name)
    agent = await _agent_of(orchestrator, name, body.agent)
    if agent in body.people:
        raise Problem("request_invalid", f"{agent!r} proposes, so it does not decide")
    model = body.model(context.config.model)
    adapter = None if body.proposer is None else adapter_of(model)
    limits = agent_limits(model)
    opened: dict[Key, _OpenSession] = request.app.state.sessions
    if (world, name) in opened:
        raise Problem("conflict", f"the session {name!r} is open already")
    count_max = context.limits.sessions_max
    if len(opened) >= count_max:
        raise Problem(
            "unavailable",
            f"{count_max} sessions are open, the most that this server opens; close one first",
        )
    try:
        session = await Session.open(
            world=orchestrator,
            session=name,
            agent=agent,
            mode=body.mode,
            adapter=adapter,
            limits=limits,
            budget=model.budget,
        )
    except (AgentError, AccountNotFound) as error:
        raise Problem("request_invalid", str(error)) from error
    except SessionError as error:  # another was faster
        raise Problem("conflict", str(error), refusal=error.code) from error
    proposer = None if adapter is None else model.name or SCRIPTED
    opening = _OpenSession(session, proposer, body.people)
    if opened.setdefault((world, name), opening) is not opening:  # another was opened meanwhile
        await session.close()
        raise Problem("conflict", f"the session {name!r} is open already")
    return await _described(opening)


@table.on("GET", "/sessions/{session}", "Get a session", "Session", *OF_WORLD)
async def get_session(world: str, session: str, request: Request) -> Json:
    """Return a session: its agent, its mode, and its turns."""
    opened, _ = await _entered(world, session, request)
    return await _described(opened)


@table.on("DELETE", "/sessions/{session}", "Close a session", "", *OF_WORLD, status=204)
async def close_session(world: str, session: str, request: Request) -> None:
    """Close a session, if it is open; operators only. Safe to repeat.

    A turn that waits for its proposer is stopped. Turns and approval requests stay in the log.
    """
    entered(request, world, Role.OPERATOR)
    sessions: dict[Key, _OpenSession] = request.app.state.sessions
    opened = sessions.pop((world, session), None)
    if opened is not None:
        await opened.session.close()


@table.on("PUT", "/sessions/{session}/mode", "Set session mode", "Session", *OF_WORLD, body=MODE)
async def set_session_mode(world: str, session: str, request: Request) -> Json:
    """Set how much the agent of a session may do without confirmation; operators only."""
    opened, _ = await _entered(world, session, request, needs=Role.OPERATOR)
    opened.session.mode = (await context_of(request).read(request, SessionMode)).mode
    return await _described(opened)


@table.on("POST", "/sessions/{session}/messages", "Send a message", _turn_answers(), body=MESSAGE)
async def send_message(world: str, session: str, request: Request) -> Response:
    """Send a message, and return the completed turn. Not safe to retry blindly."""
    opened, who = await _entered(world, session, request, needs=Role.AGENT)
    body = await context_of(request).read(request, SessionMessage)
    release_body(request.scope)  # a turn may wait for a step, and for the proposer
    return await _answered(opened.session.send(body.message), opened, who)


@table.on("GET", "/sessions/{session}/approvals", "List pending approvals", "Approvals", *OF_WORLD)
async def list_approvals(world: str, session: str, request: Request) -> Json:
    """List the approval requests of a session, oldest first: decided and open ones."""
    opened, who = await _entered(world, session, request)
    approvals = await opened.session.approvals()
    if _speaks_for_proposer(opened, who):
        approvals = [await visible_part(one, opened.session) for one in approvals]
    listed = [one.model_dump(mode="json") for one in approvals]
    return {"approvals": listed}


@table.on(
    "POST",
    "/sessions/{session}/approvals/{approval_id}",
    "Decide pending approvals",
    _turn_answers(),
    body=DECISION,
)
async def decide_approval(world: str, session: str, approval_id: str, request: Request) -> Response:
    """Approve a held plan unchanged, deny it, or edit it: submit other actions instead.

    The person who decides is named by the token. The proposer's token is refused.
    """
    opened, who = await _entered(world, session, request, needs=Role.AGENT)
    person, role = await _person(opened, who)
    body = await context_of(request).read(request, ApprovalDecision)
    release_body(request.scope)  # a turn may wait for a step
    if (body.decision == "edit") != bool(body.actions):
        raise Problem("request_invalid", "actions are for an edit, and an edit needs them")
    if approval_id not in [one.id for one in await opened.session.approvals()]:
        raise Problem(
            "not_found", f"there is no approval request {approval_id!r:.200} in this session"
        )
    if body.actions:
        actions = [(action.kind, action.payload) for action in body.actions]
        edit = opened.session.edit(approval_id, actions, person, role=role)
        return await _answered(edit, opened, who)
    resolution = opened.session.resolve(approval_id, body.decision, person, role=role)
    return await _answered(resolution, opened, who)


# who may do what


async def _entered(
    world: str, session: str, request: Request, *, needs: Role = Role.READER
) -> tuple[_OpenSession, Principal]:
    """Find a session for who may be in it: the operator, its people, and its proposer.

    Raises:
        Problem: It is a stranger, or there is no such session; others are not told which.
    """
    _, who, orchestrator = entered(request, world, needs)
    sessions: dict[Key, _OpenSession] = request.app.state.sessions
    opened = sessions.get((world, session))
    is_known = opened is not None and (
        who.submitter in opened.people
        or (
            await _speaks_for(orchestrator, who, opened.session.agent_id)
            and await opened.session.has_agent()
        )
    )
    if not who.is_operator and not is_known:
        raise Problem(
            "forbidden",
            f"this token is not of the session {session!r:.200}, or that is not open: the operator "
            "opens it and names its people, again after each start of the server",
        )
    if opened is None:
        raise Problem("not_found", f"no session {session!r:.200} is open; open it first")
    return opened, who


async def _person(opened: _OpenSession, who: Principal) -> tuple[str, str]:
    """Return who decides, and in which role.

    Raises:
        Problem: The token belongs to the proposer, or to no person of the session.
    """
    if who.is_operator:
        return OPERATOR, OPERATOR
    world = opened.session.world
    assert isinstance(world, Orchestrator), "doors serve worlds of the runtime"
    speaks_for_it = await _speaks_for(world, who, opened.session.agent_id)
    if speaks_for_it or who.submitter not in opened.people:  # an owner whose agent has just gone
        raise Problem("forbidden", "a token of the proposer cannot decide on its plan")
    return who.submitter, opened.people[who.submitter]


def _speaks_for_proposer(opened: _OpenSession, who: Principal) -> bool:
    """Return whether a caller in a session is neither the operator nor a person who decides."""
    return not who.is_operator and who.submitter not in opened.people


async def _speaks_for(world: Orchestrator, who: Principal, agent_id: str) -> bool:
    return await world.query(lambda kernel: speaks_for(kernel.ledger, who.submitter, agent_id))


async def _require_address(world: Orchestrator, session: str) -> None:
    """Check that a session can be a part of a path; one that is in the log keeps its old name.

    Raises:
        Problem: It is new and the rule for names refuses it, or no path leads to it.
    """
    fault = path_part_fault(session)
    if not fault:
        return
    is_reachable = "/" not in session and session not in {".", ".."}
    if not is_reachable or await row_of(world, session) is None:
        raise Problem("request_invalid", f"the name of a session {fault}")


async def _agent_of(world: Orchestrator, session: str, agent_id: str | None) -> str:
    """Return the agent of the session; without a name, the one that it belongs to.

    Raises:
        Problem: The name is reserved, or the session is another's.
    """
    try:
        return await agent_of(world, session, agent_id)
    except ValueError as error:
        raise Problem("request_invalid", str(error)) from error
    except SessionError as error:
        raise Problem("conflict", str(error), refusal=error.code) from error


async def _answered(
    pending_turn: Awaitable[Turn], opened: _OpenSession, who: Principal
) -> Response:
    """Answer with a turn, by the status of what ended it; also with one that could not begin.

    Raises:
        Problem: The session was closed while it waited.
    """
    try:
        turn = await pending_turn
    except SessionError as error:
        seconds = None if error.verdict is None else retry_after(error.verdict)
        headers = {} if seconds is None else {"retry-after": seconds}
        return _answer(failed_turn(opened.session, error), headers)
    except ClosedError as error:
        if not opened.session.is_closed:
            raise
        raise Problem("conflict", str(error)) from error
    if _speaks_for_proposer(opened, who):
        turn = await visible_part(turn, opened.session)
    return _answer(turn)


# answers


async def _described(opened: _OpenSession) -> dict[str, Json]:
    session = opened.session
    return {
        "session": session.name,
        "agent": session.agent_id,
        "mode": session.mode,
        "proposer": opened.proposer,
        "people": dict(opened.people),
        "seq": session.world.seq,
        "turns": await session.turns(),
    }


def _answer(turn: Turn, headers: Mapping[str, str] | None = None) -> Response:
    status = facts_of(turn.stop).http
    return json_response(from_json(turn.model_dump_json()), status, headers)
