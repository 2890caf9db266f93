"""The link to a server, by its command or its URL."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from placet_tools.frontend.gateway.links import ProcessLink, ServerLink


def is_url(target: str) -> bool:
    """Return whether a server is named by its URL, and not by a command."""
    return target.startswith(("http://", "https://"))


@asynccontextmanager
async def server_link(target: str) -> AsyncIterator[ServerLink]:
    """Connect to a server, by its command or its URL.

    Raises:
        ServerUnreachable: It cannot be started.
    """
    if not is_url(target):
        yield await ProcessLink.start(target)
        return
    from placet_tools.frontend.gateway.http_link import http_link  # noqa: PLC0415  # an extra

    async with http_link(target) as link:
        yield link
