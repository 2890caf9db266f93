"""The JavaScript client of a game or a page: one file without dependencies, at `/placet.js`.

The file holds no data, so it needs no token. A page of another origin may load it if
`serve.cors_origins` names the origin, as for any other request; or it is copied beside the page.
"""

from functools import cache
from importlib.resources import files
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

NAME: Final = "placet.js"
_HEADERS: Final = {
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "cross-origin",
    "cache-control": "no-cache",  # the client and the server are of one release
}


async def client(_request: Request) -> Response:
    """Return the response with the client's file; it needs no token."""
    return Response(_read(), headers=_HEADERS, media_type="text/javascript; charset=utf-8")


route = Route(f"/{NAME}", client)


@cache
def _read() -> bytes:
    return files(__package__).joinpath(NAME).read_bytes()
