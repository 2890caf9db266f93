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
from placet.runtime.snapshots.recovery import Recovery, read_on, recover
from placet.runtime.stores.append_rules import NoWorldError
from placet.runtime.stores.url import fence_of
from placet.schemas.errors import StoreError

LOOK_SECONDS: Final = 0.1
"""How long to wait between two looks: the fence is asked for, and the news is folded."""


@dataclass(slots=True)
class Standby:
    """The progress of a standby.

    Attributes:
        log: Which.
        recovery: The world as far as it was folded; None until it was begun.
        failure: Why the last look failed; None if it did not. A server that is restarted, or a
            primary database that gives way to its standby, is away for a while.
    """

    log: EventLog
    recovery: Recovery | None = None
    failure: StoreError | None = None

    def look(self) -> bool:
        """Try to take the writer's fence, and fold the new records. It blocks its thread.

        Returns:
            Whether this process holds the fence, and so is the writer now.

        Raises:
            StoreError: The store has no fence to wait for.
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
            # What was folded may be gone with the server that showed it: begin anew.
            self.recovery, self.failure = None, error
            return False
        return is_taken

    def fold(self) -> Recovery:
        """Fold the new records, from the beginning if there is a usable start.

        Raises:
            StoreError: The log cannot be read, or does not hold together.
        """
        past = None if self.recovery is None else self.recovery.past
        if past is None or self.log.start().record > past.journal.count:
            # It was cut beyond us while we were not looking: what came between is in a snapshot.
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
    """Wait until the fence of a log is ours, and know its world by then.

    Args:
        log: Which; its `open` is the caller's next step.
        on_failure: Told when the store cannot be read, once until it can be again.

    Raises:
        StoreError: The store has no fence to wait for.
    """
    standby = Standby(log)
    was_failing = False
    while not await to_thread.run_sync(partial(standby.look)):
        if standby.failure is not None and not was_failing:
            on_failure(standby.failure)
        was_failing = standby.failure is not None
        await anyio.sleep(LOOK_SECONDS)
    return standby
