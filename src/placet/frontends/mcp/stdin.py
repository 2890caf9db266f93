"""Lines of an MCP client on stdin, read so that waiting can be canceled.

The SDK's own reader waits in a thread that cannot be woken, so Ctrl-C would take effect only after
the client's next line. As with the SDK, stdin is reserved meanwhile: other readers see its end.
"""

import os
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from typing import Final

import anyio

_STDIN: Final = 0
_READ_BYTES: Final = 64 * 1024


@contextmanager
def lines_of_stdin() -> Iterator[AsyncGenerator[str, None]]:
    """Claim the standard input, and return its lines until the client closes it.

    A context manager: inside, other readers see an empty input. Not on Windows.
    """
    claimed, nothing = os.dup(_STDIN), os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, _STDIN)
    os.close(nothing)
    try:
        yield _lines(claimed)
    finally:
        os.dup2(claimed, _STDIN)
        os.close(claimed)


async def _lines(descriptor: int) -> AsyncGenerator[str, None]:
    parts: list[bytes] = []
    while chunk := await _read(descriptor):
        *ended, begun = chunk.split(b"\n")
        for line in ended:
            yield b"".join([*parts, line]).decode("utf-8", "replace")
            parts = []
        parts.append(begun)
    if any(parts):
        yield b"".join(parts).decode("utf-8", "replace")


async def _read(descriptor: int) -> bytes:
    try:
        await anyio.wait_readable(descriptor)
    except PermissionError:  # a file is always readable
        await anyio.lowlevel.checkpoint()
    return os.read(descriptor, _READ_BYTES)
