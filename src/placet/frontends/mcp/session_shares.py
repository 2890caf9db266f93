"""Before an MCP server over HTTP: bearer tokens, the sessions of one name, and a count of reads.

A session of the older protocol versions is kept in memory from its first request until its client
deletes it or it was idle for too long. The SDK bounds all of them together; without a share for
each name, one client could take every place.
"""

from collections.abc import Callable
from math import ceil
from time import monotonic
from typing import Final

from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from placet.schemas.limits import HttpLimits
from placet.server.context import authenticate
from placet.server.credentials import Credentials, Principal
from placet.server.http.problems import Problem
from placet.server.http.reads import Reads

_SESSION: Final = b"mcp-session-id"
_VERSION: Final = b"mcp-protocol-version"
_OK_MAX: Final = 299
_NOT_FOUND: Final = 404


class _Open:
    """An open session, or a request that may open one.

    Attributes:
        who: The caller that opened it.
        requests: Number of its requests in progress; a stream is one.
        idle_since: When the latest of them ended, in seconds of the clock.
    """

    __slots__ = ("idle_since", "requests", "who")

    def __init__(self, who: Principal) -> None:
        self.who = who
        self.requests = 0
        self.idle_since = 0.0


class SessionShares:
    """Passes requests on to an MCP application, and refuses a caller more sessions than its share.

    Each request is charged to its caller as a read.

    Args:
        app: The application, which ends sessions that are idle for `mcp_session_idle_seconds_max`.
        limits: Bounds of the server.
        clock: Returns seconds.
    """

    def __init__(
        self, app: ASGIApp, limits: HttpLimits, clock: Callable[[], float] = monotonic
    ) -> None:
        self._app = app
        self._limits = limits
        self._reads = Reads(limits)
        self._clock = clock
        self._open: dict[str, _Open] = {}
        self._opening: set[_Open] = set()

    async def serve(self, who: Principal, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request of a caller."""
        headers: dict[bytes, bytes] = dict(scope["headers"])
        session_id = headers.get(_SESSION, b"").decode("latin-1")
        version = headers.get(_VERSION, b"").decode("latin-1")
        if session_id:
            session = self._open.get(session_id) or _Open(who)
        elif version and version not in HANDSHAKE_PROTOCOL_VERSIONS:
            await self._count(who, scope, receive, send)  # of a version without sessions
            return
        else:
            refusal = self._refusal(who)
            if refusal is not None:
                await refusal.response()(scope, receive, send)
                return
            session = _Open(who)
            self._opening.add(session)
        noted = self._noting(session, session_id, scope, send)
        session.requests += 1
        try:
            await self._count(who, scope, receive, noted)
        finally:
            session.requests -= 1
            session.idle_since = self._clock()
            self._opening.discard(session)

    def _noting(self, session: _Open, session_id: str, scope: Scope, send: Send) -> Send:
        """Return a `send` that records whether the answer opens or ends a session."""

        async def send_noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                opened = dict(message["headers"]).get(_SESSION, b"").decode("latin-1")
                if message["status"] == _NOT_FOUND or (
                    scope["method"] == "DELETE" and message["status"] <= _OK_MAX
                ):
                    self._open.pop(session_id, None)
                elif not session_id and opened and message["status"] <= _OK_MAX:
                    self._open[opened] = session
            await send(message)

        return send_noted

    async def _count(self, who: Principal, scope: Scope, receive: Receive, send: Send) -> None:
        await self._reads.serve(self._app, who.submitter, scope, receive, send)

    def _refusal(self, who: Principal) -> Problem | None:
        """Return why a caller may open no session now; None if it may."""
        now, idle_max = self._clock(), self._limits.mcp_session_idle_seconds_max
        for session_id, session in list(self._open.items()):
            if not session.requests and now - session.idle_since >= idle_max:
                del self._open[session_id]
        own = [one for one in {*self._open.values(), *self._opening} if one.who == who]
        count_max = self._limits.mcp_sessions_per_token_max
        if len(own) < count_max:
            return None
        ends = [one.idle_since + idle_max for one in own if not one.requests]
        seconds = max(ceil(min(ends) - now), 1) if ends else None
        return Problem(
            "busy",
            f"the tokens of {who.submitter!r} have {len(own)} MCP sessions open, at most "
            f"{count_max} are allowed; end one by DELETE with its mcp-session-id, or wait until "
            f"one was idle for {idle_max} s",
            headers={} if seconds is None else {"retry-after": str(seconds)},
            retry_after=seconds,
        )


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
