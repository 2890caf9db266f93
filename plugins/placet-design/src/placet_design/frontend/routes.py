"""The endpoints of seed 000: designs, plans, phases. Served if the domain is `design`.

A design is a world, and a plan is a batch: this module converts between them, and verdicts into the
design protocol's form. A plan that the rules reject is a 200 with `success=false`; other errors
have the form that all routes use.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Final

from msgspec import Meta, to_builtins
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response

from placet.kernel.kernel import Kernel
from placet.kernel.plugin.domain import Domain
from placet.runtime.orchestrator import Orchestrator
from placet.schemas.codec import Json
from placet.schemas.event import Event
from placet.schemas.identity import ID_CHARS_MAX
from placet.schemas.verdict import Verdict
from placet.server.context import RequestContext, context_of
from placet.server.credentials import Principal
from placet.server.http.parameters import (
    Fields,
    FromRecord,
    Identity,
    PageLimit,
    PathPart,
    SinceSeq,
)
from placet.server.http.problems import Problem
from placet.server.http.responses import json_response
from placet.server.http.routing import ApiRoute, Body, Routes
from placet.server.openapi import answers
from placet.server.roles import Role
from placet.server.routes.batches import verdict_answer
from placet.server.routes.state import durable_events, sight_of
from placet.server.worlds import Worlds
from placet_design import Design, audit, project
from placet_design.access import access_fault, shown_access
from placet_design.actions.plans import PlanInvalidError, intent_of, parse_proposed
from placet_design.api.workspace import HOST
from placet_design.frontend.access import (
    Access,
    give_to,
    owner_of,
    require_set,
    role_of,
)
from placet_design.frontend.plan_handler import (
    DesignPlanHandler,
    answer_of,
    plan_schemas,
    preview_of,
    setup_of,
)
from placet_design.frontend.wire_schemas import EXAMPLES, SCHEMAS, plan_answers
from placet_design.payloads import DESIGNER_ROLE, OPERATOR_ROLE
from placet_design.phase_results import shown_phases
from placet_design.phases import PHASES
from placet_design.phases.states import PhaseState
from placet_design.views import read_design, version_of

table = Routes("designs")

_BESIDE: Final = frozenset({"approvals", "session"})
"""Names of the domains that a world of a design may have too."""
_WORLD_NOUN: Final = "design"
"""What a world is called here."""

_PHASE_SECONDS_MAX: Final = 30.0

_SHARE_MIN: Final = 8
"""Designs that a name may own as long as the server opens another one."""


class DesignCreation(Fields, frozen=True):
    """Request body that creates a design; its name is a part of a path."""

    design_id: Annotated[PathPart, Meta(max_length=ID_CHARS_MAX)]


class Sentence(Fields, frozen=True):
    """Request body with a sentence to parse; the plan gets its `intent_id` if there is one."""

    text: str
    intent_id: Identity | None = None


class Undo(Fields, frozen=True):
    """Request body of an undo, or of a run of a phase.

    A request with the same `req_id` again is the same request, and has no second effect.
    """

    req_id: Identity | None = None


class PlanQuery(Fields, frozen=True):
    """Query parameters of a request that submits a plan."""

    dry_run: Annotated[bool, Meta(description="Answer, and change nothing.")] = False


class DesignEventsQuery(Fields, frozen=True):
    """Query parameters of a request for a design's events."""

    since: SinceSeq = 0
    from_record: FromRecord = None
    limit: PageLimit = 100


class AuditQuery(Fields, frozen=True):
    """Query parameters of a request for a design's audit entries."""

    from_record: FromRecord = None
    limit: PageLimit = 100


def routes(app: Starlette) -> list[ApiRoute]:
    """Return the HTTP routes of designs; empty unless the app serves a design world.

    The world may have the session domain too. The routes can create further designs, each as a
    separate world with the settings of the first.
    """
    context: RequestContext = app.state.context
    worlds: Worlds = context.worlds
    domains = list(worlds.first.domains)
    if any(isinstance(domain, Design) for domain in domains):
        context.access = role_of
    design, *beside = domains
    if design.name != _WORLD_NOUN or {domain.name for domain in beside} - _BESIDE:
        return []
    assert isinstance(design, Design), "the domain of this name is this class"
    setup = design.setup

    def make(name: str) -> Sequence[Domain]:
        made = Design(
            design_id=name, policy=setup.policy, fields=setup.fields, undo_max=setup.undo_max
        )
        return [made, *beside]

    context.admits_unregistered = True  # a design is all that its world shows
    worlds.make = make
    worlds.what = _WORLD_NOUN
    app.state.schemas = {**app.state.schemas, **SCHEMAS, **plan_schemas()}
    return table.routes()


@table.on("GET", "/designs", "List designs", answers(200, "Designs", 401, 503))
async def list_designs(request: Request) -> Response:
    """List the designs that the token may read, with their versions."""
    context = context_of(request)
    who = context.principal(request)
    listed = [
        {"design_id": name, "design_version": await world.query(_version)}
        for name, world in context.worlds.all()
        if context.role_in(who, name) is not None
    ]
    return json_response({"designs": listed})


@table.on(
    "POST",
    "/designs",
    "Create a design",
    answers(201, "Design", 401, 403, 408, 409, 413, 415, 422, 503),
    body=Body(DesignCreation),
)
async def create_design(request: Request) -> Response:
    """Create a design; the name of the token owns it, and others do not see it.

    That of the operator is open to the agents that the operator registers in it, until its access
    is set. A token with claims is for the worlds that these name, so it creates none.
    """
    context = context_of(request)
    who = context.principal(request)
    if who.submitter in context.config.claims or who.submitter == HOST:
        raise Problem(
            "forbidden", "this token is for the worlds of its claims, and makes no design"
        )
    name = (await context.read(request, DesignCreation)).design_id
    world = await context.worlds.create(
        name,
        check=lambda: _require_room(context, who),
        prepare=lambda world: give_to(world, who.submitter),
    )
    context.worlds.creators[name] = who.submitter
    return json_response(await world.query(_shown), 201)


async def _require_room(context: RequestContext, who: Principal) -> None:
    """Raise if a name has as many designs as it may; the operator is not bounded.

    A design counts for its owner, and for its creator until the server ends, also if the creator
    gave it away. A name has at most as many as there are free places, and 8 in any case, so that
    one name leaves room for others.

    Raises:
        Problem: It does.
    """
    if who.is_operator:
        return
    limits, room = context.limits, context.worlds.room
    creators = context.worlds.creators
    own = sum(
        who.submitter in {world.query_nowait(owner_of), creators.get(name)}
        for name, world in context.worlds.all()
    )
    if own >= limits.worlds_per_token_max:
        raise Problem("forbidden", f"{who.submitter!r} has {own} designs, which is all")
    if own >= max(room, _SHARE_MIN):
        raise Problem(
            "unavailable",
            f"{who.submitter!r} has {own} designs, and this server opens {room} more, which are "
            "for others; ask the operator",
        )


@table.on("GET", "/designs/{design_id}", "Get a design", answers(200, "Design", 401, 404, 503))
async def get_design(design_id: str, request: Request) -> Response:
    """Return a design: its version, its parameters in kernel units, its locks and phases."""
    _, world = _enter(request, design_id)
    return json_response(await world.query(_shown))


@table.on(
    "GET",
    "/designs/{design_id}/access",
    "Get the access to a design",
    answers(200, "Access", 401, 404, 503),
)
async def get_design_access(design_id: str, request: Request) -> Response:
    """Return who may read and change a design: its owner, editors and readers."""
    _, world = _enter(request, design_id)
    return json_response(await world.query(shown_access))


@table.on(
    "PUT",
    "/designs/{design_id}/access",
    "Set the access to a design",
    answers(200, "Access", 401, 403, 404, 408, 413, 415, 422, 503),
    body=Body(Access, EXAMPLES["Access"]),
)
async def set_design_access(design_id: str, request: Request) -> Response:
    """Replace the access to a design; its owner and operators may. The latest request holds.

    An owner that names another gives the design away.
    """
    context = context_of(request)
    who, world = _enter(request, design_id, needs=Role.AGENT)
    access = to_builtins(await context.read(request, Access))
    fault = await world.query(lambda kernel: access_fault(shown_access(kernel), access))
    if fault:
        raise Problem("request_invalid", fault)
    handler = _plan_handler(who, world)
    await handler.enter()
    seq = await world.query(lambda kernel: kernel.seq)
    intent = intent_of("design.set_access", access, handler.agent_id, handler.fresh_id(), seq)
    require_set(await world.submit_nowait([intent], submitter=handler.submitter))
    return json_response(await world.query(shown_access))


@table.on(
    "POST",
    "/designs/{design_id}/actions",
    "Execute a plan",
    plan_answers("PlanAnswer"),
    body=Body("Plan", EXAMPLES["Plan"]),
    is_hot=True,
)
async def execute_plan(design_id: str, request: Request, query: PlanQuery) -> Response:
    """Execute a plan as a whole. The same plan again gets the same answer."""
    context = context_of(request)
    who, world = _enter(request, design_id, needs=Role.AGENT)
    body = await context.document(request)
    try:
        plan, intent = parse_proposed(design_id, body)
    except PlanInvalidError as error:
        code = "version_required" if error.is_version_missing else "request_invalid"
        problems = [{"at": at, "message": message} for at, message in error.problems]
        raise Problem(code, str(error), problems=problems) from error
    return await _plan_handler(who, world).execute(plan, intent, dry_run=query.dry_run)


@table.on(
    "POST",
    "/designs/{design_id}/intent/preview",
    "Parse a sentence",
    answers(200, "Preview", 401, 404, 408, 413, 415, 422, 503),
    body=Body(Sentence, EXAMPLES["Sentence"]),
)
async def parse_sentence(design_id: str, request: Request) -> Response:
    """Parse a sentence into a plan that can be submitted as it is, or into a question."""
    context = context_of(request)
    _, world = _enter(request, design_id)
    said = await context.read(request, Sentence)
    setup = setup_of(world)
    return json_response(
        await world.query(
            lambda kernel: preview_of(kernel, setup, design_id, said.text, said.intent_id)
        )
    )


@table.on(
    "POST",
    "/designs/{design_id}/undo",
    "Undo the latest commit",
    plan_answers("StepAnswer"),
    body=Body(Undo, is_optional=True),
)
async def undo_commit(design_id: str, request: Request) -> Response:
    """Revert the latest commit by a new commit. Safe to repeat with one `req_id`."""
    who, world = _enter(request, design_id, needs=Role.AGENT)
    verdict, answer = await _step(request, who, world, "design.undo", {})
    if answer is None:
        return verdict_answer(verdict)
    return json_response({**answer, "design_version": await world.query(_version)})


@table.on(
    "GET", "/designs/{design_id}/phases", "List phases", answers(200, "Phases", 401, 404, 503)
)
async def list_phases(design_id: str, request: Request) -> Response:
    """Return every phase with its state and its results."""
    _, world = _enter(request, design_id)
    return json_response(await world.query(_phases))


@table.on(
    "POST",
    "/designs/{design_id}/phases/{phase}/run",
    "Run a phase",
    plan_answers("PhaseRun"),
    body=Body(Undo, is_optional=True),
)
async def run_phase(design_id: str, phase: str, request: Request) -> Response:
    """Run a phase; the response comes when its results are in the log.

    Success means a completed phase. A failed one names its missing inputs, under `rejections` and
    with the phase; an input may be the result of another phase, which must then run first.
    """
    who, world = _enter(request, design_id, needs=Role.AGENT)
    if phase not in PHASES:
        known = ", ".join(PHASES)
        raise Problem("not_found", f"there is no phase {phase!r:.80}; there are {known}")
    payload = {"phases": [phase]}
    verdict, answer = await _step(request, who, world, "design.run_phases", payload)
    if answer is None:
        return verdict_answer(verdict)
    try:
        async with asyncio.timeout(_PHASE_SECONDS_MAX):
            await world.wait_effects(verdict)
    except TimeoutError:
        raise Problem("unavailable", "the phase still runs; look at the phases later") from None
    return json_response(
        {**answer, **await world.query(lambda kernel: _ran(kernel, phase, answer))}
    )


@table.on(
    "GET",
    "/designs/{design_id}/events",
    "List events",
    answers(200, "Events", 401, 404, 410, 422, 503),
)
async def list_design_events(
    design_id: str, request: Request, query: DesignEventsQuery
) -> Response:
    """Return the design's events, from a limited number of records, and the next position."""
    who, world = _enter(request, design_id)
    found, page = await _records(request, who, world, query.since, query.from_record, query.limit)
    answer = [one.as_dict() for event in found for one in project(event)]
    return json_response({"events": answer, **page})


@table.on(
    "GET",
    "/designs/{design_id}/audit",
    "List provenance",
    answers(200, "Audit", 401, 404, 410, 422, 503),
)
async def list_design_audit(design_id: str, request: Request, query: AuditQuery) -> Response:
    """Return the audit entries of a limited number of records, and the next position.

    Rejected plans have entries too.
    """
    who, world = _enter(request, design_id)
    from_record = query.from_record
    if from_record is None:
        from_record = (await world.log_start()).record
    found, page = await _records(request, who, world, 0, from_record, query.limit)
    setup = setup_of(context_of(request).worlds.first)
    entries = [entry.as_dict() for entry in audit(found, setup)]
    return json_response({"entries": entries, **page})


async def _records(
    request: Request,
    who: Principal,
    world: Orchestrator,
    since: int,
    from_record: int | None,
    limit: int,
) -> tuple[list[Event], dict[str, Json]]:
    """Return the events that a caller may read, and the position to continue from."""
    end = world.records
    if from_record is None and since >= world.seq:
        return [], {"next_record": end, "is_end": True}
    count_max = min(limit, context_of(request).limits.page_items_max)
    page, place = await durable_events(world, since, from_record, end, count_max)
    viewpoint = await sight_of(context_of(request), who, world, None)
    readable = await world.query(lambda kernel: viewpoint.readable(kernel, page))
    return readable, {"next_record": place, "is_end": place >= end}


def _enter(
    request: Request, design_id: str, *, needs: Role = Role.READER
) -> tuple[Principal, Orchestrator]:
    """Return the caller of a request and the world of a design: see `RequestContext.enter`."""
    return context_of(request).enter(request, design_id, needs=needs, noun=_WORLD_NOUN)


def _plan_handler(who: Principal, world: Orchestrator) -> DesignPlanHandler:
    """Return the plan handler of a caller, as an agent of its name; the operator is the host."""
    name, role = (HOST, OPERATOR_ROLE) if who.is_operator else (who.submitter, DESIGNER_ROLE)
    return DesignPlanHandler(world, setup_of(world), name, role, who.submitter)


async def _step(
    request: Request,
    who: Principal,
    world: Orchestrator,
    kind: str,
    payload: Mapping[str, Json],
) -> tuple[Verdict, dict[str, Json] | None]:
    """Submit a single intent; return the verdict of the gate and the design protocol's answer.

    The answer is None for a verdict that the protocol has no form for.
    """
    body = await context_of(request).read(request, Undo, is_optional=True)
    handler = _plan_handler(who, world)
    await handler.enter()
    key = body.req_id or handler.fresh_id()
    seq = await world.query(lambda kernel: kernel.seq)
    verdict = await world.submit_nowait(
        [intent_of(kind, payload, handler.agent_id, key, seq)], submitter=handler.submitter
    )
    answer = answer_of(verdict)
    return verdict, None if answer is None else {**answer, "req_id": key}


def _ran(kernel: Kernel, name: str, answer: Mapping[str, Json]) -> dict[str, Json]:
    """Return the result of a run with the current phase, if the gate admitted the run."""
    phase = shown_phases(kernel.tree)[name]
    ran: dict[str, Json] = {"design_version": _version(kernel), "phase": {"name": name, **phase}}
    if not answer["success"] or phase["status"] == PhaseState.COMPLETED:
        return ran
    reason = phase["reason"] or f"phase {name!r} is {phase['status']}"
    rejection = {"path": name, "reason": reason, "code": f"phase_{phase['status']}"}
    return {**ran, "success": False, "rejections": [rejection]}


def _version(kernel: Kernel) -> int:
    return version_of(kernel.tree)


def _shown(kernel: Kernel) -> dict[str, Json]:
    return read_design(kernel.tree, kernel.ledger.now_ns).as_dict()


def _phases(kernel: Kernel) -> dict[str, Json]:
    return {"design_version": version_of(kernel.tree), "phases": shown_phases(kernel.tree)}
