"""Group commit: an append is durable before any answer of its decisions is released.

While append k is written in a thread, the kernel decides group k+1; appends that wait are written
together. Answers without a record (refusals, dry runs, queries) are queued behind the appends that
precede them. A failed write stops the world: there is no retry on the same handle.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias

import anyio
import msgspec
from anyio import to_thread

from placet.actors.metrics import Counters
from placet.actors.ports import Clock, EventLog
from placet.actors.queued_batch import QueuedBatch
from placet.schemas.effect import Effect
from placet.schemas.errors import StoreError
from placet.schemas.limits import SECOND_NS
from placet.schemas.log.record import GENESIS, LogAppend, record_hash
from placet.schemas.verdict import Verdict

Reply: TypeAlias = tuple[asyncio.Future[Any], object]
"""A future, and the result or the exception that it gets."""

IN_FLIGHT_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes of the records that wait for the store; the next group is decided when they are written."""

Decided: TypeAlias = tuple[QueuedBatch, Verdict]
"""A batch of the queue, and its verdict."""


def resolve(reply: asyncio.Future[Any], result: object) -> None:
    """Set the result of a future, or its exception if `result` is one; do nothing if it is done.

    A failure is reported once, by the world, so a future that is never awaited logs nothing.
    """
    if reply.done():
        return
    if isinstance(result, BaseException):
        reply.set_exception(result)
        reply.exception()  # else asyncio prints a trace for each that is never awaited
    else:
        reply.set_result(result)


class CycleOutput(msgspec.Struct, eq=False):
    """The results of one orchestrator cycle, released together once its records are durable.

    Attributes:
        append: Records to write; None where there are none.
        replies: Futures of commands and refused batches, with their results.
        effects: Effects to dispatch after the release.
        decided: Decided batches with their verdicts; released before `replies`.
        owed: The futures of all messages that the cycle took. Each must be answered, by this
            output or, where the cycle fails half way, by the failure.
    """

    append: LogAppend | None = None
    replies: list[Reply] = []
    effects: list[Effect] = []
    decided: list[Decided] = []
    owed: list[asyncio.Future[Any]] = []

    def fail(self, failure: BaseException) -> None:
        """Set the failure on the future of every message that the cycle took."""
        for reply in self.owed:
            resolve(reply, failure)

    @property
    def answers(self) -> list[Reply]:
        """All futures of the cycle, each with the result or exception to set: verdicts first."""
        verdicts = [(waiting.reply, verdict) for waiting, verdict in self.decided]
        return [*verdicts, *self.replies]


class Committer:
    """The writer of the log: writes appends in order, then releases the answers of each.

    Attributes:
        durable_seq: The highest durable seq.
        durable_records: The number of durable records.
        is_full: The number of waiting outputs has reached its limit; see `room`.
        failure: The reason why the world stopped; None while it runs.
    """

    def __init__(
        self,
        log: EventLog,
        epoch: int,
        clock: Clock,
        counters: Counters,
        in_flight_max: int,
        on_durable: Callable[[CycleOutput], None],
    ) -> None:
        self._log = log
        self._epoch = epoch
        self._clock = clock
        self._counters = counters
        self._in_flight_max = in_flight_max
        self._on_durable = on_durable
        # Outputs in the order of their decision; empty once `failure` is set. Bounded, because the
        # orchestrator waits in `room` before its next group while `is_full`.
        self._waiting: deque[CycleOutput] = deque()
        self._waiting_bytes = 0  # of the records in `_waiting`
        # True iff a thread appends to the log: until it returns, nothing is written here.
        self._is_writing = False
        self._wake = anyio.Event()
        self._room = anyio.Event()
        self._limiter = anyio.CapacityLimiter(1)
        self.durable_seq = 0
        self.durable_records = 0
        # `_tail` is the last durable record while that is not hashed; else `_head` is its hash.
        self._head = GENESIS
        self._tail: bytes | None = None
        self.is_full = False  # recomputed by `offer`; false once `run` has taken the outputs
        self.failure: StoreError | None = None

    def begin(self, seq: int, records: int, head: bytes = GENESIS) -> None:
        """Set the durable position from which writing continues, before the first append.

        Args:
            seq: The durable seq.
            records: Number of durable records.
            head: Hash of the last durable record.
        """
        self.durable_seq, self.durable_records = seq, records
        self._head, self._tail = head, None

    @property
    def head(self) -> bytes:
        """The hash of the last durable record, with which the log's hash chain ends."""
        if self._tail is not None:  # hashed when asked for, once: a record may have megabytes
            self._head, self._tail = record_hash(self._tail), None
        return self._head

    def position(self) -> tuple[int, int]:
        """Return the durable seq and the number of durable records."""
        return self.durable_seq, self.durable_records

    def offer(self, output: CycleOutput) -> None:
        """Queue the output of a cycle, which is released once durable. Never blocks; see `room`."""
        if self.failure is not None:
            _fail(output, self.failure)
            return
        # A write in this thread must not overtake one in the other thread, and an answer must not
        # overtake an append: either goes directly only if nothing is queued or being written.
        idle = not self._waiting and not self._is_writing
        if idle and (output.append is None or not self._log.is_blocking):
            self._write_now(output)
            return
        self._waiting.append(output)
        if output.append is not None:
            self._waiting_bytes += sum(map(len, output.append.records))
        self.is_full = (
            len(self._waiting) >= self._in_flight_max or self._waiting_bytes >= IN_FLIGHT_BYTES_MAX
        )
        self._wake.set()

    @property
    def waiting(self) -> int:
        """Number of queued outputs; outputs that are being written do not count."""
        return len(self._waiting)

    async def room(self) -> None:
        """Wait until `is_full` is false, or the world has failed."""
        while self.is_full and self.failure is None:
            self._room = anyio.Event()
            await self._room.wait()

    async def run(self) -> None:
        """Write the pending appends, all of them together, until canceled.

        Raises:
            StoreError: A write failed, here or in `offer`; the world has stopped.
        """
        while self.failure is None:
            if not self._waiting:
                self._wake = anyio.Event()
                await self._wake.wait()
            outputs = list(self._waiting)
            self._waiting.clear()
            self._waiting_bytes = 0
            self.is_full = False
            self._room.set()  # before the write, so that the kernel decides while it lasts
            await self._write(outputs)
        raise self.failure

    async def flush(self) -> None:
        """Wait until everything offered so far is durable, or the world has failed."""
        while (self._waiting or self._is_writing) and self.failure is None:
            done = asyncio.get_running_loop().create_future()
            # Output without records is released after every append offered before it.
            self.offer(CycleOutput(None, [(done, None)]))
            try:
                await done
            except StoreError:
                return

    async def check_writable(self) -> None:
        """Prove that the store can be written now; a fault stops the world, as for an append.

        Raises:
            StoreError: The store cannot be written, or the world has failed before.
        """
        if self.failure is not None:
            raise self.failure
        check = partial(self._log.check_writable, self._epoch)
        try:
            if self._log.is_blocking:
                await to_thread.run_sync(check, limiter=self._limiter)
            else:
                check()
        except StoreError as error:
            self.fail(error)
            raise

    def fail(self, error: StoreError) -> None:
        """Stop the world: write nothing more, and fail every pending answer with the reason."""
        self.failure = self.failure or error
        for output in self._waiting:
            _fail(output, self.failure)
        self._waiting.clear()
        self.is_full = False
        self._room.set()
        self._wake.set()

    def close(self) -> None:
        """Fail the answers that are still pending after a shutdown that exceeded its deadline."""
        if self._waiting:
            self.fail(
                StoreError(
                    f"the world was closed before {self._log.url} had written the queued appends; "
                    "open it again and ask `verdict_of`",
                    store=self._log.url,
                )
            )

    def _write_now(self, output: CycleOutput) -> None:
        if output.append is not None:
            started_ns = self._clock.monotonic_ns()
            try:
                self._log.append(output.append, self._epoch)
            except StoreError as error:
                self.fail(error)
                _fail(output, error)
                return
            self._counters.observe_commit((self._clock.monotonic_ns() - started_ns) / SECOND_NS)
        self._release(output)

    async def _write(self, outputs: list[CycleOutput]) -> None:
        append = _joined([output.append for output in outputs if output.append is not None])
        if append is not None:
            assert not self._is_writing, "one task writes the log"
            started_ns = self._clock.monotonic_ns()
            self._is_writing = True
            try:
                write = partial(self._log.append, append, self._epoch)
                await to_thread.run_sync(write, limiter=self._limiter)
            except BaseException as error:
                # A disk fault, a bug or a cancellation: each leaves the durable position unknown.
                self.fail(_store_error(error, self._log.url))
                for output in outputs:
                    _fail(output, self.failure)
                raise
            finally:
                self._is_writing = False
            self._counters.observe_commit((self._clock.monotonic_ns() - started_ns) / SECOND_NS)
        for output in outputs:
            self._release(output)

    def _release(self, output: CycleOutput) -> None:
        # The durable position moves before any answer is set: a read after an answer must find
        # its append below `durable_seq`. Subscribers come last, so a verdict never waits for them.
        append = output.append
        if append is not None:
            self.durable_seq = append.seq
            self.durable_records = append.first_record + len(append.records)
            self._tail = append.records[-1]
        if output.decided:
            for waiting, verdict in output.decided:
                if not waiting.reply.done():
                    waiting.reply.set_result(verdict)
            now_ns = self._clock.monotonic_ns()
            waits = [(now_ns - waiting.since_ns) / SECOND_NS for waiting, _ in output.decided]
            self._counters.observe_verdicts(waits)
        for future, result in output.replies:
            resolve(future, result)
        self._on_durable(output)


def _joined(appends: list[LogAppend]) -> LogAppend | None:
    if not appends:
        return None
    first, last = appends[0], appends[-1]
    if first is last:
        return first
    records = [record for append in appends for record in append.records]
    return LogAppend(first.first_record, first.seq_before, last.seq, records)


def _fail(output: CycleOutput, error: StoreError | None) -> None:
    assert error is not None, "output fails once the world has"
    for future, _ in output.answers:
        resolve(future, error)


def _store_error(error: BaseException, store: str) -> StoreError:
    if isinstance(error, StoreError):
        return error
    return StoreError(
        f"writing to {store} was interrupted by {error!r}, and it is unknown which appends are "
        "durable; open the log again and ask `verdict_of`",
        store=store,
    )
