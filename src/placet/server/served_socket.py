"""An accepted WebSocket: each message has a deadline, and each end its code and reason."""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Final

from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from placet.schemas.errors import AgentError, ClosedError, StoreError
from placet.server.http.problems import Problem

GOING_AWAY: Final = 1001
POLICY_VIOLATION: Final = 1008


class SocketEnd(Exception):  # noqa: N818  # it is no error of ours
    """Ends the work of a WebSocket, which is closed.

    Args:
        code: Code of the close frame.
        reason: Its reason, at most 123 bytes.
    """

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(code, reason)
        self.code = code
        self.reason = reason


class ServedSocket:
    """A WebSocket that was accepted.

    Args:
        socket: The WebSocket.
        send_seconds_max: How long a client may take nothing of a message.
    """

    def __init__(self, socket: WebSocket, send_seconds_max: float) -> None:
        self._socket = socket
        self._send_seconds_max = send_seconds_max

    async def run(
        self, main: Coroutine[None, None, None], *beside: Coroutine[None, None, None]
    ) -> None:
        """Run the work of the socket until its main part ends, or any part fails; then close it."""
        try:
            async with asyncio.TaskGroup() as tasks:
                others = [tasks.create_task(work) for work in beside]
                await main
                for other in others:
                    other.cancel()
        except* (ClosedError, StoreError):
            await self._close(GOING_AWAY, "the world is closed")
        except* TimeoutError:
            await self._close(POLICY_VIOLATION, "the client takes nothing")
        except* (AgentError, Problem):
            await self._close(GOING_AWAY, "the agent is gone")
        except* SocketEnd as ends:
            end = _first(ends)
            await self._close(end.code, end.reason)
        except* WebSocketDisconnect:
            pass
        else:
            await self._close(GOING_AWAY, "the world is closed")

    async def send(self, text: str) -> None:
        """Send a message.

        Raises:
            TimeoutError: The client takes nothing.
            WebSocketDisconnect: It is gone.
        """
        try:
            await self._within(self._socket.send_text(text))
        except RuntimeError as error:
            # The connection has closed the stream, as after a message or a broken frame, and
            # the task that receives has not run yet. Logged as a bug, it would be 5 KB for each
            # such client.
            raise WebSocketDisconnect from error

    async def _close(self, code: int, reason: str) -> None:
        if self._socket.application_state is WebSocketState.CONNECTED:
            try:
                await self._within(self._socket.close(code, reason))
            except (TimeoutError, WebSocketDisconnect, RuntimeError):
                return  # it is gone already

    async def _within(self, sending: Awaitable[None]) -> None:
        async with asyncio.timeout(self._send_seconds_max):
            await sending


def _first(ends: ExceptionGroup[SocketEnd]) -> SocketEnd:
    first = ends.exceptions[0]
    return _first(first) if isinstance(first, ExceptionGroup) else first
