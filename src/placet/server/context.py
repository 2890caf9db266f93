"""The objects that the routes of one application share: worlds, limits, credentials, metrics.

A route asks its `RequestContext` for the caller, the world and the body of a request, in this
order, so that a caller without a token learns no names.
"""

from typing import TypeVar

from starlette.requests import HTTPConnection, Request

from placet.kernel.kernel import Kernel
from placet.runtime.orchestrator import Orchestrator
from placet.schemas.codec import Json
from placet.server.auth import authenticate, speaks_for
from placet.server.config import ServeConfig
from placet.server.credentials import Credentials, Principal
from placet.server.http.bodies import read_body, read_document
from placet.server.http.metrics_text import MetricsText
from placet.server.http.parameters import Fields, read_fields
from placet.server.http.problems import Problem
from placet.server.streams import Streams
from placet.server.worlds import Worlds

T = TypeVar("T", bound=Fields)


class CallerContext:
    """The configuration and the callers' tokens, which every application has.

    Attributes:
        config: Configuration of the server.
        limits: Bounds of the server.
        is_draining: The server is shutting down: `/readyz` answers 503, streams are refused.
    """

    def __init__(self, config: ServeConfig, credentials: Credentials) -> None:
        self.config = config
        self.limits = config.limits
        self.is_draining = False
        self._credentials = credentials

    def principal(self, connection: HTTPConnection) -> Principal:
        """Return the principal (authenticated caller) of a request's bearer token.

        A browser's WebSocket passes it as a subprotocol.

        Raises:
            Problem: There is no token, or it is unknown.
        """
        return authenticate(self._credentials, connection)

    def is_operator(self, connection: HTTPConnection) -> bool:
        """Return whether a request has the operator's token; False without a valid token."""
        try:
            return self.principal(connection).is_operator
        except Problem:
            return False

    def operator(self, connection: HTTPConnection) -> None:
        """Raise unless the request has the operator's token.

        Raises:
            Problem: There is no valid token, or it is an agent's.
        """
        if not self.principal(connection).is_operator:
            raise Problem(
                "forbidden", "this needs the operator's token; an agent's token may not do it"
            )

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
        streams: The open WebSockets.
        metrics: Text of the Prometheus metrics, cached.
    """

    def __init__(self, worlds: Worlds, config: ServeConfig, credentials: Credentials) -> None:
        super().__init__(config, credentials)
        self.worlds = worlds
        self.streams = Streams(config.limits)
        worlds.on_reopened.append(self.streams.on_reopened)
        self.metrics = MetricsText(config.limits.metrics_age_ms_max)

    def world(self, name: str, what: str = "world") -> Orchestrator:
        """Return an open world by its name; `what` is its noun in the error message.

        Raises:
            Problem: There is no such world.
        """
        world = self.worlds.find(name)
        if world is None:
            raise Problem("not_found", f"there is no {what} {name!r} here")
        return world

    def world_for(self, connection: HTTPConnection, name: str, what: str = "world") -> Orchestrator:
        """Return an open world by its name, if the request has a valid token.

        Without a token, no names of worlds are revealed.

        Raises:
            Problem: There is no valid token, or no such world.
        """
        self.principal(connection)
        return self.world(name, what)

    async def check_speaks_for(self, world: Orchestrator, who: Principal, agent_id: str) -> None:
        """Raise unless a principal may act for an agent: as the operator, the agent, or its owner.

        Raises:
            Problem: The agent belongs to another principal, or does not exist; the two are not
                distinguished.
        """

        def look(kernel: Kernel) -> tuple[bool, bool]:
            return speaks_for(kernel, who.submitter, agent_id), agent_id in kernel.ledger.agents

        is_spoken_for, is_there = await world.query(look)
        if not is_spoken_for:
            raise Problem("forbidden", f"this token does not speak for agent {agent_id!r}")
        if not is_there:
            raise Problem("not_found", f"there is no agent {agent_id!r}; register it first")


def context_of(connection: HTTPConnection) -> RequestContext:
    """Return the context of the application that received a request."""
    context: RequestContext = connection.app.state.context
    return context
