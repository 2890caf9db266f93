"""The application of `placet play`: the past of one log, and nothing that opens its world.

It listens before anything of the log is replayed, so that a long log shows its first
moment at once.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from socket import socket
from typing import Final

from anyio import to_thread
from starlette.applications import Starlette

from placet.server import dashboard
from placet.server.app import middleware, problem_handlers
from placet.server.config import ServeConfig
from placet.server.context import CallerContext
from placet.server.credentials import Credentials
from placet.server.history.controls import NoControls, SentControls
from placet.server.history.timelines import Source, Timelines
from placet.server.listener import serve_until_signal
from placet.server.routes import history, run_control

_SHUTDOWN_SECONDS_MAX: Final = 2


def build_play_app(
    world: str,
    source: Source,
    serve: ServeConfig,
    credentials: Credentials,
    controls: SentControls | None = None,
) -> Starlette:
    """Build the application that plays one log; its lifespan ends the pass over the log.

    Args:
        world: Name under which the log is played.
        source: The log, and its domains.
        serve: Configuration of the server.
        credentials: The known tokens; only the operator's is of use.
        controls: The control of the run that writes the log; None only reads.
    """
    timelines = Timelines(
        lambda name: source if name == world else None,
        lambda: [world],
        lambda name: name == world,
        lambda _name: controls or NoControls(),
        is_live=False,
        limits=serve.limits,
    )

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await to_thread.run_sync(timelines.close)

    app = Starlette(
        routes=[
            *history.table.routes(),
            *([] if controls is None else run_control.table.routes()),
            *dashboard.player_routes(),
        ],
        middleware=list(middleware(serve, credentials)),
        exception_handlers=problem_handlers(),
        lifespan=lifespan,
    )
    app.state.context = CallerContext(serve, credentials)
    app.state.timelines = timelines
    app.state.controls = controls
    return app


async def serve_play(
    app: Starlette, serve: ServeConfig, listening: socket, on_started: Callable[[], None]
) -> int | None:
    """Serve the application until a signal comes, and return its number."""
    async with app.router.lifespan_context(app):
        return await serve_until_signal(
            app,
            serve,
            listening,
            shutdown_seconds_max=_SHUTDOWN_SECONDS_MAX,
            drain=lambda: None,
            on_started=on_started,
        )
