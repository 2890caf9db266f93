"""HEAD, wherever there is a GET: the same answer without its body, as load balancers ask for it."""

from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_BODY: Final = "http.response.body"


class HeadRequests:
    """Middleware that handles HEAD as GET without the body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; the server keeps a HEAD in its own scope, so this one is a copy."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def send_head(message: Message) -> None:
            if message["type"] == _BODY:
                message = {**message, "body": b""}
            await send(message)

        await self._app({**scope, "method": "GET"}, receive, send_head)
