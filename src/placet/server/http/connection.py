"""A client's connection: bounded in bytes and in time before a token is checked.

The server (uvicorn with httptools) parses each read of 256 KiB into waiting requests, and bounds
neither a head nor the time a client takes. This class is between the socket and that parser, and
keeps these rules:

- One request at a time. Bytes behind it stay unparsed, and reading pauses.
- Bytes are parsed in parts: `_PART_BYTES` of a body of declared length, which makes few events of
  the parser, or 1/`_EVENTS_WEIGHT` of it in a head or a chunked body, which may make an event each
  few bytes. Of the connections with more than one part, one parses one part in a pass of the event
  loop, in turn: other clients wait for the events of one part.
- A request ends where its head declares its end, read once and strictly (`framing.py`). A head with
  two readings is refused, and no byte behind it is parsed. A request with `Upgrade` or `Expect` is
  the last one of its connection.
- A head has `head_bytes_max`, counted to its last byte before it is parsed; so has any stretch of a
  chunked body in which no data comes (chunk extensions, trailers).
- A request arrives within `head_seconds_max` + `body_seconds_max`.
- Where a request was answered before its body ended, at most `_IGNORED_BYTES_MAX` more are read.
- A client that takes nothing of an answer for `stream_send_seconds_max` is disconnected.
- The number of connections is bounded, in all and per address.
- After the handshake of a WebSocket the bytes go to the server's protocol for it, if they are what
  the client of a stream may send (`stream_connection.py`); those of a client that may send messages
  are bounded there (`stream_protocol.py`).
"""

import asyncio
from http import HTTPStatus
from typing import Any, Final

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from placet.schemas.limits import HttpLimits
from placet.server.http.connections import Connections
from placet.server.http.framing import framing_of
from placet.server.http.problems import Problem
from placet.server.http.stream_connection import StreamBytes, StreamClient
from placet.server.http.stream_protocol import StreamProtocol

_HEAD_END: Final = b"\r\n\r\n"
"""Ends a head and a chunked body. The parser accepts no bare LF, so nothing else does."""

_OVERLAP_BYTES: Final = len(_HEAD_END) - 1
"""Parsed bytes that are kept: an end may begin in them."""

_PART_BYTES: Final = 64 * 1024
_EVENTS_WEIGHT: Final = 32
"""How often a byte of a head or of a chunked body counts: a few bytes may make a parser event."""

_PARTS_MAX: Final = 8
"""In one turn: an end of a head after each few bytes makes small parts."""

_IGNORED_BYTES_MAX: Final = 256 * 1024
_POLICY_VIOLATION: Final = 1008
_RETRY: Final = {"retry-after": "1"}


class BoundedConnection(HttpToolsProtocol):
    """An HTTP/1.1 connection with bounds on buffered bytes and on time.

    Args:
        limits: Bounds of the server.
        shared: State of all connections of the server.
        server: Arguments of uvicorn's protocol class.
    """

    def __init__(
        self,
        *,
        limits: HttpLimits,
        shared: Connections,
        **server: Any,  # noqa: ANN401  # not ours
    ) -> None:
        super().__init__(**server)
        self._limits = limits
        self._shared = shared
        # Received bytes. Those before `_at` are parsed: an end of a head may begin in them.
        self._unparsed = b""
        # Index in `_unparsed` of the first byte that is not parsed yet; at most its length.
        self._at = 0
        # True iff `_shared` will call `parse` once more, and the connection is not lost.
        self._is_waiting_for_turn = False
        # True iff this class has paused the transport, as it does while bytes are unparsed.
        self._is_reading_paused = False
        # True iff the next byte is one of a head: the parser ends a message before the next.
        self._is_in_head = True
        # True iff the parsed bytes end where a request ends, so that the parser holds none.
        self._is_whole = True
        self._head_bytes = 0
        """Bytes parsed since the last end of a head or a message, or the last data of a body."""
        self._body_bytes_left = 0
        """Unread bytes of a body of declared length; 0 for a chunked body."""
        # Bytes of the present body that were parsed after the answer to it was complete.
        self._ignored_bytes = 0
        self._refusal: Problem | None = None
        """Why the head that was parsed last is refused; None if it is not."""
        # Set from the connection, or from a request's first byte, to the request's end.
        self._request_timer: asyncio.TimerHandle | None = None
        # Set while the client does not read, and from the moment in which the close begins.
        self._write_timer: asyncio.TimerHandle | None = None
        # None until a handshake; from then on no byte is parsed as HTTP.
        self._websocket: StreamProtocol | None = None
        self._stream_client = StreamClient()

    # Callbacks of the transport.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the connection and wait for a request; refuse it if there are too many."""
        super().connection_made(transport)
        # The server pauses and resumes the reading of this connection, which decides about the
        # transport: it may hold bytes that come first.
        self.flow = FlowControl(self)  # type: ignore[arg-type]  # it calls the two methods below
        self._shared.of_address[self._address] += 1
        if self._is_one_too_many():
            self._refuse(Problem("unavailable", "there are too many connections", headers=_RETRY))
        else:
            self._wait_for_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Release timers, buffers and the count of a closed connection."""
        self._stop_waiting_for_request()
        self._stop_waiting_for_writing()
        self._unparsed, self._at = b"", 0
        self._is_waiting_for_turn = False
        of_address = self._shared.of_address
        of_address[self._address] -= 1
        if not of_address[self._address]:
            del of_address[self._address]
        self._receiver.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Buffer the received bytes, and parse a part of them."""
        if self._websocket is not None:
            self._pass_to_websocket(self._websocket, data)
            return
        self._unparsed = self._unparsed + data if self._unparsed else data
        if not self._is_waiting_for_turn:
            self._parse()

    def eof_received(self) -> None:
        """Handle the end of the client's data."""
        self._receiver.eof_received()

    def pause_writing(self) -> None:
        """Start the timeout of a client that does not read the response."""
        self._wait_for_writing()
        self._receiver.pause_writing()

    def resume_writing(self) -> None:
        """Stop the timeout of a client that does not read, unless the connection is closing."""
        if not self.transport.is_closing():
            self._stop_waiting_for_writing()
        self._receiver.resume_writing()

    @property
    def _receiver(self) -> Any:  # noqa: ANN401  # a protocol of uvicorn, or `super()`
        """The server's protocol that a callback is for: that of a stream, or that of HTTP."""
        return self._websocket or super()

    # Callbacks of the server's flow control.

    def pause_reading(self) -> None:
        """Stop receiving data."""
        if not self._is_reading_paused:
            self._is_reading_paused = True
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Parse buffered bytes; receive more data once none are left."""
        if self._has_unparsed():
            self._schedule_parse()
        elif self._is_reading_paused and self._is_open():
            self._is_reading_paused = False
            self.transport.resume_reading()

    # Callbacks of the parser.

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header to the request; ignore trailers."""
        if self._is_in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Handle the end of the headers: decide where the request ends, or refuse it."""
        self._head_bytes, self._is_in_head, self._ignored_bytes = 0, False, 0
        try:
            framing = framing_of(self.parser.get_http_version(), self.url, self.headers)
        except Problem as problem:
            self._refusal = problem
            raise  # ends the parser, which calls `send_400_response`
        self._body_bytes_left = framing.body_bytes or 0
        self.expect_100_continue = framing.expects_continue
        before = self._latest_cycle
        super().on_headers_complete()
        latest = self._latest_cycle
        if framing.is_last and latest is not None and latest is not before:
            latest.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """Handle a part of the body."""
        self._head_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Handle the end of a request: stop its timeout."""
        self._head_bytes, self._is_in_head, self._is_whole = 0, True, True
        self._stop_waiting_for_request()
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that are not HTTP; without an answer where one is under way or was sent.

        A second answer to one request would be taken for the answer to the next.
        """
        latest = self._latest_cycle
        if self._refusal is not None:
            self._refuse(self._refusal)
        elif self._is_in_head or latest is None or not latest.response_started:
            detail = "this is not a request of HTTP/1.1: its head or its chunks are malformed"
            self._refuse(Problem("request_malformed", detail))
        else:
            self._close()

    # Callbacks of the server.

    def on_response_complete(self) -> None:
        """Handle the end of a response: parse the bytes after its request."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._wait_for_writing()
        elif self._has_unparsed():
            self._schedule_parse()

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection on which no further request arrived in time."""
        self._close()

    def handle_websocket_upgrade(self) -> None:
        """Switch to the WebSocket protocol; received bytes still pass through this class."""
        if self._has_unparsed():
            detail = "a client sends nothing behind the handshake of a WebSocket before its answer"
            self._refuse(Problem("request_malformed", detail))
            return
        self._stop_waiting_for_request()
        super().handle_websocket_upgrade()
        # The server leaves the connection to another protocol. Ours stays in front of it, for the
        # bounds and the count of connections.
        websocket = self.transport.get_protocol()
        assert isinstance(websocket, StreamProtocol), "the listener configures it"
        self._websocket = websocket
        self.transport.set_protocol(self)
        if not websocket.handshake_initiated and not self.transport.is_closing():
            # Its parser failed (a body, too many headers), and it would wait without an answer.
            self._refuse(Problem("request_invalid", "this is no handshake of a WebSocket"))

    def parse(self) -> None:
        """Parse a part of the buffered bytes; called when it is this connection's turn."""
        if self._is_waiting_for_turn:  # else it was lost meanwhile
            self._is_waiting_for_turn = False
            self._parse()

    def _parse(self) -> None:
        assert self._websocket is None, "the bytes of a stream are not parsed as HTTP"
        assert self._at <= len(self._unparsed), "no byte is parsed before it came"
        parts_left, budget = _PARTS_MAX, _PART_BYTES
        while (
            parts_left and budget >= _EVENTS_WEIGHT and self._has_unparsed() and self._may_parse()
        ):
            parts_left -= 1
            budget -= self._parse_part(budget)
        if not self._is_open():
            self._drop()
        elif self._has_unparsed():
            self.pause_reading()
            if self._may_parse():
                self._schedule_parse()
        else:
            self._unparsed = b"" if self._is_whole else self._unparsed[-_OVERLAP_BYTES:]
            self._at = len(self._unparsed)
            if self._is_reading_paused and not self.flow.read_paused:
                self.resume_reading()
        if not self._is_whole and self._request_timer is None and self._is_open():
            self._wait_for_request()

    def _parse_part(self, budget: int) -> int:
        """Parse bytes up to the end of a head or a message; return how much budget they took."""
        is_in_head = self._is_in_head
        weight = 1 if self._body_bytes_left and not is_in_head else _EVENTS_WEIGHT
        end = self._end_of_part(budget // weight)
        part = self._unparsed[self._at : end]
        self._at = end
        self._head_bytes += len(part)
        if is_in_head and self._head_bytes > self._limits.head_bytes_max:
            most = self._limits.head_bytes_max
            detail = f"the request line and headers are larger than {most} bytes"
            self._refuse(Problem("head_too_large", detail))
            return budget
        if not is_in_head:
            self._body_bytes_left = max(self._body_bytes_left - len(part), 0)
            latest = self._latest_cycle
            is_ignored = latest is None or latest.response_complete
            self._ignored_bytes += len(part) if is_ignored else 0
        self._is_whole = False
        super().data_received(part)
        if (
            self._head_bytes > self._limits.head_bytes_max
            or self._ignored_bytes > _IGNORED_BYTES_MAX
        ):
            self._close()
        return len(part) * weight

    def _end_of_part(self, bytes_max: int) -> int:
        latest = min(self._at + bytes_max, len(self._unparsed))
        if not self._is_in_head and self._body_bytes_left:
            return min(latest, self._at + self._body_bytes_left)
        place = self._unparsed.find(_HEAD_END, max(self._at - _OVERLAP_BYTES, 0), latest)
        return latest if place < 0 else place + len(_HEAD_END)

    def _may_parse(self) -> bool:
        latest = self._latest_cycle
        is_waiting = latest is not None and not latest.response_complete and not latest.more_body
        return self._is_open() and not is_waiting and not self.flow.read_paused

    @property
    def _latest_cycle(self) -> RequestResponseCycle | None:
        """The request whose head was parsed last; None before the first one."""
        return self.cycle

    def _has_unparsed(self) -> bool:
        return self._at < len(self._unparsed)

    def _is_open(self) -> bool:
        """Return whether requests are read: it neither closes nor is a WebSocket."""
        return self in self.connections and not self.transport.is_closing()

    def _schedule_parse(self) -> None:
        """Parse in a later pass of the event loop, in turn with other connections."""
        if not self._is_waiting_for_turn:
            self._is_waiting_for_turn = True
            self._shared.wait_for_turn(self)

    def _drop(self) -> None:
        """Forget bytes behind the last request of this connection."""
        self._unparsed, self._at = b"", 0
        self._stop_waiting_for_request()
        if self._websocket is None:
            self._close()
        elif self._is_reading_paused:
            self._is_reading_paused = False
            self.transport.resume_reading()

    def _pass_to_websocket(self, websocket: StreamProtocol, data: bytes) -> None:
        if websocket.takes_messages:
            websocket.receive_bytes(data)
            return
        checked = self._stream_client.check(data, self.loop.time())
        if checked is StreamBytes.ALLOWED:
            websocket.data_received(data)
        elif checked is StreamBytes.MESSAGE and _is_established(websocket):
            websocket.conn.fail(_POLICY_VIOLATION, "a stream takes no messages")
            websocket.handle_parser_exception()
        else:
            self.transport.abort()

    @property
    def _address(self) -> str:
        return "" if self.client is None else self.client[0]

    def _is_one_too_many(self) -> bool:
        of_address = self._limits.connections_per_address_max
        is_beyond = 0 < of_address < self._shared.of_address[self._address]
        return is_beyond or len(self.connections) > self._limits.connections_max

    def _refuse(self, problem: Problem) -> None:
        self.transport.write(_bytes_of(problem))
        self.connections.discard(self)
        self._close()

    def _close(self) -> None:
        """Close the connection after the written bytes are sent, for which there is a deadline."""
        if not self.transport.is_closing():
            self.transport.close()
        self._wait_for_writing()

    def _wait_for_request(self) -> None:
        seconds = self._limits.head_seconds_max + self._limits.body_seconds_max
        self._request_timer = self.loop.call_later(seconds, self._close)

    def _stop_waiting_for_request(self) -> None:
        if self._request_timer is not None:
            self._request_timer.cancel()
            self._request_timer = None

    def _wait_for_writing(self) -> None:
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(
                self._limits.stream_send_seconds_max,
                self._check_writing,
                self.transport.get_write_buffer_size(),
            )

    def _stop_waiting_for_writing(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _check_writing(self, bytes_before: int) -> None:
        """Disconnect a client that took nothing since the timer was set."""
        self._write_timer = None
        if self.transport.get_write_buffer_size() < bytes_before:
            self._wait_for_writing()
        else:
            self.transport.abort()


def _is_established(websocket: StreamProtocol) -> bool:
    return websocket.handshake_complete and not websocket.close_sent


def _bytes_of(problem: Problem) -> bytes:
    """Return a problem as an HTTP/1.1 response after which the connection closes."""
    response = problem.response()
    status = HTTPStatus(response.status_code)
    headers = [*response.raw_headers, (b"connection", b"close")]
    lines = [f"HTTP/1.1 {status.value} {status.phrase}".encode()]
    lines += [name + b": " + value for name, value in headers]
    return b"\r\n".join(lines) + _HEAD_END + response.body
