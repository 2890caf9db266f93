"""Authentication, the world of a request, and its body.

One `RequestContext` belongs to one application. The token alone identifies the caller: a batch's
fields are those of the gate, and the gate has no field for a role.
"""

import asyncio
from collections.abc import Mapping
from typing import Annotated, Final

from fastapi import Query, Request
from starlette.requests import HTTPConnection

from placet.kernel.kernel import Kernel
from placet.runtime.orchestrator import Orchestrator
from placet.schemas.codec import Json, from_json
from placet.schemas.identity import OPERATOR, is_identity
from placet.schemas.json_value import format_value
from placet.server.config import ServeConfig
from placet.server.credentials import Credentials, Principal
from placet.server.http.metrics_text import MetricsText
from placet.server.http.problems import Problem
from placet.server.worlds import Worlds

PageLimit = Annotated[
    int, Query(ge=1, le=1_000_000, description="How many; the server has a bound of its own.")
]

SUBPROTOCOL: Final = "placet"
_TOKEN_SUBPROTOCOL: Final = "bearer."
_CHALLENGE: Final = {"www-authenticate": 'Bearer realm="placet"'}


class RequestContext:
    """The shared objects of the routes of one application.

    Attributes:
        worlds: The worlds that it serves.
        config: Of the server.
        limits: Its bounds.
        is_draining: It takes no more load; `/readyz` says so.
        streams: How many WebSockets are open.
        metrics: Their text.
    """

    def __init__(self, worlds: Worlds, config: ServeConfig, credentials: Credentials) -> None:
        self.worlds = worlds
        self.config = config
        self.limits = config.limits
        self.is_draining = False
        self.streams = 0
        self.metrics = MetricsText(config.limits.metrics_age_ms_max)
        self._credentials = credentials

    # who

    def principal(self, connection: HTTPConnection) -> Principal:
        """Return the principal of the bearer token.

        A browser's WebSocket passes it as a subprotocol.

        Raises:
            Problem: There is no token, or it is unknown.
        """
        scheme, _, token = connection.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" and connection.scope["type"] == "websocket":
            scheme, token = "bearer", _offered_token(connection.scope)
        found = self._credentials.who(token.strip()) if scheme.lower() == "bearer" else None
        if found is None:
            raise Problem(
                "unauthenticated",
                "this needs a token that the server knows: send `Authorization: Bearer <token>`",
                headers=_CHALLENGE,
            )
        return found

    def operator(self, connection: HTTPConnection) -> None:
        """Require the operator.

        Raises:
            Problem: It is a stranger, or an agent.
        """
        if not self.principal(connection).is_operator:
            raise Problem("forbidden", "this is the operator's; an agent's token may not do it")

    def world(self, name: str, what: str = "world") -> Orchestrator:
        """Return a world by its name; `what` it is called where there is none.

        Raises:
            Problem: There is none.
        """
        world = self.worlds.find(name)
        if world is None:
            raise Problem("not_found", f"there is no {what} {name!r} here")
        return world

    def world_for(self, connection: HTTPConnection, name: str, what: str = "world") -> Orchestrator:
        """Return a world by its name, to the holder of a valid token.

        Without one, no names are revealed.

        Raises:
            Problem: It is a stranger, or there is no such world.
        """
        self.principal(connection)
        return self.world(name, what)

    async def check_speaks_for(self, world: Orchestrator, who: Principal, agent_id: str) -> None:
        """Require a principal that may act for an agent.

        The operator, the agent itself, or its owner.

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

    # bodies

    async def body(self, request: Request) -> bytes:
        """Read a body of JSON, within its bounds of bytes and time.

        Raises:
            Problem: It is of another media type, too large, or too late.
        """
        _check_media_type(request.headers)
        bytes_max = self.limits.body_bytes_max
        length = request.headers.get("content-length", "")
        if length.isdecimal() and int(length) > bytes_max:
            raise _too_large(bytes_max)
        chunks: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self.limits.body_seconds_max):
                is_at_end = False
                while not is_at_end:
                    message = await request.receive()
                    if message["type"] == "http.disconnect":
                        raise Problem("body_late", "the body ended before its end")
                    chunk = message.get("body", b"")
                    size += len(chunk)
                    if size > bytes_max:
                        raise _too_large(bytes_max)
                    chunks.append(chunk)
                    is_at_end = not message.get("more_body", False)
        except TimeoutError:
            raise Problem(
                "body_late", f"the body took longer than {self.limits.body_seconds_max} s"
            ) from None
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    async def document(
        self, request: Request, *, fields: frozenset[str], is_optional: bool = False
    ) -> dict[str, Json]:
        """Read a body that is one JSON object, of known fields if any are named.

        Args:
            request: Its body is read.
            fields: Those that there are; empty is whichever.
            is_optional: No body is an empty object.

        Raises:
            Problem: It is not.
        """
        if is_optional and request.headers.get("content-length") == "0":
            return {}  # of whatever media type: `curl -d ""` calls nothing a form
        body = await self.body(request)
        if not body:
            if is_optional:
                return {}
            raise Problem("request_invalid", "the body is empty; it must be a JSON object")
        try:
            value = from_json(body)
        except ValueError as error:
            raise Problem("request_invalid", f"the body must be JSON: {error}") from None
        if type(value) is not dict:
            raise Problem(
                "request_invalid", f"the body must be an object, got {format_value(value)}"
            )
        unknown = sorted(value.keys() - fields)
        if fields and unknown:
            raise Problem(
                "request_invalid",
                f"unknown fields {', '.join(unknown)}; there are {', '.join(sorted(fields))}",
            )
        return value


def speaks_for(kernel: Kernel, submitter: str, agent_id: str) -> bool:
    """Return whether a submitter may propose as an agent; the gate's second stage says the same."""
    if submitter in {OPERATOR, agent_id}:
        return True
    agent = kernel.ledger.agents.get(agent_id)
    return agent is not None and agent.owner == submitter


def door_of(connection: HTTPConnection) -> RequestContext:
    """Return the door of the application that a request came to."""
    door: RequestContext = connection.app.state.door
    return door


def identity(value: Json, field: str) -> str:
    """Read the name of an agent out of a body.

    Raises:
        Problem: It is none.
    """
    if not is_identity(value):
        raise Problem(
            "request_invalid",
            f"{field} must be 1 to 128 characters without control characters, "
            f"got {format_value(value)}",
        )
    return str(value)


def _offered_token(scope: Mapping[str, Json]) -> str:
    offered: list[str] = scope.get("subprotocols", [])
    tokens = (one for one in offered if one.startswith(_TOKEN_SUBPROTOCOL))
    return next(tokens, "").removeprefix(_TOKEN_SUBPROTOCOL)


def _check_media_type(headers: Mapping[str, str]) -> None:
    given = headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if given != "application/json" and not given.endswith("+json"):
        raise Problem(
            "media_type_unsupported",
            f"the body must be JSON: send `Content-Type: application/json`, not {given!r:.80}",
        )


def _too_large(bytes_max: int) -> Problem:
    # What is left of the body is not read: the connection cannot be used again.
    return Problem(
        "body_too_large",
        f"the body is larger than {bytes_max} bytes; split the batch",
        headers={"connection": "close"},
    )
