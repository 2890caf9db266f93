"""Admits the bodies of requests, so that one caller's large bodies delay no other caller.

A body is read when its caller has room: `caller_bytes_max` between a caller's first byte read and
its response begun; a larger body is read when no other one of the caller is. A caller is the
principal of a known token, else a network address. The length is the declared one; a chunked body
counts as `body_bytes_max`. Others wait in order, unread: at most `caller_waiting_max`, each at most
`body_seconds_max`; beyond it the answer is 429 `busy`.

A route whose response waits for other requests, as that of a batch in a world of stepped time waits
for `POST step`, calls `release_body` once it keeps no byte of the body: its work is no longer what
others wait for, and the request that it waits for may be behind it.

The messages of a WebSocket that takes batches are counted as the bodies of the same caller
(`admit_message`): while one waits, its WebSocket is not read.

A body of at most `_SMALL_BYTES` is not counted and never waits: the many agents of one token each
have a small batch in flight.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from placet.schemas.limits import HttpLimits
from placet.server.credentials import PRINCIPAL_KEY, Credentials, Principal
from placet.server.http.problems import Problem, busy

_SMALL_BYTES: Final = 4 * 1024
_RETRY_SECONDS: Final = 1
_RELEASE_KEY: Final = "placet.release_body"
_SHARE_KEY: Final = "placet.fair_share"


def release_body(scope: Scope) -> None:
    """Count a request's body as answered before its response begins; a second call does nothing.

    Args:
        scope: The ASGI scope of the request. Its body was read, and is no longer referenced.
    """
    release = scope.get(_RELEASE_KEY)
    if release is not None:
        release()


async def admit_message(scope: Scope, who: Principal, size: int) -> Callable[[], None]:
    """Wait until a message of a WebSocket may be worked on, as a body of the same caller would.

    Args:
        scope: The ASGI scope of the WebSocket.
        who: The caller.
        size: Bytes of the message.

    Returns:
        The function to call once the message is answered, or no byte of it is kept.

    Raises:
        Problem: Too many of the caller's bodies and messages wait, or this one waited too long.
    """
    share: FairShare = scope[_SHARE_KEY]
    return await share.admit(who, size)


class _Caller:
    """The requests of one caller: how many bytes are admitted, and which requests wait."""

    __slots__ = ("_admitted", "_bytes", "_bytes_max", "waiting")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._admitted = 0
        # Bytes of the admitted bodies; more than `_bytes_max` only if there is one body.
        self._bytes = 0
        # Empty unless a body is admitted: the first one that waits does not fit beside it.
        self.waiting: deque[tuple[asyncio.Future[None], int]] = deque()

    def admit(self, size: int) -> bool:
        """Admit a body where there is room."""
        if self._admitted and self._bytes + size > self._bytes_max:
            return False
        self._admitted += 1
        self._bytes += size
        return True

    @property
    def is_idle(self) -> bool:
        """Whether no body is admitted; then none waits either, as the first would be admitted."""
        return not self._admitted

    def release(self, size: int) -> None:
        """Remove a body, and admit waiting ones in order."""
        assert self._admitted, "only an admitted body is released"
        self._admitted -= 1
        self._bytes -= size
        self._admit_waiting()

    async def wait(self, size: int, seconds_max: int) -> bool:
        """Wait until a body is admitted; False where that takes too long."""
        turn = asyncio.get_running_loop().create_future()
        self.waiting.append((turn, size))
        try:
            async with asyncio.timeout(seconds_max):
                await asyncio.shield(turn)
        except BaseException as error:
            is_late = isinstance(error, TimeoutError)
            if not turn.done():
                self.waiting.remove((turn, size))
                self._admit_waiting()  # those behind it may fit
            elif not is_late:
                self.release(size)
            if not is_late:
                raise
            return turn.done()
        return True

    def _admit_waiting(self) -> None:
        while self.waiting and self.admit(self.waiting[0][1]):
            self.waiting.popleft()[0].set_result(None)


class Callers:
    """The requests of callers, by key: a caller has an admitted size, and further requests wait.

    Args:
        size_max: Admitted size of a caller; a larger request is admitted alone.
        waiting_max: Number of a caller's requests that wait.
        seconds_max: How long each waits.
    """

    def __init__(self, size_max: int, waiting_max: int, seconds_max: int) -> None:
        self._size_max = size_max
        self._waiting_max = waiting_max
        self._seconds_max = seconds_max
        self._callers: dict[Hashable, _Caller] = {}

    async def admit(self, key: Hashable, size: int) -> bool:
        """Return whether a request of a caller is admitted; it waits where it has to."""
        caller = self._callers.get(key)
        if caller is None:
            caller = self._callers[key] = _Caller(self._size_max)
        try:
            if not caller.waiting and caller.admit(size):
                return True
            if len(caller.waiting) >= self._waiting_max:
                return False
            return await caller.wait(size, self._seconds_max)
        finally:
            self._forget_idle(key, caller)

    def release(self, key: Hashable, size: int) -> None:
        """End a request of a caller, and admit waiting ones."""
        caller = self._callers[key]
        caller.release(size)
        self._forget_idle(key, caller)

    def __len__(self) -> int:
        return len(self._callers)

    def _forget_idle(self, key: Hashable, caller: _Caller) -> None:
        if caller.is_idle:
            del self._callers[key]


class FairShare:
    """A middleware that delays a request's body while its caller has too many bytes in work.

    Args:
        app: The wrapped ASGI application.
        credentials: The known tokens.
        limits: Bounds of the server.

    Attributes:
        callers: The callers whose bodies are in work.
    """

    def __init__(self, app: ASGIApp, credentials: Credentials, limits: HttpLimits) -> None:
        self._app = app
        self._credentials = credentials
        self._limits = limits
        self.callers = Callers(
            limits.caller_bytes_max, limits.caller_waiting_max, limits.body_seconds_max
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "websocket":
            scope[_SHARE_KEY] = self
        size, authorization = self._read_head(scope)
        if size <= _SMALL_BYTES:
            await self._app(scope, receive, send)
            return
        # Kept for the routes: to look up a token costs a hash.
        principal = scope[PRINCIPAL_KEY] = self._credentials.principal(authorization)
        key: Hashable = principal or (scope["client"][0] if scope["client"] else "")
        try:
            release = await self.admit(key, size)
        except Problem as problem:
            await problem.response()(scope, receive, send)
            return

        async def send_released(message: Message) -> None:
            release()
            await send(message)

        scope[_RELEASE_KEY] = release
        try:
            await self._app(scope, receive, send_released)
        finally:
            release()

    async def admit(self, key: Hashable, size: int) -> Callable[[], None]:
        """Wait until a body or message of a caller may be worked on; return what ends that work.

        Raises:
            Problem: Too many of the caller's bodies wait, or this one waited too long.
        """
        if size <= _SMALL_BYTES:
            return lambda: None
        if not await self.callers.admit(key, size):
            raise self._busy()
        is_admitted = True

        def release() -> None:
            nonlocal is_admitted
            if is_admitted:
                is_admitted = False
                self.callers.release(key, size)

        return release

    def _busy(self) -> Problem:
        return busy(
            f"{self._limits.caller_bytes_max} bytes of this caller's bodies are being answered, "
            "and too many requests wait; send fewer at a time",
            _RETRY_SECONDS,
        )

    def _read_head(self, scope: Scope) -> tuple[int, str]:
        """Return how many bytes a body may have, 0 for none, and the `Authorization`."""
        size, authorization = 0, b""
        if scope["type"] == "http":
            for name, value in scope["headers"]:
                if name == b"content-length":
                    size = int(value) if value.isdigit() else self._limits.body_bytes_max
                elif name == b"transfer-encoding":
                    size = self._limits.body_bytes_max
                elif name == b"authorization":
                    authorization = value
        return size, authorization.decode("latin-1")
