"""Lines from a pipe or a file, in bounded memory, with an ear for signals and for time.

All available input is taken at once: a peer that waits for each answer gets it after its line, and
one that sends ahead shares a durable write among many lines.
"""

import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from placet.cli.signals import StopSignals

READ_BYTES: Final = 1 << 20
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class LineSplitter:
    """A buffer that divides a stream of bytes into lines, without line ends.

    Args:
        bytes_max: Maximum bytes of one line. A longer line is dropped while it is read, and is None
            in the result.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._parts: list[bytes] = []
        self._size = 0
        self._is_first = True

    def feed(self, data: bytes) -> list[bytes | None]:
        """Add bytes of the stream, and return the lines that are complete now; None if too long."""
        pieces = data.split(b"\n")
        last = pieces.pop()
        lines: list[bytes | None] = []
        for piece in pieces:
            if self._size:
                self._keep(piece)
                lines.append(self._take())
            else:
                lines.append(piece if len(piece) <= self._bytes_max else None)
        self._keep(last)
        if lines and self._is_first:
            self._is_first = False
            lines[0] = _without_mark(lines[0])
        return lines

    def end(self) -> list[bytes | None]:
        """Return the last line, if it has no line end, as a list of at most one."""
        if not self._size:
            return []
        line = self._take()
        return [_without_mark(line) if self._is_first else line]

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._bytes_max:
            self._parts.clear()
        elif piece:
            self._parts.append(piece)

    def _take(self) -> bytes | None:
        line = b"".join(self._parts) if self._size <= self._bytes_max else None
        self._parts.clear()
        self._size = 0
        return line


def _without_mark(line: bytes | None) -> bytes | None:
    return None if line is None else line.removeprefix(_BYTE_ORDER_MARK)


class InputStream:
    """An input file descriptor, whose read ends early when a stop signal comes.

    Args:
        descriptor: File descriptor of a pipe, a file, a terminal or a socket.
        stop: Records stop signals; after one, nothing more is read.
    """

    def __init__(self, descriptor: int, stop: StopSignals) -> None:
        self._descriptor = descriptor
        self._stop = stop

    @property
    def is_stopped(self) -> bool:
        """Whether a stop signal came, so that nothing more is read."""
        return self._stop.is_set()

    def read(self, seconds_max: float | None) -> bytes | None:
        """Wait for input and return the available bytes, a megabyte at most.

        Returns:
            The bytes, empty at the end of the stream; None if none have arrived, because
            the time is over or a signal came.
        """
        with _woken_by_signals() as woken:
            if self._stop.is_set():
                return None
            ready, _, _ = select.select([self._descriptor, woken], [], [], seconds_max)
        if self._stop.is_set() or self._descriptor not in ready:
            return None
        return os.read(self._descriptor, READ_BYTES)


@contextmanager
def _woken_by_signals() -> Iterator[int]:
    """Return a descriptor that becomes readable at a signal. No moment in between is missed."""
    woken, waking = os.pipe()
    os.set_blocking(waking, False)
    before = signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
    try:
        yield woken
    finally:
        signal.set_wakeup_fd(before)
        os.close(woken)
        os.close(waking)
