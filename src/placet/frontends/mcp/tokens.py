"""Bearer tokens before an MCP server over HTTP: the operator's, or that of the agent it is."""

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from placet.frontends.mcp.session_shares import SessionShares
from placet.schemas.limits import HttpLimits
from placet.server.auth import authenticate
from placet.server.credentials import Credentials
from placet.server.http.problems import Problem


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
        try:
            who = authenticate(self._known, HTTPConnection(scope))
            if not who.is_operator and who.submitter != self._agent_id:
                raise Problem(
                    "forbidden", f"this token does not speak for agent {self._agent_id!r}"
                )
        except Problem as problem:
            await problem.response()(scope, receive, send)
            return
        await self._sessions.serve(who, scope, receive, send)
