"""Event logs for tests: one that writes when the test releases it, and one that fails."""

import asyncio
import time
from collections.abc import Iterator

from placet.schemas.log.record import LogAppend, LogStart
from placet.stores.memory import MemoryEventLog
from tests.actors.virtual_time import THREAD_SECONDS_MAX, Gate


class SlowLog:
    """A log on a disk of configurable speed: after `hold`, each append waits for `let_go`.

    Attributes:
        appended: The groups that were handed in, also those that failed.
        failure: Raised by the appends from here on.
    """

    durability = "full"
    url = "slow://"

    def __init__(self, *, is_blocking: bool = True) -> None:
        self.is_blocking = is_blocking
        self.appended: list[LogAppend] = []
        self.failure: BaseException | None = None
        self.calls: list[str] = []
        self._kept = MemoryEventLog()
        self._is_held = False
        self._gate = Gate()
        self._told = 0

    def hold(self) -> None:
        """Block appends after they have begun."""
        self._is_held = True

    async def began(self) -> None:
        """Wait until the next held append has begun, without advancing virtual time."""
        self._told += 1
        latest = time.monotonic() + THREAD_SECONDS_MAX
        while self._gate.begun < self._told:
            assert time.monotonic() < latest, "no append began"
            await asyncio.sleep(0)

    def let_go(self, count: int = 1) -> None:
        """Release a number of held appends."""
        self._gate.let_go(count)

    def release(self) -> None:
        """Release every held append, and hold no more."""
        self._is_held = False
        self.let_go()

    def append(self, append: LogAppend, epoch: int) -> None:
        self.calls.append("append")
        self.appended.append(append)
        if self._is_held:
            self._gate.stand()
        if self.failure is not None:
            raise self.failure
        self._kept.append(append, epoch)

    def check_writable(self, epoch: int) -> None:
        if self.failure is not None:
            raise self.failure

    def open(self, *, take_over: bool = False) -> int:
        return self._kept.open()

    def read(self, from_record: int = 0) -> Iterator[tuple[int, bytes]]:
        return self._kept.read(from_record)

    def find_seq(self, seq: int) -> int:
        return self._kept.find_seq(seq)

    def start(self) -> LogStart:
        return self._kept.start()

    def compact(self, before_record: int, epoch: int, *, appends_max: int) -> bool:
        return self._kept.compact(before_record, epoch, appends_max=appends_max)

    def count(self) -> int:
        return self._kept.count()

    def size_bytes(self) -> int:
        return self._kept.size_bytes()

    def close(self) -> None:
        self.calls.append("close")
