"""A standby: it knows the world already, and opens it the moment its writer is gone.

It folds the log while the writer appends, and tries to take the fence in between. When the fence is
free, only a few records remain to fold, whatever the length of the log and the size of the state.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import anyio
from anyio import to_thread

from placet.actors.ports import EventLog
from placet.kernel.log.replay import Replayer
from placet.schemas.errors import StoreError
from placet.stores.append_rules import NoWorldError
from placet.stores.snapshots.recovery import Recovery, read_on, recover
from placet.stores.url import fence_of

LOOK_SECONDS: Final = 0.1
"""How long to wait between two looks: the fence is asked for, and the news is folded."""


@dataclass(slots=True)
class Standby:
    """A process that waits to become the writer of a log, and replays the log meanwhile.

    Attributes:
        log: The log.
        recovery: The world as far as it was replayed; None before the first replay.
        failure: The error of the last `look`; None if there was none. A database server that is
            restarted or fails over is unreachable for a while.
    """

    log: EventLog
    recovery: Recovery | None = None
    failure: StoreError | None = None

    def look(self) -> bool:
        """Replay the new records, and try to become the writer; blocking.

        Returns:
            Whether this process is the writer of the log now.

        Raises:
            StoreError: The store cannot tell when its writer is gone.
        """
        fence = fence_of(self.log)
        if fence is None:
            raise StoreError(
                f"cannot stand by for {self.log.url}: opening this store shuts out its writer, so "
                "a standby cannot wait for it; a standby needs a store such as "
                "postgresql://user@host/database?world=town",
                store=self.log.url,
            )
        try:
            is_taken = fence.try_take()
            self.fold()
            self.failure = None
        except StoreError as error:
            fence.release()
            # The lost server may have had records that its replacement lacks: fold anew.
            self.recovery, self.failure = None, error
            return False
        return is_taken

    def fold(self) -> Recovery:
        """Replay the new records, or the whole log if needed, and return the replayed world.

        Raises:
            StoreError: The log cannot be read, or is inconsistent.
        """
        past = None if self.recovery is None else self.recovery.past
        if past is None or self.log.start().record > past.journal.count:
            # The log was compacted beyond the folded records: a snapshot holds the rest.
            self.recovery = self._started()
            return self.recovery
        assert self.recovery is not None, "it has a past"
        for _, data in read_on(self.log, past.journal.count):
            past.apply(data)
            self.recovery.folded += 1
        self.recovery.start = self.log.start()
        return self.recovery

    def _started(self) -> Recovery:
        try:
            return recover(self.log)
        except NoWorldError:
            return Recovery(Replayer())


async def stand_by(log: EventLog, on_failure: Callable[[StoreError], None]) -> Standby:
    """Wait until this process may write a log; return the standby that has replayed the log.

    Args:
        log: The log; the caller opens it next.
        on_failure: Called with the error when the store cannot be read, once per outage.

    Raises:
        StoreError: The store cannot tell when its writer is gone.
    """
    standby = Standby(log)
    was_failing = False
    while not await to_thread.run_sync(partial(standby.look)):
        if standby.failure is not None and not was_failing:
            on_failure(standby.failure)
        was_failing = standby.failure is not None
        await anyio.sleep(LOOK_SECONDS)
    return standby
