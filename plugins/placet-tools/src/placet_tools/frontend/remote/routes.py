"""Routes of calls of tools, for workers: programs that call by `Gate(url=...)`.

A worker asks for calls by their keys. The answer has the calls that this worker must run, each with
a claim; the worker settles them, and asks again until the answer has the outcomes.
"""

import asyncio
from dataclasses import asdict
from typing import Annotated, Final
from weakref import WeakKeyDictionary

from msgspec import Meta
from starlette.applications import Starlette
from starlette.requests import Request

from placet.runtime.orchestrator import Orchestrator
from placet.schemas.codec import Json
from placet.server.context import RequestContext, entered
from placet.server.http.fair_share import release_body
from placet.server.http.parameters import Fields
from placet.server.http.problems import Problem
from placet.server.http.routing import OF_WORLD, WORLD_PREFIX, ApiRoute, Body, Routes
from placet.server.roles import Role
from placet.server.wire_schemas import array_schema, object_schema, ref
from placet_tools.domain import ToolsDomain
from placet_tools.frontend.calls import KEY_CHARS_MAX, KeyInvalid
from placet_tools.frontend.claims import Ending
from placet_tools.frontend.remote.world_gate import Answer, WorldGate
from placet_tools.outcome import Outcome

WAIT_SECONDS_MAX: Final = 25.0
"""Seconds after which a request is answered though its calls have no outcomes; ask again."""

table = Routes("calls", WORLD_PREFIX)

_TEXT: Final = {"type": "string"}
_OUTCOME: Final = object_schema(
    {
        "status": _TEXT,
        "output": {},
        "message": _TEXT,
        "codes": array_schema(_TEXT),
        "approval": _TEXT,
        "key": _TEXT,
    }
)
_CLAIM: Final = object_schema(
    {
        "id": _TEXT,
        "key": _TEXT,
        "tool": _TEXT,
        "args": {"type": "object"},
        "seconds": {"type": "number"},
    }
)
SCHEMAS: Final[dict[str, Json]] = {
    "CallOutcome": _OUTCOME,
    "CallClaim": _CLAIM,
    "CallsAnswer": object_schema(
        {
            "claims": array_schema(ref("CallClaim")),
            "outcomes": {"anyOf": [array_schema(ref("CallOutcome")), {"type": "null"}]},
        }
    ),
    "ToolVersions": object_schema(
        {"name": _TEXT, "tools": {"type": "object", "additionalProperties": _TEXT}}
    ),
}

_Key = Annotated[str, Meta(min_length=1, max_length=KEY_CHARS_MAX + 4)]
_Name = Annotated[str, Meta(min_length=1, max_length=128)]
_Seconds = Annotated[float, Meta(ge=0, le=WAIT_SECONDS_MAX, description="Seconds to wait.")]


class SubmittedCall(Fields, frozen=True):
    """One call: a tool, or a kind of another domain, and its arguments."""

    key: _Key
    tool: _Name
    args: dict[str, Json]


class CallsBody(Fields, frozen=True):
    """The request body of `submit_calls`; several calls are one plan, with keys `K.0`, `K.1`, ….

    `is_new`: the keys are certainly new. `runs`: false only tries the calls, and requests an
    approval.
    """

    agent: _Name
    calls: Annotated[list[SubmittedCall], Meta(min_length=1, max_length=256)]
    is_new: bool = False
    runs: bool = True
    wait_s: _Seconds = WAIT_SECONDS_MAX


class CallQuery(Fields, frozen=True):
    """The query parameters of `get_call`; `claims` also returns the call itself, to run it."""

    claims: bool = False
    wait_s: _Seconds = 0.0


class SettlementBody(Fields, frozen=True):
    """The request body of `settle_call`: a claim, or empty for a call that is in doubt.

    `by` and `reason` are of the person who settles a call in doubt; the token's program vouches.
    """

    ending: Ending
    output: Json = None
    by: Annotated[str, Meta(max_length=128)] = ""
    reason: Annotated[str, Meta(max_length=2_000)] = ""
    claim: Annotated[str, Meta(max_length=64)] = ""


_EXAMPLE: Final = {
    "pay": {
        "value": {
            "agent": "support",
            "calls": [{"key": "t1", "tool": "pay", "args": {"order": "A7", "euro": 5}}],
        }
    }
}


def routes(app: Starlette) -> list[ApiRoute]:
    """Return the routes of calls; empty unless the tools of the served world run on workers."""
    context: RequestContext = app.state.context
    if _tools_of(context.worlds.first) is None:
        return []
    app.state.schemas = {**app.state.schemas, **SCHEMAS}
    return table.routes()


@table.on("GET", "/tools", "Get the versions of the tools", "ToolVersions", *OF_WORLD)
async def get_tools(world: str, request: Request) -> Json:
    """Return a version of each tool, which changes with its declaration."""
    _, _, orchestrator = entered(request, world, Role.OPERATOR)
    domain = _require_tools(orchestrator)
    return {"name": domain.name, "tools": domain.versions()}


@table.on(
    "POST",
    "/calls",
    "Submit calls of tools",
    "CallsAnswer",
    500,
    *OF_WORLD,
    body=Body(CallsBody, _EXAMPLE),
)
async def submit_calls(world: str, request: Request) -> Json:
    """Decide calls, and return the claims of calls that this worker must run, or the outcomes.

    A call with a known key is not decided again. Repeat the request if `outcomes` is null.
    """
    context, _, orchestrator = entered(request, world, Role.OPERATOR)
    body = await context.read(request, CallsBody)
    release_body(request.scope)  # the tools may run for long
    keys = [call.key for call in body.calls]
    first = keys[0].removesuffix(".0")
    if len(keys) > 1 and keys != [f"{first}.{number}" for number in range(len(keys))]:
        raise Problem("request_invalid", "the keys of a plan are K.0, K.1 and so on")
    gate = await _gate_of(orchestrator)
    try:
        answer = await gate.submit(
            [(call.key, call.tool, call.args) for call in body.calls],
            agent=body.agent,
            is_new=body.is_new,
            runs=body.runs,
            wait_s=body.wait_s,
        )
    except (KeyInvalid, ValueError) as error:
        raise Problem("request_invalid", str(error)) from error
    return _as_json(answer)


@table.on("GET", "/calls/{key:path}", "Get the outcome of a call", "CallsAnswer", *OF_WORLD)
async def get_call(world: str, key: str, request: Request, query: CallQuery) -> Json:
    """Return the outcome of a call; wait for one that runs, and not for a person."""
    _, _, orchestrator = entered(request, world, Role.OPERATOR)
    gate = await _gate_of(orchestrator)
    try:
        return _as_json(await gate.look(key, claims=query.claims, wait_s=query.wait_s))
    except LookupError as error:
        raise Problem("not_found", str(error.args[0])) from error


@table.on(
    "POST",
    "/effects/{key:path}",
    "Settle a call",
    "CallsAnswer",
    409,
    500,
    *OF_WORLD,
    body=Body(SettlementBody, {"done": {"value": {"ending": "done", "claim": "0e62…"}}}),
)
async def settle_call(world: str, key: str, request: Request) -> Json:
    """Settle a call by the claim of the worker that ran it; without a claim, one that is in doubt.

    409 if the claim is over or another worker's: the answer names the status of the call.
    """
    context, _, orchestrator = entered(request, world, Role.OPERATOR)
    body = await context.read(request, SettlementBody)
    release_body(request.scope)
    gate = await _gate_of(orchestrator)
    try:
        if not body.claim:
            done = body.ending == "done"
            outcome = await gate.settle(
                key, done=done, output=body.output, by=body.by, reason=body.reason
            )
            return _as_json(Answer(outcomes=[outcome]))
        if gate.claims.settle(key, body.claim, body.ending, body.output):
            return _as_json(Answer())
        answer = await gate.look(key, claims=False, wait_s=0.0)
    except LookupError as error:
        raise Problem("not_found", str(error.args[0])) from error
    except ValueError as error:
        raise Problem("request_invalid", str(error)) from error
    status = answer.outcomes[0].status if answer.outcomes else "running"
    raise Problem(
        "conflict",
        f"the claim of call {key!r} is over, or another worker's; the call is {status}",
        status_of_call=status,
    )


_GATES: "WeakKeyDictionary[Orchestrator, asyncio.Task[WorldGate]]" = WeakKeyDictionary()


async def _gate_of(world: Orchestrator) -> WorldGate:
    """Return the gate of a world, which is made with the first request."""
    domain = _require_tools(world)
    if world not in _GATES:
        _GATES[world] = asyncio.create_task(_resumed(WorldGate(world, domain)))
    return await asyncio.shield(_GATES[world])


async def _resumed(gate: WorldGate) -> WorldGate:
    await gate.resume()
    return gate


def _tools_of(world: Orchestrator) -> ToolsDomain | None:
    domains = [one for one in world.domains if isinstance(one, ToolsDomain)]
    return next((one for one in domains if one.runs_on_workers), None)


def _require_tools(world: Orchestrator) -> ToolsDomain:
    """Return the tools of a world that run on workers.

    Raises:
        Problem: It has none.
    """
    domain = _tools_of(world)
    if domain is None:
        raise Problem(
            "not_found",
            "no tools of this world run on workers; serve `tools.domain(runs_on_workers=True)`",
        )
    return domain


def _as_json(answer: Answer) -> Json:
    return {
        "claims": [asdict(claim) for claim in answer.claims],
        "outcomes": None if answer.outcomes is None else [_outcome(one) for one in answer.outcomes],
    }


def _outcome(outcome: Outcome) -> Json:
    return {**asdict(outcome), "codes": list(outcome.codes)}
