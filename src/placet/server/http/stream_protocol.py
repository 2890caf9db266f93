"""The server's protocol for a WebSocket, which reads a client's messages no faster than they go.

`connection.py` is in front of it: until a route calls `allow_messages`, a client may send control
frames alone (`stream_connection.py`). From then on the frames pass through `message_frames.py`,
and these rules hold:

- The parser gets whole frames, one message at a time: the next one is parsed once the application
  has taken the one before. In one turn at most `_FRAMES_PER_TURN` are parsed; further ones wait for
  their turn among all connections with unparsed bytes.
- Reading pauses while bytes are unparsed: because the application takes no message, the client
  takes no answer, or it is beyond its rate. At most one read of 256 KiB is kept.
- A message arrives within `body_seconds_max` after its first byte, if it is read.
- A missing pong ends no connection of which nothing is read.
- At the end of the server the application receives a disconnect with 1012: it answers the messages
  in flight, and closes.
"""

from typing import TYPE_CHECKING, Any, Final

from starlette.types import Scope
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from placet.schemas.limits import HttpLimits
from placet.server.http.connections import Connections
from placet.server.http.message_frames import POLICY_VIOLATION, FrameFault, MessageFrames

if TYPE_CHECKING:
    from asyncio import TimerHandle

SERVICE_RESTART: Final = 1012
_INVALID_TEXT: Final = 1007
_FRAMES_PER_TURN: Final = 16
_GOODBYE_SECONDS: Final = 1.0
"""How long a client may take to answer the close frame at the end of the server."""

_ALLOW_KEY: Final = "placet.allow_messages"


def allow_messages(scope: Scope) -> None:
    """Permit the client of a WebSocket to send messages; called before the handshake is accepted.

    Args:
        scope: The ASGI scope of the WebSocket. Another server than ours has its own bounds.
    """
    allow = scope.get(_ALLOW_KEY)
    if allow is not None:
        allow()


class StreamProtocol(WebSocketsSansIOProtocol):
    """The server's protocol of one WebSocket.

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
        # None until the route permits messages.
        self._frames: MessageFrames | None = None
        # True iff `_shared` will call `parse` once more, and the connection is not lost.
        self._is_waiting_for_turn = False
        # True iff the server ends, and the application has not closed yet.
        self._is_ending = False
        self._rate_timer: TimerHandle | None = None
        self._message_timer: TimerHandle | None = None

    @property
    def takes_messages(self) -> bool:
        """Whether the client may send messages."""
        return self._frames is not None

    def receive_bytes(self, data: bytes) -> None:
        """Keep bytes of a client that may send messages, and parse a part of them."""
        assert self._frames is not None, "asked before"
        self._frames.add(data)
        if self._is_waiting_for_turn or self._rate_timer is not None:
            self.transport.pause_reading()  # the server resumes it for each taken message
        else:
            self._parse(self._frames)

    def parse(self) -> None:
        """Parse more of the kept bytes; called when it is this connection's turn."""
        if self._is_waiting_for_turn and self._frames is not None:
            self._is_waiting_for_turn = False
            self._parse(self._frames)

    # Callbacks of the server and of its parser.

    def handle_connect(self, event: Any) -> None:  # noqa: ANN401  # not ours
        """Handle the handshake: add to its scope what `allow_messages` calls."""
        super().handle_connect(event)
        if not self.handshake_complete:  # it is refused otherwise, and has no scope
            self.scope[_ALLOW_KEY] = self._allow  # type: ignore[typeddict-unknown-key]  # ours

    def send_receive_event_to_app(self) -> None:
        """Pass a message to the application, if it is text."""
        if self._frames is not None:
            data = b"".join(self.frames)
            try:
                data.decode()
            except UnicodeDecodeError as error:
                reason = f"a message is UTF-8; byte {error.start} is not"
                self._fail(FrameFault(_INVALID_TEXT, reason))
                return
            self.frames = [data]
        super().send_receive_event_to_app()

    async def receive(self) -> Any:  # noqa: ANN401  # not ours
        """Return the next message to the application, and parse further ones."""
        message = await super().receive()
        if self._frames is not None and self._frames.is_partial:
            self._wait_for_turn()
        return message

    async def send(self, message: Any) -> None:  # noqa: ANN401  # not ours
        """Send a message of the application; read the client's answer to a close."""
        await super().send(message)
        if self._frames is not None and self.close_sent:
            self._is_ending = False
            self._wait_for_turn()

    def resume_writing(self) -> None:
        """Go on reading a client that takes the answers again."""
        super().resume_writing()
        if self._frames is not None:
            self._wait_for_turn()

    def keepalive_timeout(self) -> None:
        """Close the connection for a missing pong, unless it may be in unread bytes."""
        if self._frames is not None and not self._may_parse():
            self.pong_timer = self.pending_ping_payload = None
            self.schedule_ping()
        else:
            super().keepalive_timeout()

    def shutdown(self) -> None:
        """End the connection with the server: by the application, where it takes messages."""
        if self._frames is None or not self.handshake_complete or self.close_sent:
            super().shutdown()
            return
        self.stop_keepalive()
        self._is_ending, self.close_timeout = True, _GOODBYE_SECONDS
        self.transport.pause_reading()
        self.queue.put_nowait({"type": "websocket.disconnect", "code": SERVICE_RESTART})

    def connection_lost(self, exc: Exception | None) -> None:
        """Release timers and bytes of a closed connection."""
        self._stop()
        super().connection_lost(exc)

    # Ours.

    def _allow(self) -> None:
        self._frames = MessageFrames(self._limits)

    def _may_parse(self) -> bool:
        return not self.read_paused and not self._is_ending and self.writable.is_set()

    def _parse(self, frames: MessageFrames) -> None:
        """Parse frames up to the end of a message; pause or resume reading."""
        left = _FRAMES_PER_TURN
        while left and self._is_open() and self._may_parse():
            now = self.loop.time()
            seconds = frames.wait_seconds(now)
            if seconds:
                self.transport.pause_reading()
                self._rate_timer = self.loop.call_later(seconds, self._on_rate)
                return
            frame = frames.take(now)
            if frame is None:
                self._wait_for_bytes(frames)
                return
            if isinstance(frame, FrameFault):
                self._fail(frame)
                return
            left -= 1
            self.data_received(frame)
        if self._is_open():
            self.transport.pause_reading()
            if self._may_parse():
                self._wait_for_turn()

    def _wait_for_bytes(self, frames: MessageFrames) -> None:
        self.transport.resume_reading()
        if not frames.is_partial:
            self._stop_message_timer()
        elif self._message_timer is None:
            seconds = self._limits.body_seconds_max
            self._message_timer = self.loop.call_later(seconds, self._on_message_late)

    def _wait_for_turn(self) -> None:
        """Parse in a later pass of the event loop, in turn with other connections."""
        if not self._is_waiting_for_turn and self._rate_timer is None and self._is_open():
            self._is_waiting_for_turn = True
            self._shared.wait_for_turn(self)

    def _on_rate(self) -> None:
        self._rate_timer = None
        self._wait_for_turn()

    def _on_message_late(self) -> None:
        self._message_timer = None
        if self._may_parse() and self._rate_timer is None and not self._is_waiting_for_turn:
            seconds = self._limits.body_seconds_max
            self._fail(FrameFault(POLICY_VIOLATION, f"a message took longer than {seconds} s"))

    def _fail(self, fault: FrameFault) -> None:
        """Close the connection at once, with a code and a reason."""
        self._stop()
        self.conn.fail(fault.code, fault.reason)
        if self.conn.close_sent is not None:
            self.handle_parser_exception()
        else:
            self.transport.abort()

    def _is_open(self) -> bool:
        return not self.disconnected and not self.transport.is_closing()

    def _stop(self) -> None:
        self._is_waiting_for_turn = False
        self._stop_message_timer()
        if self._rate_timer is not None:
            self._rate_timer.cancel()
            self._rate_timer = None

    def _stop_message_timer(self) -> None:
        if self._message_timer is not None:
            self._message_timer.cancel()
            self._message_timer = None
