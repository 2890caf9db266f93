"""Bearer tokens before an MCP server over HTTP: the operator's, or that of the agent it is."""

from typing import Final

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from placet.frontends.mcp.session_shares import SessionShares
from placet.schemas.codec import to_json
from placet.schemas.limits import HttpLimits
from placet.server.credentials import Credentials, Principal

_CHALLENGE: Final = {"www-authenticate": 'Bearer realm="placet"'}


class WithTokens:
    """ASGI middleware that passes only requests with a token of the agent or the operator.

    Args:
        app: The wrapped application.
        known: The tokens.
        agent_id: The agent that the application proposes as.
        limits: Bounds of the server, such as the sessions of one name's tokens.
    """

    def __init__(self, app: ASGIApp, known: Credentials, agent_id: str, limits: HttpLimits) -> None:
        self._app = app
        self._sessions = SessionShares(app, limits)
        self._known = known
        self._agent_id = agent_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to the application, or answer 401, 403, or 429 for its sessions."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        who = self._caller(scope)
        if isinstance(who, Principal):
            await self._sessions.serve(who, scope, receive, send)
        else:
            await who(scope, receive, send)

    def _caller(self, scope: Scope) -> Principal | Response:
        """Return the caller of a request, or the response to a token that may not call."""
        headers: dict[bytes, bytes] = dict(scope["headers"])
        who = self._known.principal(headers.get(b"authorization", b"").decode("latin-1"))
        if who is None:
            text = "this needs a token that the server knows: send `Authorization: Bearer <token>`"
            return _answer(401, text, _CHALLENGE)
        if not who.is_operator and who.submitter != self._agent_id:
            return _answer(403, f"this token does not speak for agent {self._agent_id!r}")
        return who


def _answer(status: int, text: str, headers: dict[str, str] | None = None) -> Response:
    body = to_json({"status": status, "detail": text})
    return Response(body, status, headers, "application/problem+json")
