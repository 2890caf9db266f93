"""Look: worlds, state, events, kinds. Every answer carries the seq at which it is true."""

from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import asdict
from functools import partial
from typing import Annotated, Final, TypeVar

from msgspec import Meta
from starlette.requests import Request

from placet.kernel.kernel import Kernel
from placet.runtime.orchestrator import Orchestrator
from placet.schemas.codec import Json, to_json
from placet.schemas.event import Event
from placet.server.context import RequestContext, context_of, entered
from placet.server.credentials import Principal
from placet.server.http.parameters import (
    AfterEntity,
    EntityLimit,
    Fields,
    FromRecord,
    PageLimit,
    SinceSeq,
    ViewAgent,
)
from placet.server.http.problems import Problem
from placet.server.http.reads import Reads
from placet.server.http.routing import OF_WORLD, Routes
from placet.server.roles import Role
from placet.server.viewpoint import Viewpoint, WorldMoment

table = Routes("reading")

T = TypeVar("T")

_ENTITIES_AT_ONCE_MAX: Final = 256
_EVENTS_AT_ONCE_MAX: Final = 64
"""Looked at in one pass of the event loop, about 2 ms; other clients wait that long."""


class StateQuery(Fields, frozen=True):
    """The query parameters of `get_state`."""

    path: str = ""
    agent: ViewAgent = None
    after: AfterEntity = None
    limit: EntityLimit = None


class EventsQuery(Fields, frozen=True):
    """The query parameters of `list_events`."""

    since: SinceSeq = 0
    from_record: FromRecord = None
    limit: PageLimit = 100
    agent: ViewAgent = None


class FaultsQuery(Fields, frozen=True):
    """The query parameters of `list_faults`: those raised after a time, seconds since 1970."""

    after_s: Annotated[float, Meta(ge=0)] = 0.0


class StepRequest(Fields, frozen=True):
    """The request body of `step_world`: `dt`, the simulated seconds to advance by."""

    dt: Annotated[float, Meta(ge=0)]


@table.on("GET", "/kinds", "List kinds", "Kinds", 401)
async def list_kinds(request: Request) -> Json:
    """Return every kind with the JSON Schema of its payload, and the limits."""
    context = context_of(request)
    context.principal(request)
    return request.app.state.kinds()


@table.on("GET", "/worlds", "List worlds", "Worlds", 401)
async def list_worlds(request: Request) -> Json:
    """List the worlds that the token may use; `submitter` names whom it acts for.

    The operator also gets `unopened`, if there are any: worlds whose files could not be opened when
    the server started, each with the reason.
    """
    context = context_of(request)
    who = context.principal(request)
    described = [
        _described(name, world)
        for name, world in context.worlds.all()
        if context.role_in(who, name) is not None
    ]
    listed: dict[str, Json] = {"worlds": described, "submitter": who.submitter}
    unopened = context.worlds.unopened
    if who.is_operator and unopened:
        listed["unopened"] = [{"world": name, "reason": why} for name, why in unopened.items()]
    return listed


@table.on("GET", "/worlds/{world}", "Get a world", "World", 401, 404)
async def get_world(world: str, request: Request) -> Json:
    """Return a world's seq, simulated time, domains and store."""
    return _described(world, context_of(request).enter(request, world)[1])


@table.on("GET", "/worlds/{world}/faults", "List faults", "Faults", *OF_WORLD)
async def list_faults(world: str, request: Request, query: FaultsQuery) -> Json:
    """List the latest exceptions of rules, policies and executors with their tracebacks.

    They are those since this process opened the world, from `since_s` on; the one that was raised
    last is first. No log holds them. An exception is listed once for each line that raised it.
    """
    reports = entered(request, world, Role.OPERATOR)[2].faults
    return {
        "since_s": reports.since_s,
        "left_out": reports.left_out,
        "faults": [asdict(report) for report in reports.latest(query.after_s)],
    }


@table.on("GET", "/worlds/{world}/state", "Get the state", "State", *OF_WORLD)
async def get_state(world: str, request: Request, query: StateQuery) -> Json:
    """Return the state, or a part: `collection`, `collection/entity`, `collection/entity/field`.

    With an agent's token, only the entities and fields visible to the agent are returned.

    With `limit` or `after`, the path is a collection, and some of its entities are returned:
    `next` is the `after` of the next page, null at the end. The pages of a world that changes are
    of several seqs.
    """
    context, who, orchestrator = entered(request, world)
    viewpoint = await sight_of(context, who, orchestrator, query.agent)
    token = context.principal(request).submitter
    if query.limit is not None or query.after is not None:
        return await _state_page(context, token, orchestrator, viewpoint, query)

    def encode(moment: WorldMoment) -> bytes:
        value = viewpoint.state(moment, query.path)
        at = {"seq": moment.seq, "sim_time": moment.sim_time, "path": query.path}
        return to_json({**at, "value": value})

    try:
        return await looked_at(context.reads, token, orchestrator, viewpoint, query.path, encode)
    except KeyError:
        raise Problem("not_found", f"there is nothing at {query.path!r} that you may see") from None


async def _state_page(
    context: RequestContext,
    token: str,
    world: Orchestrator,
    viewpoint: Viewpoint,
    query: StateQuery,
) -> Json:
    """Return a page of a collection.

    Raises:
        Problem: The path is no collection that is visible, or `after` no row of the table.
    """
    collection, most = query.path.strip("/"), context.limits.page_items_max
    limit = min(query.limit or most, most)

    def encode(moment: WorldMoment) -> bytes:
        value, last = viewpoint.page(moment, collection, query.after, limit)
        at = {"seq": moment.seq, "sim_time": moment.sim_time, "path": query.path}
        return to_json({**at, "value": value, "next": last})

    size_max = limit if viewpoint.sees_everything else None
    try:
        return await looked_at(
            context.reads, token, world, viewpoint, collection, encode, size_max=size_max
        )
    except KeyError:
        raise Problem(
            "not_found",
            f"there is no page of {query.path!r} that you may see after {query.after!r}; a page is "
            "of a collection, and follows an entity of it",
        ) from None


@table.on("GET", "/worlds/{world}/events", "List events", "Events", 410, *OF_WORLD, is_hot=True)
async def list_events(world: str, request: Request, query: EventsQuery) -> Json:
    """Return durable events, oldest first, and `next_record`, the position to continue from.

    A refusal has the seq of the last change before it, so continue by `from_record` to miss none.
    """
    context, who, orchestrator = entered(request, world)
    viewpoint = await sight_of(context, who, orchestrator, query.agent)
    end = orchestrator.records
    if query.from_record is None and query.since >= orchestrator.seq:
        events, place = list[Event](), end
    else:
        count_max = min(query.limit, context.limits.page_items_max)
        events, place = await durable_events(
            orchestrator, query.since, query.from_record, end, count_max
        )
    visible = await visible_events(orchestrator, viewpoint, events)
    context.reads.charge(context.principal(request).submitter, entities=len(events))
    return {"events": visible, "next_record": place, "is_end": place >= end}


@table.on(
    "POST",
    "/worlds/{world}/step",
    "Advance a stepped world",
    "World",
    409,
    *OF_WORLD,
    body=StepRequest,
)
async def step_world(world: str, request: Request) -> Json:
    """Advance simulated time, and decide all batches that are due; needs the operator's token."""
    context, _, orchestrator = entered(request, world, Role.OPERATOR)
    dt = (await context.read(request, StepRequest)).dt
    if orchestrator.config.clock != "stepped":
        raise Problem("conflict", "this world is not stepped: its clock advances without requests")
    try:
        await orchestrator.step(dt)
    except ValueError as error:
        raise Problem("request_invalid", str(error)) from error
    return _described(world, orchestrator)


@table.on("POST", "/worlds/{world}/pause", "Pause a world", "World", *OF_WORLD)
async def pause_world(world: str, request: Request) -> Json:
    """Decide no batches until the world is resumed; they are queued. Needs the operator's token."""
    _, _, orchestrator = entered(request, world, Role.OPERATOR)
    await orchestrator.pause()
    return _described(world, orchestrator)


@table.on("POST", "/worlds/{world}/resume", "Resume a world", "World", *OF_WORLD)
async def resume_world(world: str, request: Request) -> Json:
    """Decide batches again, after a pause. Needs the operator's token."""
    _, _, orchestrator = entered(request, world, Role.OPERATOR)
    await orchestrator.resume()
    return _described(world, orchestrator)


async def sight_of(
    context: RequestContext, who: Principal, world: Orchestrator, agent: str | None
) -> Viewpoint:
    """Return the viewpoint of a caller: whose view of the world it is answered with.

    `agent` is the requested agent; None is the token's own view. Where a token reads without a
    registered agent, its own name is its own view too.

    Raises:
        Problem: The token may not act for the requested agent.
    """
    if context.admits_unregistered and agent == who.submitter and not who.is_operator:
        agent = None
    if agent is not None:
        await context.check_speaks_for(world, who, agent)
        return Viewpoint(who.submitter, agent)
    if who.is_operator:
        return Viewpoint(who.submitter, None)
    return Viewpoint(who.submitter, who.submitter, context.admits_unregistered)


async def looked_at(
    reads: Reads,
    token: str,
    world: Orchestrator,
    viewpoint: Viewpoint,
    path: str,
    encode: Callable[[WorldMoment], T],
    *,
    size_max: int | None = None,
) -> T:
    """Encode the present of a world; a large state is encoded from a cut, in a thread.

    Args:
        reads: Admits and counts the reads of callers.
        token: The name of the token to which the entities are charged.
        world: The world.
        viewpoint: Whose view is encoded.
        path: The part of the state.
        encode: Called with the present.
        size_max: Largest number of entities that it looks at; None is all at the path.

    Raises:
        KeyError: Nothing is visible at the path.
        Problem: There is no such agent.
    """

    def look(kernel: Kernel) -> T | WorldMoment:
        viewpoint.check(kernel)
        size = viewpoint.size_of(kernel, path)
        size = size if size_max is None else min(size, size_max)
        reads.charge(token, entities=size)
        is_cut = size > _ENTITIES_AT_ONCE_MAX
        moment = WorldMoment.of(kernel, is_cut=is_cut)
        return moment if is_cut else encode(moment)

    looked = await world.query(look)
    return (
        await reads.in_thread(partial(encode, looked))
        if isinstance(looked, WorldMoment)
        else looked
    )


async def visible_events(
    world: Orchestrator, viewpoint: Viewpoint, events: Sequence[Event]
) -> list[dict[str, Json]]:
    """Return the visible parts of events; batches are decided between slices of the events.

    Raises:
        Problem: There is no such agent.
    """
    visible: list[dict[str, Json]] = []
    reported: set[str] = set()
    for end in range(len(events) or 1, 0, -_EVENTS_AT_ONCE_MAX):
        some = events[max(end - _EVENTS_AT_ONCE_MAX, 0) : end]
        look = partial(viewpoint.events, events=some, reported=reported)
        visible[:0] = await world.query(look)
    return visible


async def durable_events(
    world: Orchestrator, since: int, from_record: int | None, end: int, limit: int
) -> tuple[list[Event], int]:
    """Return one page of a world's events, and the record to continue from.

    Does not wait for later events. The page is bounded in bytes too: see `event_pages`.

    Args:
        world: The world.
        since: Return events with a greater seq.
        from_record: Return events from this record on, instead of `since`.
        end: Return only events before this record.
        limit: Maximum number of records; a record of a group has an event of each batch.

    Raises:
        Problem: The log was compacted, and no longer holds the requested position.
    """
    start = await world.log_start()
    if since < start.seq if from_record is None else from_record < start.record:
        raise Problem(
            "gone",
            f"the log was compacted up to seq {start.seq}; read the state, and continue by "
            f"from_record={start.record}",
            next_record=start.record,
            seq=start.seq,
        )
    if from_record is not None and from_record >= end:
        return [], from_record
    pages = world.event_pages(since, from_record=from_record, page_records_max=limit)
    async with aclosing(pages):
        events = [event for event in await anext(pages) if event.record < end]
    return events, events[-1].record + 1


def _described(name: str, world: Orchestrator) -> dict[str, Json]:
    return {
        "world": name,
        "seq": world.seq,
        "records": world.records,
        "sim_time": world.sim_time,
        "clock": world.config.clock,
        "paused": world.is_paused,
        "domains": [domain.name for domain in world.domains],
        "store": world.store.scheme,
        "durability": world.store.durability,
    }
