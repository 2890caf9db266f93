"""Authentication: the principal of a bearer token.

The token alone identifies the caller. A batch has no field for a role: its fields are checked by
the gate, and a caller could write anything into them.
"""

from collections.abc import Mapping
from typing import Final

from starlette.requests import HTTPConnection

from placet.schemas.codec import Json
from placet.server.credentials import PRINCIPAL_KEY, Credentials, Principal
from placet.server.http.problems import Problem

SUBPROTOCOL: Final = "placet"
_TOKEN_SUBPROTOCOL: Final = "bearer."
_CHALLENGE: Final = {"www-authenticate": 'Bearer realm="placet"'}


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
