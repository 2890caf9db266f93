"""The objects that the routes of one application share: worlds, limits, credentials, metrics.

A route asks its `RequestContext` for the caller, the world and the body of a request, in this
order, so that a caller without a token learns no names. The token alone identifies the caller. A
batch has no field for a role: a caller could write anything into it.
"""

from collections.abc import Mapping
from typing import Final, TypeVar

from starlette.requests import HTTPConnection, Request

from placet.kernel.intent_visibility import speaks_for
from placet.kernel.kernel import Kernel
from placet.runtime.orchestrator import Orchestrator
from placet.schemas.codec import Json
from placet.schemas.identity import OPERATOR
from placet.server.config import ServeConfig
from placet.server.credentials import PRINCIPAL_KEY, Credentials, Principal
from placet.server.http.bodies import read_body, read_document
from placet.server.http.metrics_text import MetricsText
from placet.server.http.parameters import Fields, read_fields
from placet.server.http.problems import Problem
from placet.server.http.reads import Reads
from placet.server.roles import AccessRule, Role, claimed_role
from placet.server.streams import Streams
from placet.server.worlds import Worlds

T = TypeVar("T", bound=Fields)

SUBPROTOCOL: Final = "placet"
_TOKEN_SUBPROTOCOL: Final = "bearer."
_CHALLENGE: Final = {"www-authenticate": 'Bearer realm="placet"'}

_LESSER_ROLE: Final = {
    Role.AGENT: "this token may read this, and not change it",
    Role.OPERATOR: "this needs the operator's token; an agent's token may not do it",
}
"""Error messages by the role that was needed."""


class CallerContext:
    """The configuration and the callers' tokens, which every application has.

    Attributes:
        config: Configuration of the server.
        limits: Bounds of the server.
        is_draining: The server is shutting down: `/readyz` answers 503, streams are refused.
        reads: Admits and counts the reads of callers.
        shutdown_seconds_max: Time limit for the requests in flight at the end.
        worlds_max: Number of worlds in files that the server may open.
    """

    shutdown_seconds_max = 2
    worlds_max = 0

    def __init__(self, config: ServeConfig, credentials: Credentials) -> None:
        self.config = config
        self.limits = config.limits
        self.is_draining = False
        self.reads = Reads(config.limits)
        self._credentials = credentials

    def drain(self) -> None:
        """Answer 503 at `/readyz` from now on: the server is shutting down."""
        self.is_draining = True

    def principal(self, connection: HTTPConnection) -> Principal:
        """Return the principal (authenticated caller) of a request's bearer token.

        A browser's WebSocket passes it as a subprotocol.

        Raises:
            Problem: There is no token, or it is unknown.
        """
        return authenticate(self._credentials, connection)

    def caller(self, connection: HTTPConnection) -> str | None:
        """Return the name of a request's token, to which its reads are charged; None without one.

        The principal is kept for the route: to look up a token costs a hash.
        """
        try:
            who = self.principal(connection)
        except Problem:
            return None
        connection.scope[PRINCIPAL_KEY] = who
        return who.submitter

    def is_operator(self, connection: HTTPConnection) -> bool:
        """Return whether a request has the operator's token; False without a valid token."""
        try:
            return self.principal(connection).is_operator
        except Problem:
            return False

    def operate(self, connection: HTTPConnection, world: str, shown: str = "") -> None:
        """Raise unless the request's token is the operator's; a server of worlds has roles in each.

        Raises:
            Problem: There is no valid token, or it is an agent's.
        """
        self.operator(connection)

    def operates(self, connection: HTTPConnection, world: str) -> bool:
        """Return whether the request's token is the operator's in a world."""
        return self.is_operator(connection)

    def operator(self, connection: HTTPConnection) -> None:
        """Raise unless the request has the operator's token.

        Raises:
            Problem: There is no valid token, or it is an agent's.
        """
        if not self.principal(connection).is_operator:
            raise Problem("forbidden", _LESSER_ROLE[Role.OPERATOR])

    async def body(self, request: Request) -> bytes:
        """Return the bytes of a JSON body, bounded by the server's limits.

        Raises:
            Problem: The body has another media type, is too large, or does not arrive in time.
        """
        return await read_body(request, self.limits)

    async def document(self, request: Request) -> dict[str, Json]:
        """Return the JSON object in the body of a request.

        Raises:
            Problem: The body is not a JSON object.
        """
        return await read_document(request, self.limits)

    async def read(self, request: Request, kind: type[T], *, is_optional: bool = False) -> T:
        """Return the JSON body of a request, converted to a struct.

        Args:
            request: The request whose body is read.
            kind: Type of the struct.
            is_optional: A missing body is read as an empty object.

        Raises:
            Problem: The body is not an object of this type.
        """
        document = await read_document(request, self.limits, is_optional=is_optional)
        return read_fields(document, kind)


class RequestContext(CallerContext):
    """The shared objects of the routes of one application.

    Attributes:
        worlds: The worlds that the server serves.
        access: A plug-in's own rule about who may use its worlds; None for no rule.
        admits_unregistered: A token that `access` admits reads without a registered agent.
        streams: The open WebSockets.
        metrics: Text of the Prometheus metrics, cached.
    """

    def __init__(self, worlds: Worlds, config: ServeConfig, credentials: Credentials) -> None:
        super().__init__(config, credentials)
        self.worlds = worlds
        self.shutdown_seconds_max = worlds.first.config.limits.shutdown_seconds_max
        self.access: AccessRule | None = None
        self.admits_unregistered = False
        self.streams = Streams(config.limits)
        worlds.on_reopened.append(self.streams.on_reopened)
        self.metrics = MetricsText(config.limits.metrics_age_ms_max)

    @property
    def worlds_max(self) -> int:  # type: ignore[override]  # known once routes are made
        """Number of worlds in files that the server may open."""
        return self.worlds.in_files_max

    def role_in(self, who: Principal, world: str) -> Role | None:
        """Return the role of a caller in a world; None if it has none, or there is no such world.

        Raises:
            ClosedError: The world's own rule cannot be read, because the world has failed.
        """
        opened = self.worlds.find(world)
        if opened is None:
            return None
        claimed = claimed_role(self.config.claims, who.submitter, world)
        if claimed is None or claimed is Role.OPERATOR or self.access is None:
            return claimed
        own = self.access(opened, who.submitter)
        return None if own is None else min(claimed, own)

    def enter(
        self,
        connection: HTTPConnection,
        world: str,
        *,
        needs: Role = Role.READER,
        noun: str = "world",
        shown: str = "",
    ) -> tuple[Principal, Orchestrator]:
        """Return the caller of a request, as the world knows it, and the world.

        A token with the role `operator` in the world is its operator. Every route of a world calls
        this first, before it reads the body.

        Args:
            connection: The request.
            world: Name of the world.
            needs: The least role that the route is for.
            noun: Word for the world in error messages.
            shown: Its name in error messages, if the caller used another.

        Raises:
            Problem: The token is invalid; there is no such world, or none for this token, which get
                the same answer; or the token has a lesser role.
        """
        who = self.principal(connection)
        role, opened = self.role_in(who, world), self.worlds.find(world)
        self._require_opened(who, world, noun, shown)
        if role is None or opened is None:
            raise Problem("not_found", f"there is no {noun} {(shown or world)!r} here")
        if role < needs:
            raise Problem("forbidden", _LESSER_ROLE[needs])
        return Principal(OPERATOR) if role is Role.OPERATOR else who, opened

    def _require_opened(self, who: Principal, world: str, noun: str, shown: str) -> None:
        """Raise if a world exists and the server has not opened it, for tokens that may use it.

        Raises:
            Problem: It is so; the operator gets the reason.
        """
        why = self.worlds.unopened.get(world)
        if why is not None and claimed_role(self.config.claims, who.submitter, world) is not None:
            detail = f"the {noun} {(shown or world)!r} is not open on this server"
            raise Problem(
                "unavailable",
                f"{detail}; ask the operator",
                operator_detail=f"{detail}: {why}",
            )

    def operate(self, connection: HTTPConnection, world: str, shown: str = "") -> None:
        """Raise unless the request's token is the operator's in a world.

        Raises:
            Problem: There is no valid token, no such world for it, or it is no operator's there.
        """
        self.enter(connection, world, needs=Role.OPERATOR, shown=shown)

    def operates(self, connection: HTTPConnection, world: str) -> bool:
        """Return whether the request's token is the operator's in a world."""
        return self.role_in(self.principal(connection), world) is Role.OPERATOR

    async def check_speaks_for(self, world: Orchestrator, who: Principal, agent_id: str) -> None:
        """Raise unless a principal may act for an agent: as the operator, the agent, or its owner.

        Raises:
            Problem: The agent belongs to another principal, or does not exist; the two are not
                distinguished.
        """

        def look(kernel: Kernel) -> tuple[bool, bool]:
            ledger = kernel.ledger
            return speaks_for(ledger, who.submitter, agent_id), agent_id in ledger.agents

        is_spoken_for, is_there = await world.query(look)
        if not is_spoken_for:
            raise Problem("forbidden", f"this token does not speak for agent {agent_id!r}")
        if not is_there:
            raise Problem("not_found", f"there is no agent {agent_id!r}; register it first")


def context_of(connection: HTTPConnection) -> RequestContext:
    """Return the context of the application that received a request."""
    context: RequestContext = connection.app.state.context
    return context


def entered(
    request: Request, world: str, needs: Role = Role.READER
) -> tuple[RequestContext, Principal, Orchestrator]:
    """Return the context, the caller and the world of a request: see `RequestContext.enter`."""
    context = context_of(request)
    return context, *context.enter(request, world, needs=needs)


def authenticate(credentials: Credentials, connection: HTTPConnection) -> Principal:
    """Return the principal (authenticated caller) of a request's bearer token.

    A browser cannot set headers on a WebSocket, so there the token may come as a subprotocol.

    Raises:
        Problem: There is no token, or it is unknown.
    """
    principal: Principal | None = connection.scope.get(PRINCIPAL_KEY)
    if principal is None:
        principal = credentials.principal(connection.headers.get("authorization", ""))
    if principal is None and connection.scope["type"] == "websocket":
        principal = credentials.who(_offered_token(connection.scope))
    if principal is None:
        raise Problem(
            "unauthenticated",
            "this needs a token that the server knows: send `Authorization: Bearer <token>`",
            headers=_CHALLENGE,
        )
    return principal


def _offered_token(scope: Mapping[str, Json]) -> str:
    offered: list[str] = scope.get("subprotocols", [])
    tokens = (item for item in offered if item.startswith(_TOKEN_SUBPROTOCOL))
    return next(tokens, "").removeprefix(_TOKEN_SUBPROTOCOL)
