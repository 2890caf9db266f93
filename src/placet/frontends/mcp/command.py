"""`placet mcp`: a world as tools of the Model Context Protocol (extra `mcp`)."""

import asyncio
import sys
from contextlib import AbstractAsyncContextManager, nullcontext
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Final

import anyio
import typer

from placet.agents.session.session import Session
from placet.cli.signals import StopSignals
from placet.cli.terminal import CommandError, notify
from placet.cli.world_options import DomainOption, SetOption, StoreOption
from placet.domains.session import RECORDER
from placet.frontends.mcp.stdin import lines_of_stdin
from placet.frontends.world_factory import (
    ModeOption,
    SessionOption,
    check_words,
    conversation_world,
    opened_session,
)
from placet.server.config import PORT_MAX, ServeConfig

_MCP_MAJOR: Final = "2"
_SHUTDOWN_SECONDS_MAX: Final = 2
"""Over HTTP, for what is in flight: a stream that a client left open never ends by itself."""


def mcp(  # noqa: PLR0917  # the command line has no positions
    domain: DomainOption = None,
    store: StoreOption = None,
    assignments: SetOption = None,
    http: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Serve streamable HTTP at /mcp of this address instead of stdio.",
        ),
    ] = None,
    agent: Annotated[
        str, typer.Option(metavar="NAME", help="Agent that the clients propose as.")
    ] = "mcp",
    mode: ModeOption = None,
    session: SessionOption = "mcp",
    person: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Name of the client's user, who is asked to confirm held plans. Default: no "
            "question is sent.",
        ),
    ] = None,
    tokens: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Token file for HTTP; `placet token new` makes its entries."
        ),
    ] = None,
) -> int:
    """Offer the kinds of a world as MCP tools: a client proposes, the gate decides.

    Over stdio the client starts this command; over HTTP it sends a token. A plan that needs
    confirmation is held; with --person the client's user is asked, otherwise it waits until
    `placet chat` on the same store and session confirms it.
    """
    check_words(mode, session)
    if person == agent:
        raise typer.BadParameter("the proposer does not confirm; give --person another name")
    if agent == RECORDER:
        raise typer.BadParameter(
            f"{RECORDER!r} is the agent that records conversations; give --agent another name"
        )
    try:
        from placet.frontends.mcp.server import McpServer  # noqa: F401, PLC0415  # the extra
    except ImportError as error:  # also of a name that another version of mcp does not have
        raise CommandError(missing_module(error)) from error
    domains, config = conversation_world("mcp", domain, store, assignments)
    opening = opened_session(domains, config, session=session, agent=agent, mode=mode)
    if http is None:
        return anyio.run(_over_stdio, opening, person)
    number = anyio.run(_over_http, opening, person, _address(http, tokens))
    return 0 if number is None else 128 + number


def missing_module(error: ImportError) -> str:
    """Return the message for a missing module: the extra, or an `mcp` of another major version."""
    try:
        found = version("mcp")
    except PackageNotFoundError:
        found = None
    if found is not None and found.partition(".")[0] != _MCP_MAJOR:
        return (
            f"`placet mcp` works with mcp {_MCP_MAJOR}.x, and mcp {found} is installed: "
            "pip install --upgrade '.[mcp]' in a clone of placet"
        )
    return (
        f"`placet mcp` needs {error.name}, which is not installed: pip install '.[mcp]' in a clone "
        "of placet"
    )


async def _over_stdio(opening: AbstractAsyncContextManager[Session], person: str | None) -> int:
    """Serve until the client closes its end, or a signal comes; gives the exit code."""
    from mcp.server.stdio import stdio_server  # noqa: PLC0415  # the extra

    from placet.frontends.mcp.server import McpServer  # noqa: PLC0415  # the extra

    # Windows waits for no pipe; there the SDK's own reader is used, which ends when a line comes.
    claimed = nullcontext() if sys.platform == "win32" else lines_of_stdin()
    # A signal cancels the request that runs; the session is closed in order after it.
    asking, loop = anyio.CancelScope(), asyncio.get_running_loop()
    with StopSignals(lambda: loop.call_soon_threadsafe(asking.cancel)) as stop:
        async with opening as session:
            with asking, claimed as lines:
                # The SDK only iterates over the lines of its `stdin` argument.
                stdio = stdio_server(lines)  # type: ignore[arg-type]
                async with stdio as (reading, writing):
                    server = McpServer(session, person).server()
                    await server.run(reading, writing, server.create_initialization_options())
    return stop.exit_code


async def _over_http(
    opening: AbstractAsyncContextManager[Session], person: str | None, serve: ServeConfig
) -> int | None:
    """Serve until a signal comes, and return its number."""
    from placet.frontends.mcp.server import McpServer, http_app  # noqa: PLC0415  # the extra
    from placet.frontends.mcp.session_shares import WithTokens  # noqa: PLC0415  # the extra
    from placet.server.http.fair_share import FairShare  # noqa: PLC0415  # the extra
    from placet.server.listener import listen, serve_until_signal, url_of  # noqa: PLC0415

    known, token = serve.credentials_or_new()
    with listen(serve) as listening:
        async with opening as session:
            app = http_app(McpServer(session, person), serve)
            async with app.router.lifespan_context(app):
                served = WithTokens(app, known, session.agent_id, serve.limits)
                return await serve_until_signal(
                    FairShare(served, known, serve.limits),
                    serve,
                    listening,
                    shutdown_seconds_max=_SHUTDOWN_SECONDS_MAX,
                    drain=lambda: None,
                    on_started=lambda: _tell(f"{url_of(listening)}/mcp", token),
                )


def _address(text: str, tokens: str | None) -> ServeConfig:
    """Read HOST:PORT.

    Raises:
        BadParameter: It is none.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > PORT_MAX:
        raise typer.BadParameter(f"--http takes HOST:PORT, such as 127.0.0.1:8001, got {text!r}")
    return ServeConfig(host=host.strip("[]"), port=int(port), tokens=tokens)


def _tell(url: str, token: str | None) -> None:
    notify(f"placet mcp: {url}")
    if token is not None:
        notify(f"placet mcp: the token, until this process ends: {token}")
