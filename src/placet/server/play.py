"""The application of `placet play`: the past of one log or of a folder, and no open world.

It listens before anything of the log is replayed, so that a long log shows its first
moment at once.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from anyio import to_thread
from starlette.applications import Starlette

from placet.server.app import DOCUMENT_ROUTE, describe, middleware, problem_handlers
from placet.server.config import ServeConfig
from placet.server.context import CallerContext
from placet.server.credentials import Credentials
from placet.server.dashboard.routes import folder_routes, player_routes
from placet.server.history.controls import Controls
from placet.server.history.started_runs import StartedRuns
from placet.server.history.timelines import Source, Timelines
from placet.server.routes import history, run_control, runs
from placet.server.runs.opened import OpenFolder


def build_play_app(
    world: str,
    source: Source,
    serve: ServeConfig,
    credentials: Credentials,
    runs: StartedRuns | None = None,
) -> Starlette:
    """Build the application that plays one log; its lifespan ends the pass over the log.

    Args:
        world: Name under which the log is played.
        source: The log, and its domains.
        serve: Configuration of the server.
        credentials: The known tokens; only the operator's is of use.
        runs: The run that writes the log, and runs that the page starts; None only reads.
    """
    timelines = Timelines(
        (lambda name: source if name == world else None) if runs is None else runs.source,
        lambda: [world] if runs is None else runs.names,
        (lambda name: name == world) if runs is None else runs.is_used,
        (lambda _name: Controls()) if runs is None else runs.controls,
        is_live=False,
        limits=serve.limits,
    )
    app = _app(timelines, serve, credentials, (lambda: None) if runs is None else runs.close)
    app.router.routes += [
        *([] if runs is None else run_control.table.routes()),
        *player_routes(),
    ]
    app.state.started_runs = runs
    return app


def build_folder_app(opened: OpenFolder, serve: ServeConfig, credentials: Credentials) -> Starlette:
    """Build the application that lists the runs of a folder, and plays each.

    Args:
        opened: The folder.
        serve: Configuration of the server.
        credentials: The known tokens; only the operator's is of use.
    """
    timelines = Timelines(
        opened.source,
        opened.runs.names,
        lambda name: opened.runs.find(name) is not None,
        lambda _name: Controls(),
        is_live=False,
        limits=serve.limits,
    )
    opened.on_left = timelines.forget
    app = _app(timelines, serve, credentials, opened.runs.close)
    app.router.routes += [*runs.table.routes(), *folder_routes()]
    app.state.runs = opened
    return app


def _app(
    timelines: Timelines, serve: ServeConfig, credentials: Credentials, close: Callable[[], None]
) -> Starlette:
    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await to_thread.run_sync(timelines.close)
            await to_thread.run_sync(close)

    app = Starlette(
        routes=[*history.table.routes(), DOCUMENT_ROUTE],
        middleware=list(middleware(serve, credentials)),
        exception_handlers=problem_handlers(),
        lifespan=lifespan,
    )
    app.state.context = CallerContext(serve, credentials)
    app.state.timelines = timelines
    describe(app, (), 0)
    return app
