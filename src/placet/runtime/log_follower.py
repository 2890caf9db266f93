"""Follows a log that another process writes, in a world that is open read-only."""

from collections.abc import Callable
from contextlib import closing
from itertools import islice
from typing import Final

import anyio
from anyio import to_thread

from placet.actors.ports import EventLog, HostClock
from placet.kernel.log.replay import Replayer
from placet.schemas.log.record import LogAppend
from placet.stores.snapshots.recovery import read_on

LOOK_SECONDS: Final = 0.1
"""Pause between two looks at a log that has not grown."""

_CHUNK_RECORDS: Final = 64
"""Records folded in one cycle of the event loop."""


class LogFollower:
    """A reader that keeps a read-only world at the state of the log that another process writes.

    Args:
        log: The log; it is only read.
        past: The replayed state, which the world's kernel shares.
        clock: Clock of the world; it is advanced to the time of the records.
    """

    def __init__(self, log: EventLog, past: Replayer, clock: HostClock) -> None:
        self._log = log
        self._past = past
        self._clock = clock

    async def run(self, on_group: Callable[[LogAppend], None]) -> None:
        """Apply records to the world as they are appended, until canceled.

        Args:
            on_group: Called with new records once they are applied.

        Raises:
            StoreError: The log cannot be read, is damaged, or was compacted beyond this reader.
        """
        while True:
            chunk = await to_thread.run_sync(self._chunk)
            if chunk:
                on_group(self._fold(chunk))
            else:
                await anyio.sleep(LOOK_SECONDS)

    def _chunk(self) -> list[bytes]:
        place = self._past.journal.count
        if self._log.count() <= place:
            return []
        with closing(read_on(self._log, place)) as reading:
            return [data for _, data in islice(reading, _CHUNK_RECORDS)]

    def _fold(self, chunk: list[bytes]) -> LogAppend:
        past = self._past
        first_record, seq_before = past.journal.count, past.ledger.seq
        for data in chunk:
            past.apply(data)
        self._clock.advance(past.ledger.now_ns - self._clock.now_ns())
        return LogAppend(first_record, seq_before, past.ledger.seq, tuple(chunk))
