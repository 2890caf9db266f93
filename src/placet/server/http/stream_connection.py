"""The bytes that a stream's client sends: control frames only, few and small.

The server would parse a whole read, up to 43 000 frames, before the application sees the first of
them. These bounds are checked before: a message closes the stream with 1008, and too many bytes or
frames cut it.
"""

from enum import Enum, auto
from typing import Final

_READ_BYTES_MAX: Final = 4 * 1024
_READ_FRAMES_MAX: Final = 16
_WINDOW_BYTES_MAX: Final = 64 * 1024
_WINDOW_SECONDS: Final = 3_600
"""An answer to the server's pings is 10 bytes each 20 s."""

_MESSAGE: Final = -1
_OPCODE: Final = 0x0F
_FIRST_CONTROL_OPCODE: Final = 0x8
_LENGTH: Final = 0x7F
_HEAD_BYTES: Final = 6
"""Opcode, length and mask of a client's frame of at most 125 bytes, as a control frame is."""


class StreamBytes(Enum):
    """Result of the check of some bytes."""

    ALLOWED = auto()
    MESSAGE = auto()
    TOO_MUCH = auto()


class StreamClient:
    """The client of one stream, which may send control frames alone."""

    def __init__(self) -> None:
        self._window_ends = 0.0
        self._window_bytes = 0
        self._unparsed = bytearray()
        """The part of a frame that has arrived."""

    def check(self, data: bytes, now: float) -> StreamBytes:
        """Check the bytes of one read.

        Args:
            data: The bytes, which the server has not parsed.
            now: Time of the event loop in seconds.
        """
        if self._is_too_much(len(data), now):
            return StreamBytes.TOO_MUCH
        count = self._count_frames(data)
        if count == _MESSAGE:
            return StreamBytes.MESSAGE
        return StreamBytes.ALLOWED if count <= _READ_FRAMES_MAX else StreamBytes.TOO_MUCH

    def _is_too_much(self, size: int, now: float) -> bool:
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
