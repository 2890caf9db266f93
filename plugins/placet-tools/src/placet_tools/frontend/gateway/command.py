"""`placet gateway`: a gate before the tools of an MCP server (extra `gateway`)."""

import asyncio
from importlib.util import find_spec
from typing import Annotated

import typer

from placet.cli.signals import StopSignals
from placet.cli.terminal import CommandError, notify
from placet_tools.frontend.gateway.tool_gate import GatewayOptions, ToolGate


def gateway(  # the command line has no positions
    server: Annotated[
        str,
        typer.Argument(metavar="COMMAND", help="Command that starts the MCP server."),
    ],
    store: Annotated[
        str,
        typer.Option(
            metavar="URL", help="Log of the calls: a path ending in .db, or a URL. Default: none."
        ),
    ] = "memory://",
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
            "Empty: nobody is asked.",
        ),
    ] = "user",
    approve_from: Annotated[
        str,
        typer.Option(
            metavar="RISK",
            help="Least risk that needs a person: read, low, medium, high or never. A tool has "
            "the risk high, unless a policy names another.",
        ),
    ] = "high",
) -> int:
    """Put a gate before the tools of an MCP server.

    An MCP client starts this command in place of the server's. A call runs when the gate admits
    it; a held call waits for a person. All other messages pass unchanged.
    """
    if find_spec("jsonschema") is None:
        install = "pip install './plugins/placet-tools[gateway]'"
        raise CommandError(f"`placet gateway` needs jsonschema, which is not installed: {install}")
    if agent == person:
        raise typer.BadParameter("the agent does not decide its calls; give --person another name")
    options = GatewayOptions(
        name=name, agent=agent, person=person, store=store, approve_from=approve_from
    )
    return asyncio.run(_over_stdio(server, options))


async def _over_stdio(command: str, options: GatewayOptions) -> int:
    """Serve until one of the ends closes, or a signal comes; return the exit code."""
    from placet_tools.frontend.gateway.links import (  # noqa: PLC0415  # not before the help
        ProcessLink,
        ServerNotStarted,
        StdioLink,
    )
    from placet_tools.frontend.gateway.session import Session  # noqa: PLC0415  # as above

    try:
        server = await ProcessLink.start(command)
    except ServerNotStarted as error:
        raise CommandError(str(error)) from error
    client = StdioLink()
    gate = ToolGate(options, _report)
    session = Session(gate, client, server, _report)
    loop = asyncio.get_running_loop()
    serving = asyncio.ensure_future(session.run())
    try:
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


async def _ended(serving: "asyncio.Future[bool]") -> bool:
    try:
        return await serving
    except asyncio.CancelledError:
        return False


def _report(text: str) -> None:
    notify(f"placet gateway: {text}")
