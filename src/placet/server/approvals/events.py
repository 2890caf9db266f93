"""Requests for approval as server-sent events: the open ones first, then each that changes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final, TypeAlias

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from placet.kernel.plugin.approved import REQUESTS
from placet.runtime.inbox import Inbox, next_record
from placet.runtime.orchestrator import Orchestrator
from placet.schemas.approval import Approval, ApprovalUnknown
from placet.schemas.codec import Json, to_json
from placet.schemas.errors import ClosedError, StoreError
from placet.schemas.event import Event
from placet.server.context import RequestContext
from placet.server.http.problems import Problem

_BEAT_S: Final = 1.0
_SILENT_BEATS_MAX: Final = 15
"""Beats after which a comment is sent, so that no proxy takes the connection for dead."""

_PREFIX: Final = f"{REQUESTS}/"

Describe: TypeAlias = Callable[[Sequence[Approval]], Awaitable[list[dict[str, Json]]]]


def changed_requests(page: Sequence[Event]) -> list[str]:
    """Return the ids of the requests that the events of a page changed, each once, in order."""
    found: dict[str, None] = {}
    for event in page:
        for change in event.data.get("changes", ()) if event.type == "batch" else ():
            if change["entity"].startswith(_PREFIX) and change["fields"] is not None:
                found[change["entity"].removeprefix(_PREFIX)] = None
    return list(found)


async def read_requests(world: Orchestrator, ids: Sequence[str]) -> list[Approval]:
    """Return requests by their ids; one that the state no longer has is left out."""
    found = []
    for request in ids:
        try:
            found.append(await Inbox(world).get(request))
        except ApprovalUnknown:
            continue
    return found


class ApprovalEvents(StreamingResponse):
    """The response that sends requests for approval until the client goes or the world closes.

    Args:
        context: The context of the application, which counts the open streams.
        world: The world.
        token: Name of the token, to which the stream is charged.
        describe: Returns the requests that the token may see, as JSON.

    Raises:
        Problem: Too many streams are open.
    """

    def __init__(
        self, context: RequestContext, world: Orchestrator, token: str, describe: Describe
    ) -> None:
        context.streams.enter(token)
        self._context = context
        self._world = world
        self._token = token
        self._describe = describe
        # The open requests that were sent, by id: when the time of one is over, no record says so.
        self._open: dict[str, float] = {}
        super().__init__(
            self._messages(),
            media_type="text/event-stream",
            headers={"cache-control": "no-store", "x-accel-buffering": "no"},
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events; the stream counts until this returns."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._context.streams.leave(self._token)

    async def _messages(self) -> AsyncIterator[bytes]:
        try:
            position = self._world.records
            yield await self._encoded(await Inbox(self._world).open()) or b": none\n\n"
            silent = 0
            while not self._context.is_draining:
                expired = await self._wait(position)
                if expired is None:
                    page = await self._page(position)
                    position = page[-1].record + 1
                    await self._context.reads.until_allowed(self._token)
                    self._context.reads.charge(self._token, records=len(page))
                    expired = changed_requests(page)
                text = await self._encoded(await read_requests(self._world, expired))
                silent = 0 if text else silent + 1
                if text or silent % _SILENT_BEATS_MAX == 0:
                    yield text or b": waiting\n\n"
        except (ClosedError, StoreError, Problem):
            return  # the client connects again, and is told the reason

    async def _wait(self, position: int) -> list[str] | None:
        """Wait for a record; return the requests whose time is over if none comes, else None."""
        try:
            async with asyncio.timeout(_BEAT_S):
                await next_record(self._world, position)
        except TimeoutError:
            now = self._world.sim_time
            expired = [one for one, expires in self._open.items() if expires < now]
            for one in expired:  # sent once more, if the state still has it
                del self._open[one]
            return expired
        return None

    async def _page(self, position: int) -> Sequence[Event]:
        async for page in self._world.event_pages(from_record=position):
            return page
        raise ClosedError("the world is closed")

    async def _encoded(self, approvals: Sequence[Approval]) -> bytes:
        """Return the messages about the requests that the token may see."""
        messages = []
        for one in await self._describe(approvals) if approvals else ():
            self._open.pop(one["id"], None)
            if one["state"] == "open":
                self._open[one["id"]] = one["expires"]
            name = f"event: {one['state']}\nid: {one['id']}\n".encode()
            messages.append(name + b"data: " + to_json(one) + b"\n\n")
        text = b"".join(messages)
        self._context.reads.charge(self._token, size=len(text))
        return text
