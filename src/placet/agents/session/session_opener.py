"""A session that is being opened."""

from collections.abc import Awaitable, Callable, Generator
from contextlib import AsyncExitStack
from typing import Generic, Protocol, TypeVar


class _Opening(Protocol):
    """The interface of a session while it is opened and closed."""

    closing: AsyncExitStack

    async def close_stale_turns(self) -> None: ...

    async def record_decisions(self) -> None: ...

    async def close(self) -> None: ...


_Session = TypeVar("_Session", bound=_Opening)


class SessionOpener(Generic[_Session]):
    """A session that is being opened: await it, or use it as an async context manager.

    Args:
        open_in: Creates the session, and enters a world that it opens into an exit stack.
    """

    def __init__(self, open_in: Callable[[AsyncExitStack], Awaitable[_Session]]) -> None:
        self._open_in = open_in
        self._session: _Session | None = None

    def __await__(self) -> Generator[object, None, _Session]:
        return self._open().__await__()

    async def __aenter__(self) -> _Session:
        self._session = await self._open()
        return self._session

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def _open(self) -> _Session:
        async with AsyncExitStack() as closing:
            session = await self._open_in(closing)
            await session.close_stale_turns()
            await session.record_decisions()
            session.closing = closing.pop_all()
        return session
