"""The frames of a WebSocket whose client sends messages: whole, bounded, and at a bounded rate.

Received bytes stay here until a frame of them is whole. The length that a frame declares is checked
once its head is there, so that nothing of a frame too long is kept. Each frame costs its bytes and
`_FRAME_COST_BYTES`, because an empty frame is work too; a client beyond its rate is not cut, but
read later. Masks, reserved bits and the order of frames are checked by the server's parser.
"""

from typing import Final, NamedTuple

from placet.schemas.limits import HttpLimits

PROTOCOL_ERROR: Final = 1002
UNSUPPORTED: Final = 1003
POLICY_VIOLATION: Final = 1008
TOO_BIG: Final = 1009

_FRAME_COST_BYTES: Final = 256
_MESSAGE_FRAMES_MAX: Final = 64
"""Of one message: each frame is kept as an object of its own until the last one."""

_BINARY: Final = 0x2
_FIRST_CONTROL_OPCODE: Final = 0x8
_FINAL: Final = 0x80
_OPCODE: Final = 0x0F
_MASKED: Final = 0x80
_LENGTH: Final = 0x7F
_CONTROL_BYTES_MAX: Final = 125
_LENGTH_BYTES: Final = {126: 2, 127: 8}
"""Bytes of an extended length, by the value in the second byte of a frame."""

_HEAD_BYTES: Final = 2
_MASK_BYTES: Final = 4


class FrameFault(NamedTuple):
    """Why a client's frame ends its WebSocket.

    Attributes:
        code: Code of the close frame.
        reason: Its reason, at most 123 bytes.
    """

    code: int
    reason: str


class MessageFrames:
    """The bytes that one client has sent and the server has not parsed.

    Args:
        limits: Bounds of the server.
    """

    def __init__(self, limits: HttpLimits) -> None:
        self._bytes_max = limits.socket_message_bytes_max
        self._per_second = limits.socket_bytes_per_second_max
        self._burst_seconds = limits.socket_bytes_burst_max / limits.socket_bytes_per_second_max
        self._unparsed = bytearray()
        # Of the message that has begun, without its frame in `_unparsed`; 0 between messages.
        self._message_bytes = 0
        self._message_frames = 0
        # Time of the event loop at which the taken frames will be paid by the rate.
        self._paid_at = 0.0

    @property
    def is_partial(self) -> bool:
        """Whether a frame or a message has begun, and its end is not taken yet."""
        return bool(self._unparsed) or self._message_frames > 0

    def add(self, data: bytes) -> None:
        """Keep received bytes."""
        self._unparsed += data

    def wait_seconds(self, now: float) -> float:
        """Return how long no frame may be taken, because of the rate; 0 for not at all."""
        return max(self._paid_at - now - self._burst_seconds, 0.0)

    def take(self, now: float) -> bytes | FrameFault | None:
        """Remove the next frame and return it; None unless it is whole.

        Args:
            now: Time of the event loop in seconds.
        """
        unparsed = self._unparsed
        if len(unparsed) < _HEAD_BYTES:
            return None
        opcode, is_masked = unparsed[0] & _OPCODE, unparsed[1] & _MASKED
        size = unparsed[1] & _LENGTH
        at = _HEAD_BYTES + _LENGTH_BYTES.get(size, 0)
        if len(unparsed) < at:
            return None
        if at > _HEAD_BYTES:
            size = int.from_bytes(unparsed[_HEAD_BYTES:at])
        fault = self._fault_of(opcode, size)
        if fault is not None:
            return fault
        end = at + (_MASK_BYTES if is_masked else 0) + size
        if len(unparsed) < end:
            return None
        self._count(opcode, size, is_final=bool(unparsed[0] & _FINAL))
        self._paid_at = max(self._paid_at, now) + (end + _FRAME_COST_BYTES) / self._per_second
        frame = bytes(unparsed[:end])
        del unparsed[:end]
        return frame

    def _fault_of(self, opcode: int, size: int) -> FrameFault | None:
        if opcode >= _FIRST_CONTROL_OPCODE:
            if size <= _CONTROL_BYTES_MAX:
                return None
            reason = f"a control frame has at most {_CONTROL_BYTES_MAX} bytes, got {size}"
            return FrameFault(PROTOCOL_ERROR, reason)
        if opcode == _BINARY:
            return FrameFault(UNSUPPORTED, "a message is JSON in a text frame, got a binary frame")
        if self._message_bytes + size > self._bytes_max:
            reason = (
                f"a message has at most {self._bytes_max} bytes; POST a larger batch, or split it"
            )
            return FrameFault(TOO_BIG, reason)
        if self._message_frames >= _MESSAGE_FRAMES_MAX:
            reason = f"a message has at most {_MESSAGE_FRAMES_MAX} frames; send it in one"
            return FrameFault(POLICY_VIOLATION, reason)
        return None

    def _count(self, opcode: int, size: int, *, is_final: bool) -> None:
        if opcode >= _FIRST_CONTROL_OPCODE:
            return
        if is_final:
            self._message_bytes = self._message_frames = 0
            return
        self._message_bytes += size
        self._message_frames += 1
