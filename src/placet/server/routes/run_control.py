"""Control of a run that another process makes, and runs started from it, in the player.

The paths are those of an open world, so that the page need not know which it controls.
"""

from typing import TYPE_CHECKING, Annotated, Final, Literal

from msgspec import Meta, field
from starlette.requests import Request

from placet.schemas.codec import Json
from placet.schemas.limits import SEED_MAX
from placet.server.history.controls import SentControls
from placet.server.history.started_runs import NewRun, StartedRuns
from placet.server.http.parameters import Fields, Identity, Place
from placet.server.http.problems import Problem
from placet.server.http.routing import WORLD_PREFIX, Routes

if TYPE_CHECKING:
    from placet.server.context import CallerContext
    from placet.server.history.timelines import Timelines

table = Routes("control", WORLD_PREFIX)

_USUAL: Final = (401, 403, 404)


class Speed(Fields, frozen=True):
    """The body of `set_speed_of_run`.

    Attributes:
        ticks_per_second: Most ticks in a second of real time, above 0; null is no limit.
    """

    ticks_per_second: Annotated[float, Meta(gt=0, le=1e6)] | None


class RunRequest(Fields, frozen=True):
    """The body of `start_run`.

    Attributes:
        name: Name of the new run.
        settings: Dotted key of a setting -> its value; the others are those of the other run.
        record: Fork after this record; null is the end of the log.
        again: Run from the start instead of a fork.
        seed: Seed of a run from the start; null is the other run's, "next" that plus one.
    """

    name: Identity
    settings: dict[str, Json] = field(default_factory=dict)
    record: Place | None = None
    again: bool = False
    seed: Annotated[int, Meta(ge=0, le=SEED_MAX)] | Literal["next"] | None = None


@table.on("POST", "/pause", "Pause a run", "", *_USUAL, status=204)
async def pause_run(world: str, request: Request) -> None:
    """Pause the run after its present tick."""
    _controls(world, request).order("pause")


@table.on("POST", "/resume", "Resume a run", "", *_USUAL, status=204)
async def resume_run(world: str, request: Request) -> None:
    """Go on with the run."""
    _controls(world, request).order("resume")


@table.on("POST", "/step", "Run one tick", "", *_USUAL, status=204)
async def step_run(world: str, request: Request) -> None:
    """Run one tick, and pause after it."""
    _controls(world, request).order("step")


@table.on("POST", "/end", "End a run", "", *_USUAL, 409, status=204)
async def end_run(world: str, request: Request) -> None:
    """End a run that the page has started, after its present tick; `--resume` continues it.

    The run for which the player was started ends by a signal to its command.
    """
    controls = _controls(world, request)
    if "end" not in controls.commands:
        raise Problem("conflict", "this run is ended by Ctrl-C where it was started")
    controls.order("end")


@table.on("GET", "/settings", "List the settings of a run", "RunSettings", *_USUAL, 503)
async def list_settings_of_run(world: str, request: Request) -> Json:
    """List the settings of the run's domain and policies, with its seed and number of ticks."""
    runs = _runs(world, request)
    context: CallerContext = request.app.state.context
    return await context.reads.ask(lambda: runs.settings(world))


@table.on(
    "POST",
    "/runs",
    "Start a run from another",
    "StartedRun",
    *(*_USUAL, 409, 422, 503),
    status=201,
    body=RunRequest,
)
async def start_run(world: str, request: Request) -> Json:
    """Fork a run with other settings, or run its scenario again; its log is only read.

    The new run has another log, `NAME.db` beside that of the first run, and runs at once. A
    problem names the setting that is refused, as `setting`, or a name that is free, as `free`.
    """
    runs = _runs(world, request)
    context: CallerContext = request.app.state.context
    timelines: Timelines = request.app.state.timelines
    body = await context.read(request, RunRequest)
    wish = NewRun(body.settings, body.name, body.record, body.again, body.seed)

    def start() -> Json:
        played = timelines.of(world)
        assert played is not None, "a run has a log"
        return runs.start(played, world, wish, timelines.is_fork)

    return await context.reads.ask(start)


@table.on("POST", "/speed", "Set the speed of a run", "", *_USUAL, 422, status=204, body=Speed)
async def set_speed_of_run(world: str, request: Request) -> None:
    """Limit the ticks of the run in a second of real time; null is no limit."""
    controls = _controls(world, request)
    context: CallerContext = request.app.state.context
    controls.set_speed((await context.read(request, Speed)).ticks_per_second)


@table.on(
    "POST",
    "/agents/{agent_id:path}/suspend",
    "Suspend an agent of a run",
    "",
    *_USUAL,
    status=204,
)
async def suspend_agent_of_run(world: str, agent_id: str, request: Request) -> None:
    """Suspend an agent before the next tick: its batches are refused until it is resumed."""
    _controls(world, request).change_agent(agent_id, "suspended")


@table.on(
    "POST", "/agents/{agent_id:path}/resume", "Resume an agent of a run", "", *_USUAL, status=204
)
async def resume_agent_of_run(world: str, agent_id: str, request: Request) -> None:
    """Resume a suspended agent before the next tick."""
    _controls(world, request).change_agent(agent_id, "resumed")


def _controls(world: str, request: Request) -> SentControls:
    """Return the control of the run, for the operator alone.

    Raises:
        Problem: The token is not the operator's, it is another world's name, or the run has ended.
    """
    return _runs(world, request).steering(world)


def _runs(world: str, request: Request) -> StartedRuns:
    """Return the runs, one of which has the name, for the operator alone.

    Raises:
        Problem: The token is not the operator's, or it is another world's name.
    """
    context: CallerContext = request.app.state.context
    context.operator(request)
    runs: StartedRuns = request.app.state.started_runs
    if world not in runs.names:
        raise Problem("not_found", f"there is no run of a world {world!r} here")
    return runs
