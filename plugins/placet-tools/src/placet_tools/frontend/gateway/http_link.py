"""A server behind a URL: streamable HTTP, by the SDK (extra `gateway-http`).

The SDK reads and writes the messages here, so their values pass, and not their bytes.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final, Protocol

from anyio import BrokenResourceError, ClosedResourceError
from httpx2 import HTTPError, InvalidURL
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    encode_header_value,
)
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp_types.jsonrpc import jsonrpc_message_adapter
from msgspec.json import decode, encode

from placet.schemas.codec import Json
from placet_tools.frontend.gateway.links import ServerUnreachable

PROTOCOL: Final = "io.modelcontextprotocol/protocolVersion"
_NAMES: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""Method -> the parameter that is repeated in a header."""


class HttpLink:
    """A connection to a server over streamable HTTP; make it by `http_link`."""

    def __init__(self, url: str, reading: AsyncIterator[object], writing: "MessageWriter") -> None:
        self._url = url
        self._reading = reading
        self._writing = writing
        self._version = ""

    def __str__(self) -> str:
        return f"the server {self._url}"

    async def send(self, line: bytes) -> None:
        """Send a message to the server.

        Raises:
            OSError: The connection is closed.
        """
        headers = self._headers(decode(line))
        metadata = ClientMessageMetadata(headers=headers)
        message = SessionMessage(jsonrpc_message_adapter.validate_json(line), metadata)
        try:
            await self._writing.send(message)
        except (BrokenResourceError, ClosedResourceError) as error:
            raise ConnectionError("the connection to the server is closed") from error

    async def lines(self) -> AsyncIterator[bytes | None]:
        """Return the messages of the server, until the connection is closed."""
        async for item in self._reading:
            if isinstance(item, SessionMessage):
                fields = fields_of(item)
                result = fields.get("result")
                if isinstance(result, dict) and isinstance(result.get("protocolVersion"), str):
                    self._version = result["protocolVersion"]
                yield encode(fields)

    async def how_it_ended(self) -> str:
        """Return how the connection ended."""
        return "closed the connection"

    async def close(self) -> None:
        """Do nothing: `http_link` closes the connection."""

    def _headers(self, message: Mapping[str, Json]) -> dict[str, str]:
        """Return the headers that repeat parts of a message, as the protocol asks for."""
        params, method = message.get("params") or {}, message.get("method", "")
        meta = params.get("_meta") or {}
        version = meta.get(PROTOCOL, self._version)
        if not version or method == "initialize":
            return {}
        headers = {MCP_PROTOCOL_VERSION_HEADER: str(version)}
        if PROTOCOL in meta:
            headers[MCP_METHOD_HEADER] = method
            if (name := params.get(_NAMES.get(method, ""))) is not None:
                headers[MCP_NAME_HEADER] = encode_header_value(str(name))
        return headers


def fields_of(item: SessionMessage) -> dict[str, Json]:
    """Return the fields of a message of the SDK."""
    return item.message.model_dump(by_alias=True, exclude_unset=True)


class MessageWriter(Protocol):
    """The stream of the SDK that takes messages."""

    async def send(self, item: SessionMessage) -> None:
        """Send a message."""


@asynccontextmanager
async def http_link(url: str) -> AsyncIterator[HttpLink]:
    """Connect to a server; the first message opens the connection.

    Raises:
        ServerUnreachable: The server cannot be reached, or not any more.
    """
    try:
        async with streamable_http_client(url) as (reading, writing):
            yield HttpLink(url, reading, writing)
    except ExceptionGroup as group:
        faults, others = group.split((HTTPError, InvalidURL))
        if others is not None or faults is None:
            raise
        raise ServerUnreachable(f"the server {url} cannot be reached: {_first(faults)}") from group


def _first(group: ExceptionGroup[Exception]) -> Exception:
    """Return the first error of a group."""
    first = group.exceptions[0]
    return _first(first) if isinstance(first, ExceptionGroup) else first
