"""Clients over streamable HTTP, by the SDK (extra `gateway-http`), in one session each.

Each session has another connection to the server: a new process, if the server is a command. All
sessions share the gate and its log.
"""

import asyncio
import hmac
from collections.abc import AsyncIterator
from http import HTTPStatus
from socket import socket
from typing import Final
from uuid import uuid4

import uvicorn
from anyio import BrokenResourceError, CancelScope, ClosedResourceError
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER, StreamableHTTPServerTransport
from mcp.server.transport_security import RequestBodyLimitMiddleware, TransportSecuritySettings
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp.shared.message import SessionMessage
from mcp_types.jsonrpc import jsonrpc_message_adapter
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from msgspec.json import encode
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from placet_tools.frontend import jsonrpc
from placet_tools.frontend.gateway.http_link import MessageWriter, fields_of
from placet_tools.frontend.gateway.links import LINE_BYTES_MAX, ServerUnreachable
from placet_tools.frontend.gateway.server_links import server_link
from placet_tools.frontend.gateway.session import GatewaySession
from placet_tools.frontend.gateway.tool_gate import Notify, ToolGate

PATH: Final = "/mcp"

SESSIONS_MAX: Final = 64
"""Clients at a time; each may be a process of the server."""

_IDLE_SECONDS_MAX: Final = 1_800.0
"""A session without a request for so long is closed, and its process of the server ends."""

_FAULTS: Final = HTTPStatus.BAD_REQUEST
"""Statuses from here on refuse a request."""

_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")


class HttpClients:
    """The clients of a gateway over streamable HTTP; an ASGI application.

    Args:
        gate: The gate.
        target: Command or URL of the server.
        port: Port on which clients connect.
        token: Token that each request must have as its bearer; empty for none. Then only requests
            to this machine by its loopback names are answered.
        notify: Reports a line to the operator.
    """

    def __init__(
        self, gate: ToolGate, target: str, *, port: int, token: str, notify: Notify
    ) -> None:
        self._gate = gate
        self._target = target
        self._token = token.encode()
        self._notify = notify
        hosts = [f"{host}:{port}" for host in _LOOPBACK]
        # A page in a browser must not reach the gate by a name that leads to this machine.
        self._security = TransportSecuritySettings(
            enable_dns_rebinding_protection=not token,
            allowed_hosts=hosts,
            allowed_origins=[f"http://{host}" for host in hosts],
        )
        self._transports: dict[str, StreamableHTTPServerTransport] = {}
        self._sessions: set[asyncio.Task[None]] = set()

    def app(self) -> Starlette:
        """Return the application, which answers at `PATH`."""
        limited = RequestBodyLimitMiddleware(self._handle, LINE_BYTES_MAX)
        return Starlette(routes=[Route(PATH, endpoint=limited)])

    async def close(self) -> None:
        """Close all sessions."""
        for session in self._sessions:
            session.cancel()
        await asyncio.gather(*self._sessions, return_exceptions=True)

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        answer = self._refusal_of(request) or await self._answer_of(request)
        await answer(scope, receive, send)

    def _refusal_of(self, request: Request) -> Response | None:
        """Return the answer to a request without the token, or of a protocol without sessions."""
        given = request.headers.get("authorization", "").removeprefix("Bearer ").strip().encode()
        if self._token and not hmac.compare_digest(given, self._token):
            return _failure(HTTPStatus.UNAUTHORIZED, "the token is missing or wrong")
        version = request.headers.get(MCP_PROTOCOL_VERSION_HEADER)
        if version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS:
            known = ", ".join(HANDSHAKE_PROTOCOL_VERSIONS)
            text = f"the protocol version must be one of {known}, got {version[:40]!r}"
            return _failure(HTTPStatus.BAD_REQUEST, text)
        return None

    async def _answer_of(self, request: Request) -> ASGIApp:
        """Return the session that answers a request, a new one if it names none; or a refusal."""
        known = request.headers.get(MCP_SESSION_ID_HEADER)
        if known is not None:
            found = self._transports.get(known)
            if found is None:
                return _failure(HTTPStatus.NOT_FOUND, "there is no such session; initialize")
            return found.handle_request
        if len(self._transports) >= SESSIONS_MAX:
            text = f"there are {SESSIONS_MAX} clients already; try again later"
            return _failure(HTTPStatus.SERVICE_UNAVAILABLE, text)
        try:
            return await self._opened()
        except ServerUnreachable as error:
            return _failure(HTTPStatus.BAD_GATEWAY, str(error))

    async def _opened(self) -> ASGIApp:
        """Return a new session, which ends with its first request if that opens none.

        Raises:
            ServerUnreachable: The server cannot be started.
        """
        transport = StreamableHTTPServerTransport(
            uuid4().hex, security_settings=self._security, idle_timeout=_IDLE_SECONDS_MAX
        )
        self._transports[str(transport.mcp_session_id)] = transport
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        session = asyncio.create_task(self._serve(transport, started))
        self._sessions.add(session)
        session.add_done_callback(self._sessions.discard)
        await started

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            is_open = False

            async def noted(message: Message) -> None:
                nonlocal is_open
                is_open = is_open or message.get("status", _FAULTS) < _FAULTS
                await send(message)

            try:
                await transport.handle_request(scope, receive, noted)
            finally:
                if not is_open:
                    session.cancel()

        return answer

    async def _serve(
        self, transport: StreamableHTTPServerTransport, started: "asyncio.Future[None]"
    ) -> None:
        """Serve a session until the client or the server ends it."""
        try:
            async with server_link(self._target) as server, transport.connect() as streams:
                started.set_result(None)
                session = GatewaySession(self._gate, _StreamLink(*streams), server, self._notify)
                try:
                    with transport.idle_scope or CancelScope():
                        if await session.run():
                            self._notify(f"{server} {await server.how_it_ended()}; a session ends")
                finally:
                    await server.close()
        except ServerUnreachable as error:
            if started.done():
                self._notify(str(error))
            else:
                started.set_exception(error)
        finally:
            self._transports.pop(str(transport.mcp_session_id), None)
            await transport.terminate()


class _StreamLink:
    """The link to a client: two streams of the SDK."""

    def __init__(self, reading: AsyncIterator[object], writing: MessageWriter) -> None:
        self._reading = reading
        self._writing = writing

    async def send(self, line: bytes) -> None:
        """Send a message to the client.

        Raises:
            OSError: The session is closed.
        """
        try:
            await self._writing.send(SessionMessage(jsonrpc_message_adapter.validate_json(line)))
        except (BrokenResourceError, ClosedResourceError) as error:
            raise ConnectionError("the session of the client is closed") from error

    async def lines(self) -> AsyncIterator[bytes | None]:
        """Return the messages of the client, until the session is closed."""
        async for item in self._reading:
            if isinstance(item, SessionMessage):
                yield encode(fields_of(item))

    async def close(self) -> None:
        """Do nothing: the session closes its streams."""


def _failure(status: HTTPStatus, text: str) -> Response:
    content = jsonrpc.failure(None, jsonrpc.SERVER_ERROR, text)
    return Response(content, status, media_type="application/json")


async def serve(app: Starlette, listening: socket) -> None:
    """Serve an application on a socket until the process receives a signal to end."""
    config = uvicorn.Config(app, log_level="critical", lifespan="off", timeout_graceful_shutdown=1)
    await uvicorn.Server(config).serve([listening])
