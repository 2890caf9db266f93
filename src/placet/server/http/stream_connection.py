"""A stream's connection: its client sends control frames only, few and small.

The server would parse a whole read, up to 43 000 frames, before the application sees the first of
them. This protocol bounds the bytes of a client before they are parsed: a message closes the stream
with 1008, and too many bytes or frames cut it.
"""

from typing import Any, Final

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

_READ_BYTES_MAX: Final = 4 * 1024
_READ_FRAMES_MAX: Final = 16
_WINDOW_BYTES_MAX: Final = 64 * 1024
_WINDOW_SECONDS: Final = 3_600
"""An answer to the server's pings is 10 bytes each 20 s."""

_POLICY_VIOLATION: Final = 1008
_MESSAGE: Final = -1
_OPCODE: Final = 0x0F
_FIRST_CONTROL_OPCODE: Final = 0x8
_LENGTH: Final = 0x7F
_HEAD_BYTES: Final = 6
"""Opcode, length and mask of a client's frame of at most 125 bytes, as a control frame is."""


class StreamConnection(WebSocketsSansIOProtocol):
    """A WebSocket whose client may send control frames alone."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401  # not ours
        super().__init__(*args, **kwargs)
        self._window_ends = 0.0
        self._window_bytes = 0
        self._unparsed = bytearray()
        """The part of a frame that has arrived."""

    def data_received(self, data: bytes) -> None:
        """Take some of the handshake or of frames."""
        if not self.handshake_initiated:
            super().data_received(data)
            return
        count = None if self._is_too_much(len(data)) else self._count_frames(data)
        if count == _MESSAGE and self.handshake_complete and not self.close_sent:
            self.conn.fail(_POLICY_VIOLATION, "a stream takes no messages")
            self.handle_parser_exception()
        elif count is None or not 0 <= count <= _READ_FRAMES_MAX:
            self.transport.abort()
        else:
            super().data_received(data)

    def _is_too_much(self, size: int) -> bool:
        now = self.loop.time()
        if now >= self._window_ends:
            self._window_ends, self._window_bytes = now + _WINDOW_SECONDS, 0
        self._window_bytes += size
        return size > _READ_BYTES_MAX or self._window_bytes > _WINDOW_BYTES_MAX

    def _count_frames(self, data: bytes) -> int:
        """Return the number of frames that end in some bytes; `_MESSAGE` if one begins in them."""
        unparsed = self._unparsed
        unparsed += data
        count = place = 0
        while place + 1 < len(unparsed):
            if unparsed[place] & _OPCODE < _FIRST_CONTROL_OPCODE:
                return _MESSAGE
            end = place + _HEAD_BYTES + (unparsed[place + 1] & _LENGTH)
            if end > len(unparsed):
                break
            place, count = end, count + 1
        del unparsed[:place]
        return count
