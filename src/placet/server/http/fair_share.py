"""Admits the bodies of requests, so that one caller's large bodies delay no other caller.

A body is read when its caller has room: `caller_bytes_max` between a caller's first byte read and
its response begun; a larger body is read when no other one of the caller is. A caller is the
principal of a known token, else a network address. The length is the declared one; a chunked body
counts as `body_bytes_max`. Others wait in order, unread: at most `caller_waiting_max`, each at most
`body_seconds_max`; beyond it the answer is 429 `busy`.

A body of at most `_SMALL_BYTES` never waits: other requests may wait for it, as batches in a world
of stepped time wait for `POST step`.
"""

import asyncio
from collections import deque
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from placet.schemas.limits import HttpLimits
from placet.server.credentials import Credentials
from placet.server.http.problems import Problem

_SMALL_BYTES: Final = 1024
_RETRY_SECONDS: Final = 1


class _Caller:
    """The requests of one caller: how many bytes are admitted, and which requests wait."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._admitted = 0
        self._bytes = 0
        self.waiting: deque[tuple[asyncio.Future[None], int]] = deque()

    def admit(self, size: int) -> bool:
        """Admit a body where there is room."""
        if self._admitted and self._bytes + size > self._bytes_max:
            return False
        self._admitted += 1
        self._bytes += size
        return True

    def release(self, size: int) -> None:
        """Remove a body, and admit waiting ones in order."""
        self._admitted -= 1
        self._bytes -= size
        while self.waiting and self.admit(self.waiting[0][1]):
            self.waiting.popleft()[0].set_result(None)

    async def wait(self, size: int, seconds_max: int) -> bool:
        """Wait until a body is admitted; False where that takes too long."""
        turn = asyncio.get_running_loop().create_future()
        self.waiting.append((turn, size))
        try:
            async with asyncio.timeout(seconds_max):
                await asyncio.shield(turn)
        except BaseException as error:
            if turn.done():
                self.release(size)
            else:
                self.waiting.remove((turn, size))
            if isinstance(error, TimeoutError):
                return False
            raise
        return True

    def is_idle(self) -> bool:
        """Return whether nothing is admitted; then nothing waits."""
        return not self._admitted


class FairShare:
    """Reads the body of a request when its caller has room.

    Args:
        app: Application that answers.
        credentials: The known tokens.
        limits: Bounds of the server.
    """

    def __init__(self, app: ASGIApp, credentials: Credentials, limits: HttpLimits) -> None:
        self._app = app
        self._credentials = credentials
        self._limits = limits
        self._callers: dict[tuple[str, str], _Caller] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        size = self._size(scope) if scope["type"] == "http" else 0
        if size <= _SMALL_BYTES:
            await self._app(scope, receive, send)
            return
        key = self._key(scope)
        caller = self._callers.setdefault(key, _Caller(self._limits.caller_bytes_max))
        if not await self._admit(caller, size):
            await self._busy().response()(scope, receive, send)
            return
        is_admitted = True

        def release() -> None:
            nonlocal is_admitted
            if is_admitted:
                is_admitted = False
                caller.release(size)
                if caller.is_idle():
                    self._callers.pop(key, None)

        async def send_released(message: Message) -> None:
            release()
            await send(message)

        try:
            await self._app(scope, receive, send_released)
        finally:
            release()

    async def _admit(self, caller: _Caller, size: int) -> bool:
        """Return whether a body may be read; it waits where it has to."""
        if not caller.waiting and caller.admit(size):
            return True
        if len(caller.waiting) >= self._limits.caller_waiting_max:
            return False
        return await caller.wait(size, self._limits.body_seconds_max)

    def _busy(self) -> Problem:
        return Problem(
            "busy",
            f"{self._limits.caller_bytes_max} bytes of this caller's bodies are being answered, "
            "and too many requests wait; send fewer at a time",
            headers={"retry-after": str(_RETRY_SECONDS)},
            retry_after=_RETRY_SECONDS,
        )

    def _size(self, scope: Scope) -> int:
        """Return how many bytes a body may have; 0 for none."""
        for name, value in scope["headers"]:
            if name == b"content-length":
                return int(value) if value.isdigit() else self._limits.body_bytes_max
            if name == b"transfer-encoding":
                return self._limits.body_bytes_max
        return 0

    def _key(self, scope: Scope) -> tuple[str, str]:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        shown = headers.get(b"authorization", b"").decode("latin-1")
        principal = self._credentials.principal(shown)
        if principal is not None:
            return "principal", principal.submitter
        return "address", scope["client"][0] if scope.get("client") else ""
