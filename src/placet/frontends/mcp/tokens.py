"""Bearer tokens before an MCP server over HTTP: the operator's, or that of the agent it is."""

from typing import Final

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from placet.schemas.codec import to_json
from placet.server.credentials import Credentials

_CHALLENGE: Final = {"www-authenticate": 'Bearer realm="placet"'}


class WithTokens:
    """ASGI middleware that passes only requests with a token of the agent or the operator.

    Args:
        app: The wrapped application.
        known: The tokens.
        agent_id: The agent that the application proposes as.
    """

    def __init__(self, app: ASGIApp, known: Credentials, agent_id: str) -> None:
        self._app = app
        self._known = known
        self._agent_id = agent_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to the application, or answer 401 or 403."""
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        if refusal is None:
            await self._app(scope, receive, send)
        else:
            await refusal(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        who = self._known.principal(headers.get(b"authorization", b"").decode("latin-1"))
        if who is None:
            text = "this needs a token that the server knows: send `Authorization: Bearer <token>`"
            return _answer(401, text, _CHALLENGE)
        if not who.is_operator and who.submitter != self._agent_id:
            return _answer(403, f"this token does not speak for agent {self._agent_id!r}")
        return None


def _answer(status: int, text: str, headers: dict[str, str] | None = None) -> Response:
    body = to_json({"status": status, "detail": text})
    return Response(body, status, headers, "application/problem+json")
