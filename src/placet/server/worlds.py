"""The worlds that one server has open: the one it is configured with, and those made beside it.

A world created over HTTP is kept beside the first: in memory, or as a separate file in a folder
named after the first one's file. It is reopened with the server.
"""

import asyncio
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote

from anyio import Path

from placet.runtime.orchestrator import Orchestrator
from placet.runtime.stores.files import quoted
from placet.runtime.stores.postgres.address import SCHEMES
from placet.runtime.stores.url import file_of, open_event_log
from placet.schemas.limits import HttpLimits
from placet.server.http.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from placet.kernel.domain import Domain

_ENDING: Final = ".db"
_FILE_CHARS_MAX: Final = 200
"""Of a name as it is quoted for its file: what a file's name may have, less what is put behind."""


class Worlds:
    """Worlds by name. Opened and closed by the application's lifespan.

    Attributes:
        first: The world that is there from the start.
        what: Noun for a world created here.
        make: Makes the domains of a world made here; None where there are none.

    Args:
        first: Not open yet.
        limits: For `designs_max`, which bounds how many are made.
    """

    def __init__(self, first: Orchestrator, limits: HttpLimits) -> None:
        self.what = "world"
        self.first = first
        self.make: Callable[[str], Sequence[Domain]] | None = None
        self._count_max = limits.designs_max
        self._open: dict[str, Orchestrator] = {}
        self._making = asyncio.Lock()

    async def open(self) -> None:
        """Open the first world, and the worlds created beside it.

        Raises:
            StoreError: A store cannot be opened.
        """
        await self._enter(self.first)
        folder = self._folder
        if self.make is None or folder is None or not await folder.is_dir():
            return
        try:
            async for path in folder.glob(f"*{_ENDING}"):
                await self._enter(self._beside(unquote(path.stem)))
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close all worlds: accepted batches are decided, and durable."""
        worlds, self._open = self._open, {}
        for world in worlds.values():
            await world.close()

    async def create(self, name: str) -> Orchestrator:
        """Make a world beside the first.

        Raises:
            Problem: There is one of that name, there are too many, or no file can have the name.
        """
        async with self._making:
            if name in self._open:
                raise Problem("conflict", f"there is a {self.what} {name!r} already")
            if len(self._open) >= self._count_max:
                raise Problem(
                    "unavailable", f"there are {self._count_max} {self.what}s, which is all"
                )
            if self.first.config.read_only:
                raise Problem("forbidden", f"this server is read-only: it makes no {self.what}")
            if self.first.config.store.startswith(SCHEMES):
                where = "beside one that is in a file or in memory, not on a server"
                raise Problem("unavailable", f"worlds are made {where}")
            if self._folder is not None:
                _check_file(name, self.what)
                await self._folder.mkdir(parents=True, exist_ok=True)
            return await self._enter(self._beside(name))

    @property
    def is_open(self) -> bool:
        """There is work to take."""
        return bool(self._open)

    def find(self, name: str) -> Orchestrator | None:
        """Return an open world, if there is one of that name."""
        return self._open.get(name)

    def all(self) -> list[tuple[str, Orchestrator]]:
        """List them, by name."""
        return sorted(self._open.items())

    async def _enter(self, world: Orchestrator) -> Orchestrator:
        await world.__aenter__()
        self._open[world.config.world] = world
        return world

    def _beside(self, name: str) -> Orchestrator:
        assert self.make is not None, "who makes worlds says of what"
        store = self.first.config.store
        if self._folder is not None:
            # As a URL, with its `?synchronous=`; the name is quoted for the file and once more.
            _, _, query = store.partition("?")
            path = PurePosixPath(str(self._folder), _stem(name) + _ENDING)
            store = f"sqlite:///{quoted(path)}" + (f"?{query}" if query else "")
        return Orchestrator(self.make(name), replace(self.first.config, world=name, store=store))

    @property
    def _folder(self) -> Path | None:
        path = file_of(open_event_log(self.first.config.store))
        return None if path is None else Path(path.with_suffix(""))


def _stem(name: str) -> str:
    return quote(name, safe="")


def _check_file(name: str, what: str) -> None:
    count = len(_stem(name))
    if count > _FILE_CHARS_MAX:
        raise Problem(
            "request_invalid",
            f"the name of a {what} has at most {_FILE_CHARS_MAX} characters where it is kept in a "
            f"file, got {count}; letters beyond a to z count six and more",
        )
