"""`placet gateway`: a gate before the tools of an MCP server (extra `gateway`)."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.util import find_spec
from typing import Annotated, Final, TypeAlias

import typer

from placet.cli.signals import StopSignals
from placet.cli.terminal import CommandError, notify
from placet_tools.frontend.gateway.links import (
    ServerLink,
    ServerUnreachable,
    StdioLink,
)
from placet_tools.frontend.gateway.policy import gateway_policy
from placet_tools.frontend.gateway.server_links import is_url, server_link
from placet_tools.frontend.gateway.tool_gate import GatewayOptions, ToolGate
from placet_tools.policy import ToolPolicyError

_PORT_MAX: Final = 65_535

_ApproveFrom: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="RISK",
        help="Least risk that needs a person: read, low, medium, high or never. A tool has "
        "the risk high, unless a policy names another.",
    ),
]

_Listen: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="HOST:PORT",
        help="Serve clients over streamable HTTP at http://HOST:PORT/mcp. Default: one client over "
        "stdin and stdout.",
    ),
]

_TokenEnv: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Environment variable with the token of the clients. Needed to listen on another "
        "address than 127.0.0.1.",
    ),
]


def gateway(  # noqa: PLR0917  # the command line has no positions
    server: Annotated[
        str,
        typer.Argument(
            metavar="COMMAND|URL",
            help="Command that starts the MCP server, or its URL (streamable HTTP).",
        ),
    ],
    store: Annotated[
        str,
        typer.Option(
            metavar="URL", help="Log of the calls: a path ending in .db, or a URL. Default: none."
        ),
    ] = "memory://",
    policy: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="Policy of the calls, in TOML. A tool that it does not list is held. Default: "
            "none.",
        ),
    ] = "",
    name: Annotated[
        str, typer.Option(metavar="NAME", help="Name of the domain of the tools in the log.")
    ] = "mcp",
    agent: Annotated[
        str, typer.Option(metavar="NAME", help="Agent as which the client calls.")
    ] = "agent",
    person: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Name of the client's user, who is asked about held calls if the client can ask. "
            "Empty: no question is sent.",
        ),
    ] = "user",
    approve_from: _ApproveFrom = "high",
    listen: _Listen = "",
    token_env: _TokenEnv = "",
) -> int:
    """Put a gate before the tools of an MCP server.

    An MCP client starts this command in place of the server's, or connects to it by --listen. A
    call runs when the gate admits it; a held call waits for a person. All other messages pass
    unchanged.
    """
    _require_extras(server, listens=bool(listen))
    if agent == person:
        raise typer.BadParameter("the agent does not decide its calls; give --person another name")
    try:
        rules = gateway_policy(policy)
    except ToolPolicyError as error:
        raise CommandError(str(error)) from error
    options = GatewayOptions(
        name=name,
        agent=agent,
        person=person,
        store=store,
        policy=rules,
        approve_from=approve_from,
    )
    if not listen:
        return asyncio.run(_over_stdio(server, options))
    token = _token(listen, token_env)
    return asyncio.run(_over_http(server, options, *_address_of(listen), token))


def _address_of(listen: str) -> tuple[str, int]:
    host, colon, port = listen.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > _PORT_MAX:
        raise typer.BadParameter(f"--listen is HOST:PORT, such as 127.0.0.1:8090, got {listen!r}")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _token(listen: str, variable: str) -> str:
    """Return the token of the clients; empty for none, on this machine alone."""
    token = os.environ.get(variable, "") if variable else ""
    if variable and not token:
        raise CommandError(f"the environment variable {variable} of --token-env is not set")
    if not token and _address_of(listen)[0] not in {"127.0.0.1", "::1", "localhost"}:
        raise CommandError(
            f"--listen {listen} is reachable from other machines: name a variable with a token "
            "by --token-env, or listen on 127.0.0.1"
        )
    return token


def _require_extras(server: str, *, listens: bool) -> None:
    """Check that the distributions of the extras are installed.

    Raises:
        CommandError: One is missing.
    """
    if find_spec("jsonschema") is None:
        install = "pip install './plugins/placet-tools[gateway]'"
        raise CommandError(f"`placet gateway` needs jsonschema, which is not installed: {install}")
    if (listens or is_url(server)) and find_spec("mcp") is None:
        install = "pip install './plugins/placet-tools[gateway-http]'"
        raise CommandError(f"streamable HTTP needs mcp, which is not installed: {install}")


async def _over_stdio(target: str, options: GatewayOptions) -> int:
    """Serve until one of the ends closes, or a signal comes; return the exit code."""
    try:
        async with server_link(target) as server:
            return await _served(server, options)
    except ServerUnreachable as error:
        raise CommandError(str(error)) from error


async def _served(server: ServerLink, options: GatewayOptions) -> int:
    """Serve a client over stdio; return the exit code."""
    from placet_tools.frontend.gateway.session import GatewaySession  # noqa: PLC0415  # as above

    gate = ToolGate(options, _report)
    client = StdioLink()
    session = GatewaySession(gate, client, server, _report)
    loop = asyncio.get_running_loop()
    serving = asyncio.ensure_future(session.run())
    try:
        async with _listening(gate):
            with StopSignals(lambda: loop.call_soon_threadsafe(serving.cancel)) as stop:
                has_died = await _ended(serving)
        if not has_died:
            return stop.exit_code
        first = "" if session.has_answered else " before it had answered"
        raise CommandError(f"{server} {await server.how_it_ended()}{first}")
    finally:
        await server.close()
        await gate.close()
        await client.close()


@asynccontextmanager
async def _listening(gate: ToolGate) -> AsyncIterator[None]:
    """Listen to `placet inbox`; report why if that is not possible."""
    from placet_tools.frontend.inbox.control import (  # noqa: PLC0415  # not before the help
        control_socket,
        socket_of,
    )

    path = socket_of(gate.options.store)
    async with AsyncExitStack() as stack:
        if path is not None:
            try:
                await stack.enter_async_context(control_socket(path, gate.in_use))
            except OSError as error:
                _report(f"held calls cannot be decided from a terminal: {path}: {error}")
        yield


async def _over_http(target: str, options: GatewayOptions, host: str, port: int, token: str) -> int:
    """Serve clients over streamable HTTP until a signal comes; return the exit code."""
    from placet_tools.frontend.gateway.http_clients import PATH, HttpClients, serve  # noqa: PLC0415  # as above

    try:
        listening = socket.create_server((host, port), family=_family(host))
    except OSError as error:
        raise CommandError(f"cannot listen on {host}:{port}: {error}") from error
    port = listening.getsockname()[1]
    gate = ToolGate(options, _report)
    clients = HttpClients(gate, target, port=port, token=token, notify=_report)
    try:
        async with _listening(gate):
            with StopSignals(lambda: None) as stop:  # the server repeats its signal at the end
                _report(f"listens on http://{host}:{port}{PATH}")
                await serve(clients.app(), listening)
        return stop.exit_code
    finally:
        await clients.close()
        await gate.close()


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


async def _ended(serving: "asyncio.Future[bool]") -> bool:
    try:
        return await serving
    except asyncio.CancelledError:
        return False


def _report(text: str) -> None:
    notify(f"placet gateway: {text}")
