"""Connections of the gateway: to its client over stdin and stdout, and to a server's process.

A link sends and receives messages, each one line without its end.
"""

import asyncio
import os
import shlex
import stat
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, Protocol

import anyio

LINE_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes of one message; a longer one is dropped."""

_READ_BYTES: Final = 256 * 1024
_PIPE_BYTES: Final = 4096
"""A terminal that is writable takes so many bytes without waiting."""

_CLOSE_SECONDS_MAX: Final = 2.0


class MessageLink(Protocol):
    """One end of a connection."""

    async def send(self, line: bytes) -> None:
        """Send a message.

        Raises:
            OSError: The other end is closed.
        """

    def lines(self) -> AsyncIterator[bytes | None]:
        """Return the messages until the other end closes; None for one that was too long."""

    async def close(self) -> None:
        """Close the connection."""


class ServerLink(MessageLink, Protocol):
    """The link to a server; its text names the server."""

    async def how_it_ended(self) -> str:
        """Return how the server ended, which has closed its end."""


class ServerUnreachable(OSError):  # noqa: N818  # the name states the fault
    """The error of a command that cannot be started."""


class ProcessLink:
    """A server that runs as a child process and speaks over its stdin and stdout.

    Args:
        process: The process.
        command: Its command, for messages.
    """

    def __init__(self, process: asyncio.subprocess.Process, command: str) -> None:
        assert process.stdin is not None, "started with pipes"
        assert process.stdout is not None, "started with pipes"
        self._process = process
        self._input = process.stdin
        self._output = process.stdout
        self._command = command
        self._sending = asyncio.Lock()

    @classmethod
    async def start(cls, command: str) -> "ProcessLink":
        """Start the process of a command line, which is split as a shell does.

        Raises:
            ServerUnreachable: There is no such program, or the text is no command line.
        """
        try:
            words = shlex.split(command)
            process = await asyncio.create_subprocess_exec(
                *words, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
            )
        except (OSError, ValueError, TypeError) as error:  # TypeError: it has no words
            raise ServerUnreachable(f"the server {command!r} cannot be started: {error}") from error
        return cls(process, command)

    def __str__(self) -> str:
        return f"the server {self._command!r}"

    async def send(self, line: bytes) -> None:
        """Send a message to the server.

        Raises:
            OSError: The server has ended.
        """
        async with self._sending:
            self._input.write(line + b"\n")
            await self._input.drain()

    def lines(self) -> AsyncIterator[bytes | None]:
        """Return the lines of the server, until it ends."""
        return lines_of(lambda: self._output.read(_READ_BYTES))

    async def how_it_ended(self) -> str:
        """Return how the process ended, which has closed its stdout."""
        try:
            async with asyncio.timeout(_CLOSE_SECONDS_MAX):
                code = await self._process.wait()
        except TimeoutError:
            return "closed its stdout"
        return f"ended with the code {code}" if code >= 0 else f"was ended by signal {-code}"

    async def close(self) -> None:
        """Close the server's stdin; end a process that does not end by itself within 2 s."""
        self._input.close()
        for end in (self._process.terminate, self._process.kill):
            try:
                async with asyncio.timeout(_CLOSE_SECONDS_MAX):
                    await self._process.wait()
                return
            except TimeoutError:
                end()
        await self._process.wait()


class StdioLink:
    """The client that started this process and speaks over its stdin and stdout.

    From then on, other parts of the process that print write to stderr.
    """

    def __init__(self) -> None:
        self._input = os.dup(sys.__stdin__.fileno() if sys.__stdin__ else 0)
        self._output = os.dup(1)
        os.dup2(2, 1)
        is_ours = stat.S_ISFIFO(mode := os.fstat(self._output).st_mode) or stat.S_ISSOCK(mode)
        if is_ours:  # a terminal is shared with stderr
            os.set_blocking(self._output, False)
        self._chunk_bytes = LINE_BYTES_MAX if is_ours else _PIPE_BYTES
        self._sending = asyncio.Lock()

    async def send(self, line: bytes) -> None:
        """Send a message to the client.

        Raises:
            OSError: The client has closed its end.
        """
        async with self._sending:
            rest = memoryview(line + b"\n")
            while rest:
                rest = rest[await self._write(rest) :]

    async def _write(self, rest: memoryview) -> int:
        try:
            await anyio.wait_writable(self._output)
        except PermissionError:  # a file is always writable
            await anyio.lowlevel.checkpoint()
        try:
            return os.write(self._output, rest[: self._chunk_bytes])
        except BlockingIOError:
            return 0

    def lines(self) -> AsyncIterator[bytes | None]:
        """Return the messages of the client, until it closes stdin."""
        return lines_of(self._read)

    async def _read(self) -> bytes:
        try:
            await anyio.wait_readable(self._input)
        except PermissionError:  # a file is always readable
            await anyio.lowlevel.checkpoint()
        return os.read(self._input, _READ_BYTES)

    async def close(self) -> None:
        """Close both ends."""
        os.close(self._input)
        os.close(self._output)


async def lines_of(read: Callable[[], Awaitable[bytes]]) -> AsyncIterator[bytes | None]:
    """Return the lines of a stream; None for one with more than `LINE_BYTES_MAX`.

    Args:
        read: Returns the next bytes; none at the end.
    """
    parts: list[bytes] = []
    size = 0
    while chunk := await read():
        *ended, begun = chunk.split(b"\n")
        for line in ended:
            size += len(line)
            yield b"".join([*parts, line]) if size <= LINE_BYTES_MAX else None
            parts, size = [], 0
        size += len(begun)
        if begun and size <= LINE_BYTES_MAX:
            parts.append(begun)
        elif begun:
            parts = []
    if parts:
        yield b"".join(parts)
