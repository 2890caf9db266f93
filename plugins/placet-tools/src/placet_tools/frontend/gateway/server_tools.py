"""The tools that a server lists, to check a policy by: nothing is called, and no log is written."""

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from msgspec.json import decode

from placet.schemas.codec import Json
from placet_tools.frontend import jsonrpc
from placet_tools.frontend.gateway.declarations import TOOLS_MAX, raised, texts_of
from placet_tools.frontend.gateway.links import ServerLink
from placet_tools.frontend.gateway.policy import Declared, GatewayPolicy
from placet_tools.frontend.gateway.server_links import server_link
from placet_tools.frontend.gateway.tool_gate import ServerFault
from placet_tools.frontend.jsonrpc import MessageInvalid
from placet_tools.pinned import parts_of
from placet_tools.tool import NotDone, ToolError
from placet_tools.tools import Tools

PROTOCOL: Final = "2025-11-25"
SECONDS_MAX: Final = 60.0
"""Seconds for which a server may take to start and to list its tools."""


@dataclass(frozen=True, slots=True)
class ServerTools:
    """The tools of a server, as a gateway with a policy declares them.

    Attributes:
        tools: The tools, which cannot run.
        faults: Why tools are left out.
    """

    tools: Tools
    faults: tuple[str, ...]


async def tools_of_server(target: str, policy: GatewayPolicy, name: str) -> ServerTools:
    """Start or reach a server, list its tools, and end the connection.

    Args:
        target: Command or URL of the server.
        policy: The policy, with declarations of tools.
        name: Name of the domain of the tools.

    Raises:
        ServerUnreachable: The server cannot be started.
        ServerFault: It does not answer, or answers with an error.
        ToolError: The policy declares a tool otherwise than its schema permits.
    """
    async with server_link(target) as link:
        try:
            async with asyncio.timeout(SECONDS_MAX):
                listed = await _listed(link)
        except TimeoutError:
            message = f"{link} has not listed its tools within {SECONDS_MAX:g} s"
            raise ServerFault(message) from None
        except OSError as error:
            raise ServerFault(f"{link} {await link.how_it_ended()}: {error}") from error
        finally:
            await link.close()
    return _declared(listed, policy, name)


def _declared(listed: list[Json], policy: GatewayPolicy, name: str) -> ServerTools:
    texts, faults = texts_of(listed)
    tools = Tools(name)
    for tool, text in texts.items():
        declared, parts = policy.declared.get(tool, Declared()), parts_of(text)
        schema = parts.get("inputSchema")
        try:
            tools.add_schema(
                tool,
                schema if isinstance(schema, Mapping) else {},
                _not_called,
                risk=raised(declared.risk, parts),
                once=declared.once,
                delivery=declared.delivery,
            )
        except ToolError as error:
            if tool in policy.declared:
                raise
            faults.append(str(error))
    return ServerTools(tools, tuple(faults))


async def _listed(link: ServerLink) -> list[Json]:
    """Begin a session and list the tools, page by page."""
    client = {"name": "placet", "version": "1"}
    begin = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": client}
    listed: list[Json] = []
    async with aclosing(link.lines()) as lines:  # type: ignore[type-var]  # it is a generator
        await _answer(link, lines, 0, "initialize", begin)
        await link.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        params: dict[str, Json] = {}
        for number in range(1, TOOLS_MAX):
            page = await _answer(link, lines, number, "tools/list", params)
            if not isinstance(page, Mapping) or not isinstance(page.get("tools"), list):
                break
            listed += page["tools"]
            if page.get("nextCursor") is None or len(listed) > TOOLS_MAX:
                return listed
            params = {"cursor": page["nextCursor"]}
    raise ServerFault(f"{link} lists no tools: expected an array `tools`, and an end of its pages")


async def _answer(
    link: ServerLink,
    lines: Any,  # noqa: ANN401  # an iterator of lines
    number: int,
    method: str,
    params: Json,
) -> Json:
    await link.send(jsonrpc.request(number, method, params))
    async for line in lines:
        try:
            message = jsonrpc.read(line or b"")
        except MessageInvalid:
            continue  # the server printed something else
        if "method" in message or jsonrpc.value_of(message, "id") != number:
            continue
        if "error" in message:
            raise ServerFault(f"{link} answers {method} with {decode(message['error'])}")
        return jsonrpc.value_of(message, "result")
    raise ServerFault(f"{link} {await link.how_it_ended()} before it had answered {method}")


def _not_called(*_: object) -> None:
    raise NotDone("the tools of a check have no connection to a server")
