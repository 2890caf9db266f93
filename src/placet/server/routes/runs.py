"""The runs in a folder: their list, their tags and notes, and two of them side by side.

The operator's alone, as the past of a world: `placet play FOLDER` has no other reader. A run is
known by the name of its log in the folder, and every other name is unknown.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

from msgspec import Meta
from starlette.requests import Request

from placet.actors.ports import EventLog
from placet.plugins.domains import DomainNotFound, DomainNotRemade
from placet.scenarios.values import ScenarioError
from placet.schemas.codec import Json
from placet.schemas.errors import MissingExtraError
from placet.server.http.parameters import Fields
from placet.server.http.problems import Problem
from placet.server.http.routing import Routes
from placet.server.runs.comparison import parting_of, series_of_run, settings_of
from placet.server.runs.filters import QUERY_CHARS_MAX, FilterError
from placet.server.runs.notes import NOTE_CHARS_MAX, TAGS_MAX, InvalidNoteError, NotesError
from placet.server.runs.opened import OpenFolder
from placet.server.runs.summary import RunCount, RunHead, head_of
from placet.server.runs.work import KEY_CHARS_MAX, CanceledError, Work

if TYPE_CHECKING:
    from placet.server.context import CallerContext

table = Routes("runs", are_questions=True)

T = TypeVar("T")

_CHUNK_RECORDS: Final = 2_000
_USUAL: Final = (401, 403)
_Key = Annotated[str, Meta(max_length=KEY_CHARS_MAX)]
_Name = Annotated[str, Meta(min_length=1, max_length=512)]


class RunsQuery(Fields, frozen=True):
    """The query parameters of `list_runs`."""

    find: Annotated[str, Meta(max_length=QUERY_CHARS_MAX)] = ""


class PairQuery(Fields, frozen=True):
    """The query parameters of `compare_runs`: two logs, by their names in the folder.

    `work` names the question, so that a page can ask how far it is, and cancel it.
    """

    first: _Name
    second: _Name
    work: _Key = ""


class SeriesQuery(Fields, frozen=True):
    """The query parameters of `list_series_of_run`; `work` names the question."""

    work: _Key = ""


class NoteRequest(Fields, frozen=True):
    """The request body of `set_note_of_run`; both replace the earlier ones."""

    tags: Annotated[list[str], Meta(max_length=TAGS_MAX)]
    note: Annotated[str, Meta(max_length=NOTE_CHARS_MAX)]


@table.on("GET", "/runs", "List runs", "Runs", *_USUAL, 503)
async def list_runs(request: Request, query: RunsQuery) -> Json:
    """List the logs of the folder that a query admits.

    A damaged log is listed with its error. `unread` logs are read in the background.
    """

    def rows(opened: OpenFolder) -> Json:
        try:
            return opened.listing.rows(query.find)
        except FilterError as error:
            raise Problem("request_invalid", str(error)) from error

    return await _answer(request, rows)


@table.on("GET", "/runs/comparison", "Compare two runs", "RunPair", *_USUAL, 404, 409, 503)
async def compare_runs(request: Request, query: PairQuery) -> Json:
    """Return the settings in which two runs differ, and where their logs part. O(logs)."""

    def pair(opened: OpenFolder) -> Json:
        names = query.first, query.second
        with opened.works.started(query.work) as work:
            logs = [work.watched(name, _log(opened, name)) for name in names]
            try:
                parting = parting_of(logs, opened.domains)
                heads = [_head_of(opened, *each) for each in zip(names, logs, strict=True)]
            except (DomainNotFound, DomainNotRemade, CanceledError) as error:
                raise Problem("conflict", str(error)) from error
        return {"runs": names, "settings": settings_of(heads), "parting": parting}

    return await _answer(request, pair)


@table.on(
    "GET", "/runs-work/{key}", "Get the progress of a question", "RunWork", *_USUAL, is_read=False
)
async def get_work(key: str, request: Request) -> Json:
    """Return how far a question is that a page has named: a record of the log that it reads.

    `passes` is how often it has read a log, and `records` 0 while it reads none.
    """
    work = _opened(request).works.find(key)
    return (work or Work()).as_dict()


@table.on("DELETE", "/runs-work/{key}", "Cancel a question", "", *_USUAL, is_read=False, status=204)
async def cancel_work(key: str, request: Request) -> None:
    """End a question that a page has named; it is answered with 409."""
    _opened(request).works.cancel(key[:KEY_CHARS_MAX])


def _opened(request: Request) -> OpenFolder:
    """Return the folder, for the operator alone."""
    context: CallerContext = request.app.state.context
    context.operator(request)
    opened: OpenFolder = request.app.state.runs
    return opened


def _head_of(opened: OpenFolder, name: str, log: EventLog) -> RunHead | None:
    """Return the head of a log, of which the forks need a pass unless the list has made it."""
    listed = opened.runs.find(name)
    if listed is not None and listed.is_counted and listed.head is not None:
        return listed.head
    count = RunCount()
    while not count.read_on(log, _CHUNK_RECORDS):
        pass
    return head_of(log, count.forks)


@table.on(
    "GET", "/runs/{run}/series", "List the series of a run", "RunSeries", *_USUAL, 404, 409, 503
)
async def list_series_of_run(run: str, request: Request, query: SeriesQuery) -> Json:
    """Return the line charts of a run's report: collected series, state by value, intents."""

    def series(opened: OpenFolder) -> Json:
        with opened.works.started(query.work) as work:
            try:
                return {"series": series_of_run(work.watched(run, _log(opened, run)))}
            except (ScenarioError, MissingExtraError, CanceledError) as error:
                raise Problem("conflict", str(error)) from error

    return await _answer(request, series)


@table.on(
    "PUT",
    "/runs/{run}/note",
    "Set the tags and the note of a run",
    "RunNote",
    *_USUAL,
    404,
    409,
    422,
    body=NoteRequest,
    is_read=False,
)
async def set_note_of_run(run: str, request: Request) -> Json:
    """Replace the tags and the note of a run, in the file beside the logs."""
    context: CallerContext = request.app.state.context
    context.operator(request)
    body = await context.read(request, NoteRequest)

    def write(opened: OpenFolder) -> Json:
        _require(opened, run)
        try:
            set_ = opened.listing.set_note(run, body.tags, body.note)
        except InvalidNoteError as error:
            raise Problem("request_invalid", str(error)) from error
        except NotesError as error:
            raise Problem("conflict", str(error)) from error
        return {"tags": set_.tags, "note": set_.note}

    return await _answer(request, write)


def _require(opened: OpenFolder, run: str) -> None:
    if opened.runs.find(run) is None:
        raise Problem("not_found", f"there is no log {run!r:.200} in the folder")


def _log(opened: OpenFolder, run: str) -> EventLog:
    log = opened.runs.open(run)
    if log is None:
        raise Problem("not_found", f"there is no log {run!r:.200} in the folder")
    return log


async def _answer(request: Request, read: Callable[[OpenFolder], T]) -> T:
    """Call a function with the folder, in a thread, for the operator; return its result.

    Raises:
        Problem: The token is not the operator's.
    """
    opened = _opened(request)
    context: CallerContext = request.app.state.context
    return await context.reads.ask(lambda: read(opened))
