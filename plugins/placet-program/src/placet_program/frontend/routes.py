"""The endpoints of seed 001: one route per kind of the domain `program`. Served if it is.

A program is a world. A body is the payload of one kind, optionally with `req_id` and `context_seq`.
The response is the gate's verdict, with the kind's output in its result.
"""

from collections.abc import Mapping, Sequence
from secrets import token_hex
from typing import Annotated, Final, Literal, NamedTuple

from msgspec import Meta
from msgspec.structs import asdict
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response

from placet.kernel.kernel import Kernel
from placet.kernel.plugin.domain import Domain
from placet.runtime.orchestrator import Orchestrator
from placet.schemas.codec import Json
from placet.server.context import RequestContext, context_of
from placet.server.http.parameters import Fields, Identity, Place, properties_of, read_fields
from placet.server.http.problems import Problem
from placet.server.http.routing import ApiRoute, Body, Routes
from placet.server.openapi import VERDICT_ANSWERS, payload_schemas
from placet.server.roles import Role
from placet.server.routes.batches import verdict_answer
from placet_program.domain import HELLO

table = Routes("programs")

_PROGRAM: Final = "program"
_HOST: Final = "host"
"""In whose name the operator edits; nobody else may have it."""


class RequestKey(Fields, frozen=True):
    """Optional fields of a request body, in addition to the fields of the payload."""

    req_id: Identity | None = None
    context_seq: Place | None = None


class ChangesQuery(Fields, frozen=True):
    """Query parameters of a request for a program's changes."""

    op: Literal["list", "diff"] = "list"
    from_seq: Annotated[int, Meta(ge=0, le=2**53)] | None = None
    to_seq: Annotated[int, Meta(ge=0, le=2**53)] | None = None
    limit: Annotated[int, Meta(ge=1, le=200)] | None = None


class _Route(NamedTuple):
    """A route for one kind.

    Attributes:
        name: Last part of its path.
        operation_id: Its name in the OpenAPI document.
        kind: Kind of the submitted intent.
        body: Name of the schema of its body.
        summary: Short description.
        tells: Description in one sentence.
        example: Example payload.
    """

    name: str
    operation_id: str
    kind: str
    body: str
    summary: str
    tells: str
    example: Mapping[str, Json]


_ROUTES: Final = (
    _Route(
        "mutations",
        "mutate_program",
        "program.mutate_batch",
        "ProgramMutations",
        "Change functions",
        "Do all mutations, in order, or none. Safe to repeat with one `req_id`.",
        {"mutations": list(HELLO)},
    ),
    _Route(
        "verify",
        "verify_program",
        "program.verify",
        "ProgramVerification",
        "List errors and warnings",
        "List errors and warnings of one function, or of all.",
        {"function": "main"},
    ),
    _Route(
        "simulate",
        "simulate_program",
        "program.simulate",
        "ProgramSimulation",
        "Run a function",
        "Run a function with bounded fuel.",
        {"function": "main", "inputs": {}},
    ),
    _Route(
        "compile",
        "compile_program",
        "program.compile",
        "ProgramCompilation",
        "Compile to Python",
        "Make Python source of a function and all it calls.",
        {"entry": "main"},
    ),
)


def routes(app: Starlette) -> list[ApiRoute]:
    """Return the HTTP routes of programs; empty unless the app's worlds are programs."""
    context: RequestContext = app.state.context
    domains = context.worlds.first.domains
    if not any(domain.name == _PROGRAM for domain in domains):
        return []
    app.state.schemas = {**app.state.schemas, **_body_schemas(domains)}
    return table.routes()


def _body_schemas(domains: Sequence[Domain]) -> dict[str, Json]:
    """Return the schemas of the bodies, by name: a payload, with the fields of `RequestKey`."""
    payloads, shared = payload_schemas(domains)
    schemas: dict[str, Json] = {}
    for route in _ROUTES:
        reference: str = payloads[route.kind]["$ref"]  # each is a TypedDict, so a named part
        payload: dict[str, Json] = shared[reference.rpartition("/")[2]]
        properties = {**payload["properties"], **properties_of(RequestKey)}
        schemas[route.body] = {**payload, "properties": properties}
    return schemas


def _add(route: _Route) -> None:
    """Add a route whose body is the payload of its kind."""

    async def submit(program: str, request: Request) -> Response:
        context = context_of(request)
        # Before the body, because a stranger's is not read.
        context.enter(request, program, needs=Role.AGENT, noun=_PROGRAM)
        payload = await context.document(request)
        beside = {
            name: payload.pop(name) for name in RequestKey.__struct_fields__ if name in payload
        }
        return await _propose(
            program, route.kind, payload, request, read_fields(beside, RequestKey)
        )

    submit.__name__, submit.__doc__ = route.operation_id, route.tells
    table.on(
        "POST",
        f"/programs/{{program}}/{route.name}",
        route.summary,
        VERDICT_ANSWERS,
        body=Body(route.body, {"default": {"value": route.example}}),
    )(submit)


for _route in _ROUTES:
    _add(_route)


@table.on("GET", "/programs/{program}/history", "List changes", VERDICT_ANSWERS)
async def list_program_changes(program: str, request: Request, query: ChangesQuery) -> Response:
    """List the changes of the program, or compare two moments, by an intent that is in the log."""
    payload = {name: value for name, value in asdict(query).items() if value is not None}
    return await _propose(program, "program.history_query", payload, request, RequestKey())


async def _propose(
    program: str,
    kind: str,
    payload: Mapping[str, Json],
    request: Request,
    key: RequestKey,
) -> Response:
    """Submit one intent on behalf of the caller."""
    context = context_of(request)
    who, world = context.enter(request, program, needs=Role.AGENT, noun=_PROGRAM)
    name = _HOST if who.is_operator else who.submitter
    if name == _HOST and not who.is_operator:
        raise Problem("forbidden", f"the name {_HOST!r} is the operator's in a program")
    await _register(world, name)
    intent: dict[str, Json] = {
        "kind": kind,
        "payload": dict(payload),
        "agent_id": name,
        "req_id": key.req_id or f"http-{token_hex(8)}",
    }
    if key.context_seq is not None:
        intent["context_seq"] = key.context_seq
    verdict = await world.submit_nowait([intent], submitter=who.submitter, fill_missing=True)
    return verdict_answer(verdict)


async def _register(world: Orchestrator, name: str) -> None:
    """Register an agent on its first request.

    A removed agent stays removed until the operator registers it.
    """

    def is_new(kernel: Kernel) -> bool:
        return name not in kernel.ledger.agents and name not in kernel.ledger.gone

    if await world.query(is_new):
        await world.register_agent(name)
