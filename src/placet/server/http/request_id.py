"""Every answer names its request: by the client's own `X-Request-ID` if it is one, else by a count.

A plain ASGI wrapper: the framework's middleware class would run each request in another task.
"""

import re
from itertools import count
from secrets import token_hex
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER: Final = "x-request-id"
KEY: Final = "placet.request_id"
"""Under which a request's scope has it, for the answer to a fault: that is made outside of here."""

_NAME: Final = HEADER.encode()
_STARTS: Final = frozenset({"http.response.start", "websocket.http.response.start"})
"""Of answers; a handshake that is refused has one too."""

_SOUND: Final = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")


class RequestId:
    """A middleware that adds the header `X-Request-ID` to every response.

    Args:
        app: The wrapped ASGI application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._prefix = token_hex(4)
        self._numbers = count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        request_id = scope[KEY] = self._id_of(scope)

        async def send_named(message: Message) -> None:
            if message["type"] in _STARTS:
                message["headers"].append((_NAME, request_id))
            await send(message)

        await self._app(scope, receive, send_named)

    def _id_of(self, scope: Scope) -> bytes:
        for name, value in scope["headers"]:
            if name == _NAME and _SOUND.fullmatch(value):
                return bytes(value)
        return f"{self._prefix}-{next(self._numbers)}".encode()
