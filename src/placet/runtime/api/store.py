"""The store of an open world: whether it can be written, and the way back after it has failed."""

from collections.abc import Awaitable, Callable

from placet.actors.ports import EventLog
from placet.runtime.world import WorldRuntime
from placet.schemas.errors import StoreError


class WorldStore:
    """The store of an open world: its durability, its failure, and the way to reopen the world.

    Args:
        world: The open world.
        reopen: Function that stops the world and opens it again from its log.
    """

    __slots__ = ("_reopen", "_world")

    def __init__(self, world: WorldRuntime, reopen: Callable[[], Awaitable[None]]) -> None:
        self._world = world
        self._reopen = reopen

    @property
    def scheme(self) -> str:
        """Scheme of the store's URL, such as `sqlite`, without its location."""
        return self._world.log.url.partition(":")[0]

    @property
    def log(self) -> EventLog:
        """The log of the world, to be read beside its writer; nothing else is to be called."""
        return self._world.log

    @property
    def durability(self) -> str:
        """Durability of acknowledged records: `memory`, `off`, `normal`, `local` or `full`."""
        return self._world.log.durability

    @property
    def failure(self) -> StoreError | None:
        """The failure that stopped the world; None while it runs, and after an orderly end."""
        return self._world.committer.failure

    async def wait_failed(self) -> StoreError:
        """Wait until the world stops because of a failure, and return the failure.

        If the world is closed in order, this never returns.
        """
        self._world.home.require()
        await self._world.failed.wait()
        assert self.failure is not None, "a world fails for a reason"
        return self.failure

    async def check_writable(self) -> None:
        """Check by one durable write that the world still decides and its store can be written.

        A store that cannot be written stops the world. A world that is open read-only proves that
        its store can be read.

        Raises:
            ClosedError, StoreError: The world is closed, has failed, or fails now.
        """
        self._world.home.require()
        await self._world.check_writable()

    async def reopen(self) -> None:
        """Stop the world, and open it again from its log, as a restart of the process would.

        For a world whose store has failed, once the store may work again. A batch without an answer
        is in the log or not: submit it again with its req_ids. Handles, observers, policies and the
        host's executors belong to the stopped world, as does this object: create them again.

        Raises:
            InUseError: Another process writes the log by now.
            StoreError: The store cannot be opened, or is in memory and has lost the log; the world
                stays stopped, and this may be called again.
        """
        await self._reopen()
