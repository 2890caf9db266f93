"""The past of a world: its time line, moments, steps, searches, and questions to a moment.

The operator's alone: visibility in the past is not known, so an agent's token is shown none of it.
"""

from collections.abc import Callable
from typing import Annotated, Final, Literal, TypeVar

from msgspec import Meta, field
from starlette.requests import Request
from starlette.responses import Response

from placet.history.fork import ForkOptions
from placet.history.timeline import moments
from placet.history.timeline.timeline import LAST, Moment, NoPlaceError, Query
from placet.history.timeline.timeline import Place as LogPlace
from placet.plugins.domains import DomainNotFound, DomainNotRemade
from placet.schemas.codec import Json, to_json
from placet.schemas.errors import PlacetError, StoreError
from placet.schemas.limits import SEED_MAX
from placet.server.context import CallerContext
from placet.server.history import questions
from placet.server.history.counted_log import ReadCount, counting
from placet.server.history.timelines import PlayedWorld, Timelines
from placet.server.http.parameters import Fields, Identity, Place
from placet.server.http.problems import Problem
from placet.server.http.responses import json_response
from placet.server.http.routing import Body, Routes
from placet.server.openapi import answers
from placet.server.wire_schemas import EXAMPLES

table = Routes("history", are_questions=True)

T = TypeVar("T")

_STEPS_MAX: Final = 200
_ENTITY_BYTES_MAX: Final = 512 * 1024
_READING: Final = (401, 403, 404, 409, 410, 503)

_Text = Annotated[str, Meta(max_length=512)]
_Offset = Annotated[int, Meta(ge=0, le=2**53)]
_Unit = Literal["record", "tick"]
_PATHS: Final = Meta(
    extra_json_schema={"propertyNames": {"pattern": "[^/]/+[^/]"}},
    description="path -> value: collection/entity/field, or collection/entity",
)


class AtQuery(Fields, frozen=True):
    """The query parameters that name a place: after a record, or after a batch of a group."""

    record: Place
    batch: Annotated[int, Meta(ge=0, le=LAST)] = LAST


class MomentQuery(Fields, frozen=True):
    """The query parameters of `get_moment`: one of `record`, `seq` and `tick`; else the end."""

    record: Place | None = None
    batch: Annotated[int, Meta(ge=0, le=LAST)] = LAST
    seq: Place | None = None
    tick: Place | None = None
    step: Annotated[int, Meta(ge=-1000, le=1000, description="Steps on from there, or back.")] = 0
    by: _Unit = "record"
    map: bool = False
    events: Annotated[int, Meta(ge=0, le=200)] = 0
    collection: _Text | None = None
    offset: _Offset = 0
    limit: Annotated[int, Meta(ge=0, le=moments.ROWS_MAX)] = 100
    find: _Text = ""
    agents_from: _Offset = 0
    agents: Annotated[int, Meta(ge=0, le=moments.ROWS_MAX)] = 0
    find_agent: _Text = ""


class StepsQuery(AtQuery, frozen=True):
    """The query parameters of `list_steps`."""

    by: _Unit = "tick"
    count: Annotated[int, Meta(ge=1, le=_STEPS_MAX)] = 20


class FindQuery(AtQuery, frozen=True):
    """The query parameters of `find_record`: every condition must hold."""

    agent: Identity | None = None
    kind: _Text | None = None
    refused: bool = False
    back: bool = False


class EntityQuery(AtQuery, frozen=True, kw_only=True):
    """The query parameters of `get_entity`."""

    collection: _Text
    entity: _Text


class ViewQuery(Fields, frozen=True):
    """The query parameters of `get_view`: an agent, and the record after which it looks."""

    record: Place
    agent: Identity


class ExplainQuery(Fields, frozen=True):
    """The query parameters of `explain_request`: a request, or the seq of a record."""

    agent: Identity | None = None
    req_id: Identity | None = None
    seq: Place | None = None


class ForkRequest(Fields, frozen=True):
    """The request body of `fork_world`.

    `put` sets values by path, null deletes an entity; `dropped` removes agents; `replay` decides
    the later batches of the parent again.
    """

    record: Place
    put: Annotated[dict[str, Json], _PATHS] = field(default_factory=dict)
    dropped: list[Identity] = field(default_factory=list)
    seed: Annotated[int, Meta(ge=0, le=SEED_MAX)] | None = None
    replay: bool = False


@table.on("GET", "/history", "List time lines", answers(200, "Histories", 401, 403))
async def list_histories(request: Request) -> Response:
    """List the worlds whose past the token may play, the forks made here among them."""
    context = _context(request)
    timelines: Timelines = request.app.state.timelines
    listed = [
        {"world": name, "fork": False}
        for name in timelines.names
        if context.operates(request, name)
    ]
    listed += [
        {"world": name, "fork": True}
        for name in timelines.forks
        if context.operates(request, timelines.origin(name))
    ]
    if not listed:
        context.operator(request)
    return json_response({"worlds": listed, "live": timelines.is_live})


@table.on("GET", "/worlds/{world}/history", "Get a time line", answers(200, "History", *_READING))
async def get_history(world: str, request: Request) -> Response:
    """Return the extent of a log, and how many intents were admitted and refused along it.

    `indexed` of `records` were read so far; a later answer has more.
    """
    described = await _answer(world, request, _described)
    timelines: Timelines = request.app.state.timelines
    controls = timelines.controls(world)
    return json_response({**described, "controls": controls.commands, "paused": controls.is_paused})


@table.on(
    "GET",
    "/worlds/{world}/history/moment",
    "Get a moment",
    answers(200, "Moment", *_READING),
    query=MomentQuery,
)
async def get_moment(world: str, request: Request, query: MomentQuery) -> Response:
    """Return the world at a place of its log: head, and on request its map, a table, its agents."""

    def read(played: PlayedWorld) -> bytes:
        timeline = played.timeline
        place = _place(played, query)
        if query.step:
            place = timeline.stepped(place, query.by, query.step)

        def look(moment: Moment) -> tuple[dict[str, Json], LogPlace]:
            head = moments.moment_head(moment)
            if query.map:
                head["map"] = moments.map_of(moment)
            if query.collection is not None:
                collections, page = moment.state.collections, (query.offset, query.limit)
                head["table"] = moments.table_of(collections, query.collection, *page, query.find)
            if query.agents:
                page = (query.agents_from, query.agents)
                head["agents"] = moments.agents_of(moment, *page, query.find_agent)
            return head, moment.place

        head, at = timeline.look(place, look)
        if query.events:
            records = timeline.records_to(at, query.events)
            head["events"] = [moments.event_of(one, record) for one, record in records]
        return to_json(head)

    return Response(await _answer(world, request, read), media_type="application/json")


@table.on(
    "GET",
    "/worlds/{world}/history/steps",
    "List steps",
    answers(200, "Steps", *_READING),
    query=StepsQuery,
)
async def list_steps(world: str, request: Request, query: StepsQuery) -> Response:
    """List the next steps after a place, with the moved entities; fewer at the log's end."""

    def read(played: PlayedWorld) -> bytes:
        steps = played.timeline.steps(LogPlace(query.record, query.batch), query.by, query.count)
        return to_json({"steps": [moments.step_json(step) for step in steps]})

    return Response(await _answer(world, request, read), media_type="application/json")


@table.on(
    "GET",
    "/worlds/{world}/history/find",
    "Find a batch",
    answers(200, "Found", *_READING),
    query=FindQuery,
)
async def find_record(world: str, request: Request, query: FindQuery) -> Response:
    """Find the nearest batch after a place, or before it: of an agent, of a kind, refused."""

    def read(played: PlayedWorld) -> Json:
        wanted = Query(query.agent, query.kind, query.refused)
        place = LogPlace(query.record, query.batch)
        found = played.timeline.find(place, wanted, is_backward=query.back)
        return {"place": None if found is None else moments.place_json(found)}

    return json_response(await _answer(world, request, read))


@table.on(
    "GET",
    "/worlds/{world}/history/entity",
    "Get an entity of a moment",
    answers(200, "PastEntity", *_READING),
    query=EntityQuery,
)
async def get_entity(world: str, request: Request, query: EntityQuery) -> Response:
    """Return one entity whole, as it was at a place; a very large one is cut to its short form."""

    def read(played: PlayedWorld) -> bytes:
        def look(moment: Moment) -> bytes:
            rows = moment.state.collections.get(query.collection, {})
            fields = rows.get(query.entity)
            at = {"collection": query.collection, "entity": query.entity}
            encoded = to_json({**at, "fields": fields, "is_cut": False})
            if len(encoded) > _ENTITY_BYTES_MAX and fields is not None:
                cut = {name: moments.short(value) for name, value in fields.items()}
                return to_json({**at, "fields": cut, "is_cut": True})
            return encoded

        return played.timeline.look(LogPlace(query.record, query.batch), look)

    return Response(await _answer(world, request, read), media_type="application/json")


@table.on(
    "GET",
    "/worlds/{world}/history/view",
    "Get an agent's view of a moment",
    answers(200, "PastView", *_READING),
    query=ViewQuery,
)
async def get_view(world: str, request: Request, query: ViewQuery) -> Response:
    """Return the view of an agent after a record. O(log), from the nearest snapshot."""

    def read(played: PlayedWorld) -> Json:
        played.timeline.require(LogPlace(query.record))
        try:
            return questions.view_at(played, query.record, query.agent)
        except KeyError:
            raise Problem(
                "not_found", f"no agent {query.agent!r} is registered after record {query.record}"
            ) from None

    return json_response(await _answer(world, request, read))


@table.on(
    "GET",
    "/worlds/{world}/history/explain",
    "Explain a verdict",
    answers(200, "Explained", *_READING),
    query=ExplainQuery,
)
async def explain_request(world: str, request: Request, query: ExplainQuery) -> Response:
    """Return what each stage of the gate compared: of a request, or of the record at a seq."""
    by_request = query.agent is not None and query.req_id is not None and query.seq is None
    by_seq = query.agent is None and query.req_id is None and query.seq is not None

    def read(played: PlayedWorld) -> Json:
        if not by_request and not by_seq:
            raise Problem("request_invalid", "expected agent and req_id, or seq")
        if query.seq is not None:
            played.timeline.require(played.timeline.at_seq(query.seq))
        return questions.explanation(played, query.agent, query.req_id, query.seq).as_dict()

    return json_response(await _answer(world, request, read))


@table.on(
    "POST",
    "/worlds/{world}/history/forks",
    "Fork from a moment",
    answers(201, "Forked", 408, 413, 415, *_READING),
    body=Body(ForkRequest, EXAMPLES["Fork"]),
)
async def fork_world(world: str, request: Request) -> Response:
    """Fork a world after a record, with an edit, and play the fork beside it.

    The world itself is only read. The fork is in a temporary file, which goes with this server;
    `command` makes one that stays.
    """
    context = _context(request)
    timelines: Timelines = request.app.state.timelines
    context.operate(request, timelines.origin(world), world)
    body = await context.read(request, ForkRequest)

    def make(played: PlayedWorld) -> Json:
        played.timeline.require(LogPlace(body.record))
        with timelines.fork_name(world, context.principal(request).submitter) as name:
            options = ForkOptions(
                world=name,
                seed=body.seed,
                effects="simulate" if body.replay else "refuse",
                put=body.put,
                dropped=body.dropped,
                is_replayed=body.replay,
            )
            try:
                made, source = questions.forked(played, timelines.fork_path(), body.record, options)
            except (StoreError, DomainNotFound, DomainNotRemade):
                raise
            except (PlacetError, ValueError) as error:
                raise Problem("request_invalid", str(error)) from error
            timelines.add(name, source, world)
        return {
            "world": name,
            "record": made.record,
            "seq": made.seq,
            "counterfactual": None
            if made.counterfactual is None
            else made.counterfactual.as_dict(),
            "command": questions.fork_command(played, body.record, options),
        }

    return json_response(await _answer(world, request, make), 201)


def _context(request: Request) -> CallerContext:
    context: CallerContext = request.app.state.context
    return context


async def _answer(world: str, request: Request, read: Callable[[PlayedWorld], T]) -> T:
    """Call a function with a world's time line, in a thread, for the operator; return its result.

    Raises:
        Problem: The token is not the operator's, there is no such world, or no such place.
    """
    timelines: Timelines = request.app.state.timelines
    context = _context(request)
    context.operate(request, timelines.origin(world), world)

    count = ReadCount()

    def run() -> T:
        played = timelines.of(world)
        if played is None:
            raise Problem("not_found", f"there is no world {world!r} here")
        try:
            with counting(count):
                return read(played)
        except NoPlaceError as error:
            code = "gone" if error.is_gone else "not_found"
            first = moments.place_json(error.first)
            raise Problem(code, str(error), first=first) from error
        except (DomainNotFound, DomainNotRemade) as error:
            raise Problem("conflict", str(error)) from error

    try:
        return await context.reads.ask(run)
    finally:
        caller = context.principal(request).submitter
        context.reads.charge(caller, size=count.size, records=count.records, is_question=True)


def _place(played: PlayedWorld, query: MomentQuery) -> LogPlace:
    given = [value for value in (query.record, query.seq, query.tick) if value is not None]
    if len(given) > 1:
        raise Problem("request_invalid", "expected one of record, seq and tick")
    timeline = played.timeline
    if query.seq is not None:
        return timeline.at_seq(query.seq)
    if query.tick is not None:
        return timeline.at_tick(query.tick)
    if query.record is not None:
        return LogPlace(query.record, query.batch)
    return LogPlace(max(timeline.log.count() - 1, 0))


def _described(played: PlayedWorld) -> dict[str, Json]:
    return {**moments.history_of(played.timeline), "store": played.source.store}
