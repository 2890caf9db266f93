"""The endpoints of seed 001: one route per kind of the domain `program`. Served if it is.

A program is a world. A body is the payload of one kind, optionally with `req_id` and `context_seq`.
The response is the gate's verdict, with the kind's output in its result.
"""

from collections.abc import Mapping
from secrets import token_hex
from typing import Annotated, Final, Literal, NamedTuple

from fastapi import APIRouter, FastAPI, Query, Request
from starlette.responses import Response

from placet.domains.program.domain import HELLO
from placet.kernel.kernel import Kernel
from placet.runtime.orchestrator import Orchestrator
from placet.schemas.codec import Json
from placet.schemas.intent import SCHEMA_VERSION
from placet.schemas.json_value import format_value
from placet.server.context import RequestContext, context_of
from placet.server.http.bodies import identity
from placet.server.http.problems import Problem
from placet.server.openapi import VERDICT_ANSWERS
from placet.server.routes.batches import verdict_answer

router = APIRouter(tags=["programs"])

_PROGRAM: Final = "program"
_HOST: Final = "host"
"""In whose name the operator edits; nobody else may have it."""

_PRIORITY: Final = 10
_ENVELOPE: Final = frozenset({"req_id", "context_seq"})


class _Route(NamedTuple):
    """A route for one kind.

    Attributes:
        name: Last part of its path.
        kind: Kind of the submitted intent.
        summary: Short description.
        tells: Description in one sentence.
        example: Example payload.
    """

    name: str
    kind: str
    summary: str
    tells: str
    example: Mapping[str, Json]


_ROUTES: Final = (
    _Route(
        "mutations",
        "program.mutate_batch",
        "Change functions",
        "Do all mutations, in order, or none. Safe to repeat with one `req_id`.",
        {"mutations": list(HELLO)},
    ),
    _Route(
        "verify",
        "program.verify",
        "List errors and warnings",
        "List errors and warnings of one function, or of all.",
        {"function": "main"},
    ),
    _Route(
        "simulate",
        "program.simulate",
        "Run a function",
        "Run a function with bounded fuel.",
        {"function": "main", "inputs": {}},
    ),
    _Route(
        "compile",
        "program.compile",
        "Compile to Python",
        "Make Python source of a function and all it calls.",
        {"entry": "main"},
    ),
)


def routes(app: FastAPI) -> APIRouter | None:
    """Return the routes if the application's worlds are programs; else None."""
    context: RequestContext = app.state.context
    served = any(one.name == _PROGRAM for one in context.worlds.first.domains)
    return router if served else None


def _add(route: _Route) -> None:
    """Add a route whose body is the payload of its kind."""

    async def submit(program: str, request: Request) -> Response:
        context = context_of(request)
        context.world_for(request, program, _PROGRAM)  # a stranger's body is not read
        given = await context.document(request, fields=frozenset())
        envelope = {field: given.pop(field) for field in _ENVELOPE & given.keys()}
        return await _propose(program, route.kind, given, request, **envelope)

    schema = {
        "type": "object",
        "description": f"The payload of `{route.kind}`, with req_id and context_seq beside it if "
        "need be",
    }
    examples = {"default": {"value": route.example}}
    content = {"application/json": {"schema": schema, "examples": examples}}
    router.add_api_route(
        f"/programs/{{program}}/{route.name}",
        submit,
        methods=["POST"],
        name=route.name,
        summary=route.summary,
        description=route.tells,
        responses=VERDICT_ANSWERS,
        openapi_extra={"requestBody": {"required": True, "content": content}},
    )


for _route in _ROUTES:
    _add(_route)


@router.get("/programs/{program}/history", summary="List changes", responses=VERDICT_ANSWERS)
async def history(
    program: str,
    request: Request,
    op: Literal["list", "diff"] = "list",
    from_seq: Annotated[int | None, Query(ge=0, le=2**53)] = None,
    to_seq: Annotated[int | None, Query(ge=0, le=2**53)] = None,
    limit: Annotated[int | None, Query(ge=1, le=200)] = None,
) -> Response:
    """List the changes of the program, or compare two moments."""
    given = {"op": op, "from_seq": from_seq, "to_seq": to_seq, "limit": limit}
    payload = {name: value for name, value in given.items() if value is not None}
    return await _propose(program, "program.history_query", payload, request)


async def _propose(
    program: str,
    kind: str,
    payload: Mapping[str, Json],
    request: Request,
    *,
    req_id: Json = None,
    context_seq: Json = None,
) -> Response:
    """Submit one intent on behalf of the caller."""
    context = context_of(request)
    world = context.world_for(request, program, _PROGRAM)
    who = context.principal(request)
    if context_seq is not None and type(context_seq) is not int:
        raise Problem(
            "request_invalid", f"context_seq must be a number, got {format_value(context_seq)}"
        )
    name = _HOST if who.is_operator else who.submitter
    if name == _HOST and not who.is_operator:
        raise Problem("forbidden", f"the name {_HOST!r} is the operator's in a program")
    await _register(world, name)
    intent = {
        "kind": kind,
        "payload": dict(payload),
        "agent_id": name,
        "req_id": f"http-{token_hex(8)}" if req_id is None else identity(req_id, "req_id"),
        "context_seq": world.seq if context_seq is None else context_seq,
        "priority": _PRIORITY,
        "schema_version": SCHEMA_VERSION,
    }
    return verdict_answer(await world.submit_nowait([intent], submitter=who.submitter))


async def _register(world: Orchestrator, name: str) -> None:
    """Register an agent on its first request.

    A removed agent stays removed until the operator registers it.
    """

    def is_new(kernel: Kernel) -> bool:
        return name not in kernel.ledger.agents and name not in kernel.ledger.gone

    if await world.query(is_new):
        await world.register_agent(name)
