"""Control of a run that another process makes, in the player that watches it.

The paths are those of an open world, so that the page need not know which it controls.
"""

from typing import TYPE_CHECKING, Annotated, Final

from msgspec import Meta
from starlette.requests import Request

from placet.server.history.controls import SentControls
from placet.server.http.parameters import Fields
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
        Problem: The token is not the operator's, or it is another world's name.
    """
    context: CallerContext = request.app.state.context
    context.operator(request)
    timelines: Timelines = request.app.state.timelines
    if world not in timelines.names:
        raise Problem("not_found", f"there is no run of a world {world!r} here")
    controls: SentControls = request.app.state.controls
    return controls
