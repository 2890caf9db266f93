"""Between deciding and telling: a group is durable before anybody hears of it.

While group k is written in a thread, the kernel decides group k+1; groups that wait are written
together. Answers without a record of their own (refusals, dry runs, reads) queue up behind the
groups they were given after. A failed write stops the world: there is no retry on the same handle.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import anyio
from anyio import to_thread

from placet.actors.counters import Counters
from placet.actors.ports import Clock, EventLog
from placet.schemas.effect import Effect
from placet.schemas.errors import StoreError
from placet.schemas.record import LogGroup

Reply: TypeAlias = tuple["asyncio.Future[Any]", object]


class Commit:
    """What becomes visible together.

    Attributes:
        group: Records to write; None where there are none.
        replies: Futures and what they resolve to once all before is durable.
        effects: To be dispatched then.
    """

    __slots__ = ("effects", "group", "replies")

    def __init__(
        self, group: LogGroup | None, replies: Sequence[Reply], effects: Sequence[Effect] = ()
    ) -> None:
        self.group = group
        self.replies = replies
        self.effects = effects


class Committer:
    """Writes groups in order and releases what waited for them.

    Attributes:
        durable_seq: Everything up to here is durable.
        durable_records: Likewise, in records.
        failure: Why the world stopped; None while it runs.
    """

    def __init__(
        self,
        log: EventLog,
        epoch: int,
        clock: Clock,
        counters: Counters,
        in_flight_max: int,
        on_durable: Callable[[Commit], None],
    ) -> None:
        self._log = log
        self._epoch = epoch
        self._clock = clock
        self._counters = counters
        self._in_flight_max = in_flight_max
        self._on_durable = on_durable
        self._waiting: deque[Commit] = deque()
        self._is_writing = False
        self._wake = anyio.Event()
        self._room = anyio.Event()
        self._limiter = anyio.CapacityLimiter(1)
        self.durable_seq = 0
        self.durable_records = 0
        self.failure: StoreError | None = None

    @property
    def durability(self) -> str:
        """The level at which the log keeps what it acknowledges."""
        return self._log.durability

    def begin(self, seq: int, records: int) -> None:
        """Take over what was durable before."""
        self.durable_seq, self.durable_records = seq, records

    def offer(self, commit: Commit) -> None:
        """Take a decision; it is told once it is durable. Never blocks, see `room`."""
        if self.failure is not None:
            _fail(commit, self.failure)
            return
        idle = not self._waiting and not self._is_writing
        if idle and (commit.group is None or not self._log.is_blocking):
            self._write_now(commit)
            return
        self._waiting.append(commit)
        self._wake.set()

    async def room(self) -> None:
        """Wait until fewer than `in_flight_max` groups wait to be written."""
        while len(self._waiting) >= self._in_flight_max and self.failure is None:
            self._room = anyio.Event()
            await self._room.wait()

    async def run(self) -> None:
        """Write what waits, all of it at once, until canceled."""
        while self.failure is None:
            if not self._waiting:
                self._wake = anyio.Event()
                await self._wake.wait()
            commits = list(self._waiting)
            self._waiting.clear()
            await self._write(commits)
            self._room.set()

    async def flush(self) -> None:
        """Wait until everything offered so far is durable, or the world has failed."""
        while (self._waiting or self._is_writing) and self.failure is None:
            done = asyncio.get_running_loop().create_future()
            self.offer(Commit(None, [(done, None)]))
            try:
                await done
            except StoreError:
                return

    def fail(self, error: StoreError) -> None:
        """Stop the world: nothing more is written, and everybody who waits is told why."""
        if self.failure is None:
            self.failure = error
        for commit in self._waiting:
            _fail(commit, self.failure)
        self._waiting.clear()
        self._room.set()
        self._wake.set()

    def _write_now(self, commit: Commit) -> None:
        if commit.group is not None:
            started_ns = self._clock.monotonic_ns()
            try:
                self._log.append(commit.group, self._epoch)
            except StoreError as error:
                _fail(commit, error)
                self.fail(error)
                return
            self._counters.observe_commit((self._clock.monotonic_ns() - started_ns) / 1e9)
        self._release(commit)

    async def _write(self, commits: list[Commit]) -> None:
        group = _joined([commit.group for commit in commits if commit.group is not None])
        if group is not None:
            started_ns = self._clock.monotonic_ns()
            self._is_writing = True
            try:
                append = partial(self._log.append, group, self._epoch)
                await to_thread.run_sync(append, limiter=self._limiter)
            except StoreError as error:
                for commit in commits:
                    _fail(commit, error)
                self.fail(error)
                raise
            finally:
                self._is_writing = False
            self._counters.observe_commit((self._clock.monotonic_ns() - started_ns) / 1e9)
        for commit in commits:
            self._release(commit)

    def _release(self, commit: Commit) -> None:
        group = commit.group
        if group is not None:
            self.durable_seq = group.seq
            self.durable_records = group.first_record + len(group.records)
        for future, result in commit.replies:
            if not future.done():
                if isinstance(result, BaseException):
                    future.set_exception(result)
                else:
                    future.set_result(result)
        self._on_durable(commit)


def _joined(groups: list[LogGroup]) -> LogGroup | None:
    if len(groups) < 2:
        return groups[0] if groups else None
    records = [record for group in groups for record in group.records]
    return LogGroup(groups[0].first_record, groups[0].seq_before, groups[-1].seq, records)


def _fail(commit: Commit, error: StoreError) -> None:
    for future, _ in commit.replies:
        if not future.done():
            future.set_exception(error)
