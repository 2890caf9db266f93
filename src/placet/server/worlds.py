"""The worlds that one server has open: the one it is configured with, and those made beside it.

A world created over HTTP is kept beside the first: in memory, or as a separate file in a folder
named after the first one's file. It is reopened with the server.
"""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import quote, unquote

from anyio import to_thread

from placet.kernel.plugin.domain import Domain
from placet.runtime.orchestrator import Orchestrator
from placet.runtime.recorded_world import recorded_world
from placet.runtime.telemetry.world_logger import WorldLogger
from placet.schemas.errors import PlacetError, StoreError
from placet.schemas.names import path_part_fault
from placet.server.config import ServeConfig
from placet.server.http.problems import Problem
from placet.server.open_files import share_open_files, why_no_file
from placet.server.store_watch import StoreWatch
from placet.stores.files import make_folder, quoted
from placet.stores.postgres.address import SCHEMES
from placet.stores.sqlite.file import whole_log
from placet.stores.url import file_of, open_event_log

_ENDING: Final = ".db"
_FILE_CHARS_MAX: Final = 200
"""Of a name as it is quoted for its file: what a file's name may have, less what is put behind."""

_Make: TypeAlias = Callable[[str], Sequence[Domain]]
_Check: TypeAlias = Callable[[], Awaitable[None]]
_Prepare: TypeAlias = Callable[[Orchestrator], Awaitable[None]]


class Worlds:
    """The worlds of a server, by name. Opened and closed by the application's lifespan.

    Attributes:
        first: The configured world.
        what: Noun for an additional world, in messages.
        make: Function that returns the domains of an additional world by name; None if none can
            be created.
        is_fork: Function that returns whether a name belongs to a fork; no world may have such a
            name.
        on_opened: Functions that are called with the name of a world which was opened, or opened
            again.
        on_reopened: Functions that are called with the name of a world which was opened again,
            because its store had failed: a plug-in's objects of the stopped world are void.
        fatal: The failure of a store for which the server ends; None for no such failure.
        unopened: Name of an additional world that is not open -> why, in one line.
        creators: Name of a world made since the server started -> its creator. A plug-in writes it,
            and bounds by it the number of worlds of one creator, also those with another owner.

    Args:
        first: The configured world. One that is open already is not closed here.
        config: Configuration of the server; `limits.worlds_max` bounds the number of worlds.
    """

    def __init__(self, first: Orchestrator, config: ServeConfig) -> None:
        self.what = "world"
        self.first = first
        self.make: _Make | None = None
        self.is_fork: Callable[[str], bool] = lambda _name: False
        self.on_opened: list[Callable[[str], None]] = []
        self.on_reopened: list[Callable[[str], None]] = []
        self.fatal: StoreError | None = None
        self.unopened: dict[str, str] = {}
        self.creators: dict[str, str] = {}
        self._config = config
        # True iff the program opened `first` before `open` was called, and closes it.
        self._is_first_kept = False
        self._open: dict[str, Orchestrator] = {}
        self._watches: dict[str, StoreWatch] = {}
        self._making = asyncio.Lock()
        # The name of the world whose creation holds `_making`; no fork gets it meanwhile.
        self._being_made: str | None = None

    async def open(self) -> None:
        """Open the configured world, and the additional worlds that exist beside it.

        An additional world whose file is damaged is reported, and listed in `unopened`.

        Raises:
            StoreError: The store of the configured world cannot be opened.
        """
        self._is_first_kept = self.first.is_open
        await self._enter(self.first)
        folder = self._folder
        if self.make is None or folder is None:
            return
        try:
            for path in await to_thread.run_sync(lambda: sorted(folder.glob(f"*{_ENDING}"))):
                name = unquote(path.stem)
                if self.room:
                    await self._try_enter(name)
                else:
                    self.unopened[name] = self._no_room
        except BaseException:
            await self.close()
            raise

    async def _try_enter(self, name: str) -> None:
        """Open a world beside the first; report the reason if it cannot be opened."""
        try:
            await self._enter(await self._continued(name))
        except Exception as error:  # noqa: BLE001  # a world's fault must not end the others
            shown = str(error) if isinstance(error, PlacetError) else repr(error)
            self.unopened[name] = " ".join(shown.split())
            config = self.first.config
            WorldLogger(config.log_format, config.log_level, config.world).warning(
                f"the {self.what} {name!r} cannot be opened, the others are served: "
                f"{self.unopened[name]}"
            )

    async def close(self) -> None:
        """Close all worlds, after their accepted batches are decided and durable.

        Raises:
            StoreError: A store failed at the end. All worlds are closed all the same; of several
                errors this is the last, with the earlier ones as its `__context__`.
        """
        watches, self._watches = self._watches, {}
        worlds, self._open = self._open, {}
        if self._is_first_kept:
            worlds.pop(self.first.config.world, None)
        async with AsyncExitStack() as last_first:
            for world in worlds.values():
                last_first.push_async_callback(world.close)
            for watch in watches.values():
                last_first.push_async_callback(watch.stop)

    def lost(self) -> str | None:
        """Return the reason why only a restart of the server helps; None if none is needed."""
        return next((watch.lost for watch in self._watches.values() if watch.lost), None)

    async def why_not_ready(self) -> str | None:
        """Return the reason why a world could not decide and write a batch now; None if all could.

        The check writes to the store of the configured world. The files of the others are in the
        same place, so for them only an earlier failure is reported.
        """
        no_file = why_no_file()
        if no_file is not None:
            return no_file
        watches = self._watches.values()
        failed = next((why for watch in watches if (why := watch.why_failed())), None)
        return failed or await self._watches[self.first.config.world].why_not_ready()

    async def create(
        self, name: str, *, check: _Check | None = None, prepare: _Prepare | None = None
    ) -> Orchestrator:
        """Create and open an additional world, and return it.

        Args:
            name: Name of the world.
            check: Called first, while no other world is created; raises to refuse.
            prepare: Called with the open world, before requests can find it; if it raises, the
                world is closed.

        Raises:
            Problem: The name is in use or cannot be a file name, or there are too many worlds.
        """
        _check_name(name, self.what)
        async with self._making:
            self._being_made = name
            try:
                return await self._create(name, check, prepare)
            finally:
                self._being_made = None

    @property
    def in_files_max(self) -> int:
        """Number of worlds in files that may be open beside the configured one; 0 for none."""
        makes_files = self.make is not None and self._folder is not None
        return self._config.limits.worlds_max if makes_files else 0

    @property
    def count_max(self) -> int:
        """Number of worlds that may be open: by the limits, and by the files of the process."""
        limits = self._config.limits
        if not self.in_files_max:
            return limits.worlds_max
        return min(limits.worlds_max, share_open_files(limits, self.in_files_max)[1] + 1)

    @property
    def room(self) -> int:
        """Number of worlds that may still be opened."""
        return max(self.count_max - len(self._open), 0)

    @property
    def is_open(self) -> bool:
        """Whether any world is open."""
        return bool(self._open)

    def find(self, name: str) -> Orchestrator | None:
        """Return the open world of a name; None if there is none."""
        return self._open.get(name)

    def is_used(self, name: str) -> bool:
        """Return whether a world has a name: open, not opened, or being created."""
        return name in self._open or name in self.unopened or name == self._being_made

    def all(self) -> list[tuple[str, Orchestrator]]:
        """Return `(name, world)` of every open world, sorted by name."""
        return sorted(self._open.items())

    async def _create(
        self, name: str, check: _Check | None, prepare: _Prepare | None
    ) -> Orchestrator:
        if name in self._open or self.is_fork(name):
            raise Problem("conflict", f"there is a {self.what} {name!r} already")
        if name in self.unopened:
            reason = "already, and it is not open; the operator has the reason"
            raise Problem("conflict", f"there is a {self.what} {name!r} {reason}")
        if check is not None:
            await check()
        if not self.room:
            raise Problem("unavailable", self._no_room)
        if self.first.config.read_only:
            raise Problem("forbidden", f"this server is read-only: it makes no {self.what}")
        if self.first.config.store.startswith(SCHEMES):
            where = "beside one that is in a file or in memory, not on a server"
            raise Problem("unavailable", f"worlds are made {where}")
        if self._folder is not None:
            _check_file(name, self.what)
            await to_thread.run_sync(make_folder, self._folder)
            await self._make_file(name, prepare)
            prepare = None
        return await self._enter(self._beside(name), prepare)

    @property
    def _no_room(self) -> str:
        return f"{self.count_max} {self.what}s are open, the most that this server opens"

    async def _make_file(self, name: str, prepare: _Prepare | None) -> None:
        """Make the log of a new world, prepared: a killed server leaves no world without owner.

        Raises:
            Problem: There is such a file, which is no world of this server.
        """
        made = self._beside(name)
        path = file_of(open_event_log(made.config.store))
        assert path is not None, "a world in a folder is in a file"
        try:
            with whole_log(path) as draft:
                async with Orchestrator(
                    made.domains, replace(made.config, store=_url(draft))
                ) as world:
                    if prepare is not None:
                        await prepare(world)
        except FileExistsError as error:
            raise Problem("conflict", f"there is a {self.what} {name!r} already") from error

    async def _enter(self, world: Orchestrator, prepare: _Prepare | None = None) -> Orchestrator:
        if not world.is_open:
            await world.__aenter__()
        if prepare is not None:
            try:
                await prepare(world)
            except BaseException:
                await world.close()
                raise
        name = world.config.world
        self._open[name] = world
        reopened = partial(self._tell_reopened, name)
        self._watches[name] = StoreWatch(
            world, self._config, on_reopened=reopened, on_exit=self._exit
        )
        for call in self.on_opened:
            call(name)
        return world

    def _tell_reopened(self, name: str) -> None:
        for call in (*self.on_reopened, *self.on_opened):
            call(name)

    def _exit(self, failure: StoreError) -> None:
        """End the server in order, as on SIGTERM."""
        self.fatal = failure
        signal.raise_signal(signal.SIGTERM)

    def _beside(self, name: str) -> Orchestrator:
        assert self.make is not None, "who makes worlds says of what"
        store = self.first.config.store
        if self._folder is not None:
            # As a URL, with its `?synchronous=`; the name is quoted for the file and once more.
            _, _, query = store.partition("?")
            store = _url(self._folder / f"{_stem(name)}{_ENDING}", query)
        return Orchestrator(self.make(name), replace(self.first.config, world=name, store=store))

    async def _continued(self, name: str) -> Orchestrator:
        """Make a world beside the first from its log, with the settings in it."""
        assert self.make is not None, "who makes worlds says of what"
        config = self._beside(name).config
        recorded = await to_thread.run_sync(recorded_world, config.store)
        if recorded is not None:
            config = recorded.continued_by(config)
        return Orchestrator(self.make(name), config)

    @property
    def _folder(self) -> Path | None:
        path = file_of(open_event_log(self.first.config.store))
        return None if path is None else path.with_suffix("")


def _url(path: Path, query: str = "") -> str:
    return f"sqlite:///{quoted(path)}" + (f"?{query}" if query else "")


def _stem(name: str) -> str:
    return quote(name, safe="")


def _check_name(name: str, what: str) -> None:
    """Refuse a name that cannot be a part of a path.

    Raises:
        Problem: The name is refused.
    """
    fault = path_part_fault(name)
    if fault:
        raise Problem("request_invalid", f"the name of a {what} {fault}")


def _check_file(name: str, what: str) -> None:
    count = len(_stem(name))
    if count > _FILE_CHARS_MAX:
        raise Problem(
            "request_invalid",
            f"the name of a {what} has at most {_FILE_CHARS_MAX} characters where it is kept in a "
            f"file, got {count}; letters beyond a to z count six and more",
        )
