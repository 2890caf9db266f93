"""A client's connection: how much it may send before it says something, and how long it may take.

The server has no bound on a request's head, nor on the trailers of a chunked body, and waits for
either without a limit. No token has been checked by then, so both are bounded here, by bytes and by
time; a body is bounded where it is read.
"""

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from placet.schemas.limits import HttpLimits

_TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-length: 0\r\nconnection: close\r\n\r\n"
)


class BoundedConnection(HttpToolsProtocol):
    """A connection of which nothing is kept without bound.

    Args:
        limits: `head_bytes_max` and `head_seconds_max` of a request's head; its body has
            `body_seconds_max` more.
        server: The server's protocol factory.
    """

    def __init__(self, *, limits: HttpLimits, **server: Any) -> None:  # noqa: ANN401  # not ours
        super().__init__(**server)
        self._bytes_max = limits.head_bytes_max
        self._seconds_max = limits.head_seconds_max + limits.body_seconds_max
        self._unread_bytes = 0
        """Received since the parser last found the end of a head or a part of a body in it."""
        self._has_read = False
        self._is_in_head = True
        self._is_whole = False
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take some of a request."""
        self._has_read = False
        super().data_received(data)
        if self not in self.connections or self.transport.is_closing():
            self._stop_waiting()  # it is a WebSocket now, or refused
            return
        self._unread_bytes = 0 if self._has_read else self._unread_bytes + len(data)
        if self._unread_bytes > self._bytes_max:
            self._refuse()
        elif not self._is_whole and self._timer is None:
            self._wait()

    def on_message_begin(self) -> None:
        """Begin a head."""
        self._is_in_head, self._is_whole = True, False
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header's size; trailers are not part of the request."""
        if self._is_in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """End a head."""
        self._has_read, self._is_in_head = True, False
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of a body."""
        self._has_read = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
        self._has_read = self._is_whole = True
        self._stop_waiting()
        super().on_message_complete()

    def _wait(self) -> None:
        self._timer = self.loop.call_later(self._seconds_max, self._give_up)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        """Close the connection, unless an earlier request on it is being answered."""
        if self.pipeline or (self._is_answering() and not self.cycle.more_body):
            self._wait()
            return
        self._timer = None
        self.transport.close()

    def _refuse(self) -> None:
        if self._is_in_head and not self._is_answering():
            self.transport.write(_TOO_LARGE)
        self.transport.close()
        self._stop_waiting()

    def _is_answering(self) -> bool:
        latest: RequestResponseCycle | None = self.cycle
        return latest is not None and not latest.response_complete
