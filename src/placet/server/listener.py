"""The process around the application: a socket, a server, and an orderly end.

On SIGTERM or SIGINT `/readyz` returns 503; after `drain_seconds` no connection is accepted,
requests in flight are answered, the world is closed, and the process ends. A second signal does not
wait. A request that exceeds the shutdown time is answered 503 `unavailable`.
"""

import asyncio
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Final

import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.server import HANDLED_SIGNALS

from placet.schemas.errors import PlacetError
from placet.server.config import ServeConfig
from placet.server.http.connection import BoundedConnection
from placet.server.http.connections import Connections
from placet.server.http.problems import Problem
from placet.server.http.request_id import HEADER, KEY
from placet.server.http.stream_protocol import StreamProtocol
from placet.server.open_files import share_open_files
from placet.stores.gc_tuning import tune_gc

if TYPE_CHECKING:
    from placet.server.context import CallerContext

_KEEP_ALIVE_SECONDS = 75
_BACKLOG = 2_048
_SWITCH_SECONDS = 0.0005


class _ClientFaults(logging.Filter):
    """Leaves out lines that a client could have the server log without end.

    Each is about a request that is refused by a response. The server logs a denied handshake as an
    error of the application (uvicorn 0.54), though the client has its answer.
    """

    _MESSAGES: Final = frozenset(
        {
            "ASGI callable returned without completing handshake.",
            "Invalid HTTP request received.",
            "Unsupported upgrade request.",
        }
    )

    def filter(self, record: logging.LogRecord) -> bool:
        return record.msg not in self._MESSAGES


class _GivenUp:
    """Answers the requests that the server gives up at its end, where none has begun to.

    The server cancels such requests, and no other code does. By default it would log each as a bug,
    and answer 500.

    Args:
        app: What answers the others.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        is_begun = False

        async def send_noted(message: Message) -> None:
            nonlocal is_begun
            is_begun = True
            await send(message)

        try:
            await self._app(scope, receive, send_noted)
        except asyncio.CancelledError:
            if scope["type"] != "http" or is_begun:
                return
            headers = {"retry-after": "1"}
            if KEY in scope:
                headers[HEADER] = scope[KEY].decode()
            detail = "the server ended before this was answered; ask again what became of it"
            await Problem("unavailable", detail, headers=headers).response()(scope, receive, send)


class _Shutdown:
    """Ends a server in order at the first signal, and without waiting at the second.

    Attributes:
        signal_number: The first signal; None while none came.

    Args:
        drain: Called at the first signal.
        drain_seconds: How long to keep serving after it.
    """

    def __init__(self, drain: Callable[[], None], drain_seconds: float) -> None:
        self.signal_number: int | None = None
        self._drain = drain
        self._drain_seconds = drain_seconds

    def handle_signals_for(self, server: uvicorn.Server) -> None:
        """Replace the server's own handlers, which would raise the signal again at the end.

        The server restores the earlier handlers when it ends.
        """
        if threading.current_thread() is not threading.main_thread():
            return  # only the main thread receives signals; the server has no handlers either
        loop = asyncio.get_running_loop()

        def handle(number: int, _frame: FrameType | None) -> None:
            if self.signal_number is not None:
                server.should_exit = server.force_exit = True
                return
            self.signal_number = int(signal.Signals(number))
            self._drain()
            loop.call_soon_threadsafe(loop.call_later, self._drain_seconds, stop)

        def stop() -> None:
            server.should_exit = True

        for handled in HANDLED_SIGNALS:
            signal.signal(handled, handle)


def listen(serve: ServeConfig, *, at_once: bool = True) -> socket.socket:
    """Bind a socket to the configured address, and return it.

    Args:
        serve: Configuration with host and port.
        at_once: Listen now: clients connect and wait until the server starts. If false, they are
            rejected until then, so that they try another server.

    Raises:
        PlacetError: The address is in use, or does not belong to this machine.
    """
    family = socket.AF_INET6 if ":" in serve.host else socket.AF_INET
    # The protocol by its name: asyncio sets TCP_NODELAY only where it is said, and without it each
    # answer, which is written in two parts, waits 40 ms for the client's acknowledgement.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((serve.host, serve.port))
        if at_once:
            listening.listen(_BACKLOG)
        return listening
    except OSError as error:
        listening.close()
        raise PlacetError(
            f"cannot listen on {serve.host} port {serve.port}: {error.strerror or error}; "
            "choose another --port, or 0 for any"
        ) from error


def url_of(listening: socket.socket) -> str:
    """Return the URL of a listening socket."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def page_of(url: str, token: str | None) -> str:
    """Return the URL of a server's page; a token is in its fragment, which no proxy reads."""
    return f"{url}/" if token is None else f"{url}/#token={token}"


def run_to_signal(listening: socket.socket, serving: Coroutine[None, None, int | None]) -> int:
    """Run a server until a signal ends it, close its socket, and return the exit code."""
    tune_gc()
    with listening, asyncio.Runner(loop_factory=loop_factory()) as runner:
        number = runner.run(serving)
    return 0 if number is None else 128 + number


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the factory of uvloop event loops; None, for asyncio's own, if it is not installed.

    uvloop writes head and body of a response in one call, and needs 5 % less CPU time for a plan.
    """
    try:
        import uvloop  # noqa: PLC0415  # there is none for Windows
    except ModuleNotFoundError:
        return None
    return uvloop.new_event_loop


async def run_server(
    app: Starlette, serve: ServeConfig, listening: socket.socket, on_started: Callable[[], None]
) -> int | None:
    """Start an application, serve it until a signal comes, and return the number of the signal.

    Raises:
        StoreError: A world cannot be opened.
    """
    context: CallerContext = app.state.context
    # Around the server and not in its lifespan: a store that does not open is our error to tell.
    async with app.router.lifespan_context(app):
        return await serve_until_signal(
            app,
            serve,
            listening,
            shutdown_seconds_max=context.shutdown_seconds_max,
            drain=context.drain,
            on_started=on_started,
            worlds_max=context.worlds_max,
        )


async def serve_until_signal(
    app: ASGIApp,
    serve: ServeConfig,
    listening: socket.socket,
    *,
    shutdown_seconds_max: int,
    drain: Callable[[], None],
    on_started: Callable[[], None],
    worlds_max: int = 0,
) -> int | None:
    """Serve an application, whose lifespan the caller has started, until a signal ends it.

    Args:
        app: The ASGI application.
        serve: Configuration with limits and `drain_seconds`.
        listening: The bound socket.
        shutdown_seconds_max: Time limit for answering the requests in flight.
        drain: Called when the first signal comes.
        on_started: Called once requests are accepted.
        worlds_max: Number of worlds in files that the application may open.

    Returns:
        The number of the signal that ended the server; None if none did.
    """
    shutdown = _Shutdown(drain, serve.drain_seconds)
    is_started = False

    async def note_start() -> None:
        nonlocal is_started
        if not is_started:
            is_started = True
            shutdown.handle_signals_for(server)
            on_started()

    connections_max = share_open_files(serve.limits, worlds_max)[0]
    limits = replace(serve.limits, connections_max=connections_max)
    connections = Connections()
    config = uvicorn.Config(
        _GivenUp(app),
        lifespan="off",
        http=partial(BoundedConnection, limits=limits, shared=connections),  # type: ignore[arg-type]  # is called
        ws=partial(StreamProtocol, limits=limits, shared=connections),  # type: ignore[arg-type]  # is called
        ws_max_size=limits.socket_message_bytes_max,
        ws_per_message_deflate=False,
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=shutdown_seconds_max,
        # Called in the server's first pass after it began to listen, and then once in a while.
        callback_notify=note_start,
    )
    logging.getLogger("uvicorn.error").addFilter(_ClientFaults())
    server = uvicorn.Server(config)
    with _threads_that_yield():
        await server.serve(sockets=[listening])
    return shutdown.signal_number


@contextmanager
def _threads_that_yield() -> Iterator[None]:
    """Have a thread that computes leave the interpreter's lock to the event loop soon.

    The event loop needs the lock again after each system call. With 5 ms, the default, a request
    waits 8 ms beside one thread that computes, with 0.5 ms less than 1 ms.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
