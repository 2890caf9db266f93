"""The past of a world: its time line, moments, steps, searches, and questions to a moment.

The operator's alone: visibility in the past is not known, so an agent's token is shown none of it.
"""

from collections.abc import Callable
from functools import wraps
from typing import Annotated, Final, Literal, TypeVar

from msgspec import Meta, Raw, field, to_builtins
from starlette.requests import Request

from placet.history.explain import explain, explain_seq
from placet.history.fork import ForkOptions
from placet.history.timeline import moments
from placet.history.timeline.map_notes import map_note
from placet.history.timeline.timeline import LAST, Moment, NoPlaceError, PlayedStep, Query
from placet.history.timeline.timeline import Place as LogPlace
from placet.history.timeline.traces import trace_of
from placet.plugins.domains import DomainNotFound, DomainNotRemade
from placet.scenarios.failure_note import failure_of
from placet.schemas.codec import Json, to_json
from placet.schemas.errors import PlacetError, StoreError
from placet.schemas.limits import SEED_MAX
from placet.server.context import CallerContext
from placet.server.history import questions
from placet.server.history.counted_log import ReadCount, counting
from placet.server.history.series import series_of
from placet.server.history.timelines import PlayedWorld, Timelines
from placet.server.http.parameters import Fields, Identity, Place
from placet.server.http.problems import Problem
from placet.server.http.routing import Routes

table = Routes("history", are_questions=True)

T = TypeVar("T")
_Read = TypeVar("_Read", bound=Callable[..., Json])

_HISTORY: Final = "/worlds/{world}/history"
_STEPS_MAX: Final = 200
_ENTITY_BYTES_MAX: Final = 512 * 1024
_READING: Final = (401, 403, 404, 409, 410, 503)

_Text = Annotated[str, Meta(max_length=512)]
_Offset = Annotated[int, Meta(ge=0, le=2**53)]
_Unit = Literal["record", "tick"]
_COLOR: Final = Meta(
    max_length=1024,
    description="Color the rows of a table by a field: `table/field`; `none` for none.",
)
_CELLS: Final = Meta(
    max_length=1024,
    description="Color the cells of a grid by a field: `table/field`; `none` for none.",
)
_PATHS: Final = Meta(
    extra_json_schema={"propertyNames": {"pattern": "[^/]/+[^/]"}},
    description="path -> value: collection/entity/field, or collection/entity",
)


class AtQuery(Fields, frozen=True):
    """The query parameters that name a place: after a record, or after a batch of a group."""

    record: Place
    batch: Annotated[int, Meta(ge=0, le=LAST)] = LAST

    @property
    def place(self) -> LogPlace:
        """The place that the parameters name."""
        return LogPlace(self.record, self.batch)


class MomentQuery(Fields, frozen=True):
    """The query parameters of `get_moment`: one of `record`, `seq` and `tick`; else the end."""

    record: Place | None = None
    batch: Annotated[int, Meta(ge=0, le=LAST)] = LAST
    seq: Place | None = None
    tick: Place | None = None
    step: Annotated[int, Meta(ge=-1000, le=1000, description="Steps on from there, or back.")] = 0
    by: _Unit = "record"
    map: bool = False
    color: Annotated[str, _COLOR] | None = None
    cells: Annotated[str, _CELLS] | None = None
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
    color: Annotated[str, _COLOR] | None = None
    cells: Annotated[str, _CELLS] | None = None


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


class TraceQuery(Fields, frozen=True):
    """The query parameters of `list_trace`."""

    collection: _Text
    entity: _Text


class StoryQuery(Fields, frozen=True):
    """The query parameters of `get_story`: an agent, perhaps one request of it, and a page."""

    agent: Identity
    request: Identity | None = None
    failures: bool = False
    back: bool = False
    start: _Offset | None = None
    limit: Annotated[int, Meta(ge=1, le=200)] = 50


class ViewQuery(Fields, frozen=True):
    """The query parameters of `get_view`: an agent, and the record after which it looks."""

    record: Place
    agent: Identity


class ExplainQuery(Fields, frozen=True):
    """The query parameters of `explain_request`: a request, or the seq of a record and a row."""

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


@table.on("GET", "/history", "List time lines", "Histories", 401, 403)
async def list_histories(request: Request) -> Json:
    """List the worlds whose past the token may play, the forks made here among them."""
    context, timelines = _shared(request)
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
    has_list = getattr(request.app.state, "runs", None) is not None
    return {"worlds": listed, "live": timelines.is_live, "runs": has_list}


@table.on("GET", _HISTORY, "Get a time line", "History", *_READING)
async def get_history(world: str, request: Request) -> Json:
    """Return the extent of a log, and how many intents were admitted and refused along it.

    `indexed` of `records` were read so far; a later answer has more. `failure` is the exception
    that ended the run, with its place and its traceback.
    """
    described = await _answer(world, request, _described)
    _, timelines = _shared(request)
    controls = timelines.controls(world)
    return {
        **described,
        "controls": controls.commands,
        "paused": controls.is_paused,
        "ticks_per_second": controls.ticks_per_second,
        "run": controls.run,
    }


def _question(path: str, summary: str, answer: str) -> Callable[[_Read], _Read]:
    """Return a decorator that registers a function as the route of a question to the past.

    The function gets the time line of the world and the query; its answer is encoded in the same
    thread.
    """

    def register(read: _Read) -> _Read:
        @wraps(read)
        async def ask(world: str, request: Request, query: Fields) -> bytes:
            return await _answer(world, request, lambda played: to_json(read(played, query)))

        table.on("GET", f"{_HISTORY}/{path}", summary, answer, *_READING)(ask)
        return read

    return register


@_question("moment", "Get a moment", "Moment")
def get_moment(played: PlayedWorld, query: MomentQuery) -> Json:
    """Return the world at a place of its log: head, and on request its map, a table, its agents."""
    timeline = played.timeline
    place = _place(played, query)
    if query.step:
        place = timeline.stepped(place, query.by, query.step)

    def look(moment: Moment) -> tuple[dict[str, Json], LogPlace]:
        head = moments.moment_head(moment)
        if query.map:
            given = played.source.portrayals
            drawn = moments.map_of(
                moment.state, query.color, None, played.portrayals, query.cells, given
            )
            is_run = bool(timeline.index.ticks)
            note = map_note(moment.state, drawn["map"], given, played.spaces) if is_run else ""
            head |= {**drawn, "note": note}
        if query.collection is not None:
            collections, page = moment.state.entities(), (query.offset, query.limit)
            head["table"] = moments.table_of(collections, query.collection, *page, query.find)
        if query.agents:
            page = (query.agents_from, query.agents)
            head["agents"] = moments.agents_of(moment, *page, query.find_agent)
        return head, moment.place

    head, at = timeline.look(place, look)
    if query.events:
        records = timeline.records_to(at, query.events)
        head["events"] = [moments.event_of(one, record) for one, record in records]
    return head


@_question("steps", "List steps", "Steps")
def list_steps(played: PlayedWorld, query: StepsQuery) -> Json:
    """List the next steps after a place, with the moved entities; fewer at the log's end.

    `layers` has the rows of the tables that a step wrote, and the colors and marks of the entities
    of the collections that it wrote, as they are after it.
    """
    timeline, portrayals = played.timeline, played.portrayals
    colored = "" if query.color is None else query.color.rpartition("/")[0]
    chosen = {*portrayals, colored}

    def shown(step: PlayedStep) -> Json:
        found = moments.step_json(step, portrayals)
        collections = step.collections & set(chosen)
        if step.tables or collections:

            def layers(moment: Moment) -> Json:
                drawn = (query.color, step.tables, portrayals, query.cells)
                rows = moments.map_of(moment.state, *drawn)["map"]
                return rows + moments.portrayed(moment, collections, query.color, portrayals)

            found["layers"] = timeline.look(step.place, layers, is_ahead=True)
        return found

    return {"steps": [shown(step) for step in timeline.steps(query.place, query.by, query.count)]}


@_question("find", "Find a batch", "Found")
def find_record(played: PlayedWorld, query: FindQuery) -> Json:
    """Find the nearest batch after a place, or before it: of an agent, of a kind, refused."""
    wanted = Query(query.agent, query.kind, query.refused)
    found = played.timeline.find(query.place, wanted, is_backward=query.back)
    return {"place": None if found is None else moments.place_json(found)}


@_question("entity", "Get an entity of a moment", "PastEntity")
def get_entity(played: PlayedWorld, query: EntityQuery) -> Json:
    """Return one entity whole, as it was at a place; a very large one is cut to its short form."""

    def look(moment: Moment) -> Json:
        fields = moment.state.entities().get(query.collection, {}).get(query.entity)
        at = {"collection": query.collection, "entity": query.entity}
        encoded = to_json({**at, "fields": fields, "is_cut": False})
        if len(encoded) <= _ENTITY_BYTES_MAX or fields is None:
            return Raw(encoded)
        cut = {name: moments.short(value) for name, value in fields.items()}
        return {**at, "fields": cut, "is_cut": True}

    return played.timeline.look(query.place, look)


@table.on("GET", f"{_HISTORY}/series", "List collected series", "Series", *_READING)
async def list_series(world: str, request: Request) -> Json:
    """Return the series that the run collects beside its log, at their seqs.

    `problem` is a sentence where they cannot be read, else empty.
    """
    return await _answer(
        world, request, lambda played: series_of(played.log, played.source.portrayals)
    )


@_question("trace", "List the fields of an entity over time", "Trace")
def list_trace(played: PlayedWorld, query: TraceQuery) -> Json:
    """Return a series of each field of an entity, at moments along the whole log. O(log).

    A series of numbers has `lines`; one of texts, booleans or other categories has `categories`,
    and in `values` the number of a category, -1 of a value that has none, null where the entity
    has no such field. `left_out` names the other fields. A moment is the `every`-th `unit`, a
    tick or a record.
    """
    return trace_of(played.timeline, query.collection, query.entity, played.portrayals)


@_question("story", "Get the story of an agent", "Story")
def get_story(played: PlayedWorld, query: StoryQuery) -> Json:
    """Return the events of an agent or of one request of it, by pages; `back` is newest first.

    `read` of `records` were read so far; a later answer has more. `next` is the `start` of the next
    page, null at the end.
    """
    story = played.story(query.agent, query.request or "")
    story.read_on()
    events, following = story.page(
        query.start, query.limit, is_backward=query.back, failures=query.failures
    )
    return {
        "events": events,
        "next": following,
        "total": story.total,
        "failures": story.failures,
        "left_out": story.left_out,
        "read": story.record,
        "records": played.timeline.log.count(),
    }


@_question("view", "Get an agent's view of a moment", "PastView")
def get_view(played: PlayedWorld, query: ViewQuery) -> Json:
    """Return the view of an agent after a record. O(log), from the nearest snapshot."""
    played.timeline.require(LogPlace(query.record))
    try:
        return questions.view_at(played, query.record, query.agent)
    except KeyError:
        raise Problem(
            "not_found", f"no agent {query.agent!r} is registered after record {query.record}"
        ) from None


@_question("explain", "Explain a verdict", "Explained")
def explain_request(played: PlayedWorld, query: ExplainQuery) -> Json:
    """Return what each stage of the gate compared: of a request, or of the record at a seq.

    With `agent` and `seq`, of the agent's row in the column batch at the seq.
    """
    by_request = query.agent is not None and query.req_id is not None and query.seq is None
    by_seq = query.req_id is None and query.seq is not None
    if not by_request and not by_seq:
        raise Problem("request_invalid", "expected agent and req_id, or seq, or agent and seq")
    log, domains, *_ = played.source
    if query.seq is not None:
        played.timeline.require(played.timeline.at_seq(query.seq))
        explained = explain_seq(
            log, query.seq, domains, files=played.snapshots, agent_id=query.agent
        )
        return explained.as_dict()
    request = query.agent or "", query.req_id or ""
    return explain(log, *request, domains, files=played.snapshots).as_dict()


@table.on(
    "POST",
    _HISTORY + "/forks",
    "Fork from a moment",
    "Forked",
    *_READING,
    status=201,
    body=ForkRequest,
)
async def fork_world(world: str, request: Request) -> Json:
    """Fork a world after a record, with an edit, and play the fork beside it.

    The world itself is only read. The fork is in a temporary file, which goes with this server;
    `command` makes one that stays.
    """
    context, timelines = _shared(request)
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
        later = made.counterfactual
        return {
            "world": name,
            "record": made.record,
            "seq": made.seq,
            "counterfactual": None if later is None else later.as_dict(),
            "command": questions.fork_command(played, body.record, options),
        }

    return await _answer(world, request, make)


def _shared(request: Request) -> tuple[CallerContext, Timelines]:
    """Return the context and the time lines of the application that received a request."""
    state = request.app.state
    return state.context, state.timelines


async def _answer(world: str, request: Request, read: Callable[[PlayedWorld], T]) -> T:
    """Call a function with a world's time line, in a thread, for the operator; return its result.

    Raises:
        Problem: The token is not the operator's, there is no such world, or no such place.
    """
    context, timelines = _shared(request)
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
    failure = failure_of(played.log)
    return {
        **moments.history_of(played.timeline),
        "store": played.source.store,
        "failure": None if failure is None else to_builtins(failure),
    }
