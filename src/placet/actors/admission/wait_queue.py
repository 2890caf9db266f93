"""The queue of `backpressure="wait"`: under load batches go to a wait queue in front of it.

The submitter with the fewest intents served is next, and each submitter's batches keep their
order; no batch bypasses the wait queue. An
entry is a future, not a task. The wait queue is bounded by count, bytes and time, and one timer
covers its earliest deadline. An entry that is canceled or times out frees its place at once.

    Source: the share of one submitter is the dynamic threshold of Choudhury and Hahne, "Dynamic
    queue length thresholds for shared-memory packet switches", 1998, with alpha = 1.
"""

import asyncio
from collections import deque
from heapq import heapify, heappop, heappush
from typing import Any, Final, TypeAlias

from placet.actors.admission.fair_queue import FairQueue
from placet.actors.admission.overload import Overload, timed_out
from placet.actors.admission.queue import BatchQueue
from placet.actors.mailbox import MailboxFull
from placet.actors.ports import Clock
from placet.actors.queued_batch import QueuedBatch
from placet.schemas.batch import CheckedBatch
from placet.schemas.identity import OPERATOR
from placet.schemas.limits import SECOND_NS, Limits
from placet.schemas.refusal import RefusalCode

_Deadline: TypeAlias = "tuple[float, int, asyncio.Future[Any]]"

_GONE_MAX: Final = 64
_MS_NS = 1_000_000
_RETRY_S_MIN = 0.05
"""The shortest delay before admission is retried while the queue is empty."""


class WaitingQueue(BatchQueue):
    """The queue of `backpressure="wait"`: a bounded wait queue takes batches under load.

    Args:
        limits: Bounds of the queue and of the wait queue.
        clock: Measures waits.
    """

    # Slots, because an object of more than 30 other fields takes 50 ns longer to post to.
    __slots__ = (
        "_by_reply",
        "_clock",
        "_deadline_at",
        "_deadline_timer",
        "_deadlines",
        "_default_deadlines",
        "_full",
        "_limits",
        "_monotonic_ns",
        "_on_done",
        "_retry_timer",
        "_screened",
        "_wait_s_max",
        "_waiters",
        "_waiters_bytes",
    )

    def __init__(
        self,
        limits: Limits,
        clock: Clock,
    ) -> None:
        super().__init__(limits)
        self._limits = limits
        self._clock = clock
        self._monotonic_ns = clock.monotonic_ns
        self._waiters = FairQueue()
        self._by_reply: dict[asyncio.Future[Any], QueuedBatch] = {}
        self._on_done = self._on_canceled
        self._screened: str | None = None  # screened, and no batch enqueued since
        self._waiters_bytes = 0
        # Both by `_time`, earliest first; entries that have left are skipped. Batches without a
        # deadline all wait equally long, so they arrive in order and need no heap.
        self._wait_s_max = limits.wait_queue_ms_max * _MS_NS / SECOND_NS
        self._default_deadlines: deque[_Deadline] = deque()
        self._deadlines: list[_Deadline] = []
        self._deadline_timer: asyncio.TimerHandle | None = None
        self._deadline_at = 0.0
        self._retry_timer: asyncio.TimerHandle | None = None
        places = limits.wait_queue_batches_max
        self._full = Overload(
            RefusalCode.QUEUE_FULL, "wait_queue_batches", places, places, is_for_all=True
        )

    def beyond_share(self, submitter: str) -> Overload | None:
        """Return None: shares apply to the wait queue, which serves submitters fairly."""
        return None

    def screen(self, load: Overload, raw: object, submitter: str) -> Overload | None:
        """Return the load signal for which a batch is refused unchecked, or None.

        It is refused if the wait queue is full, or its submitter has used its share of it.
        """
        limits, length = self._limits, len(self._waiters)
        if length >= limits.wait_queue_batches_max:
            return self._full
        share, free = self._waiters.count_of(submitter), limits.wait_queue_batches_max - length
        if share >= free and submitter != OPERATOR:
            # At most as many as it leaves free, so one submitter fills no more than half.
            return _full_signal("wait_queue_batches_of_submitter", share, free)
        self._screened = submitter
        return None

    def enqueue_under_load(self, waiting: QueuedBatch, load: Overload) -> Overload | None:
        """Add a batch to the wait queue, behind the others of its submitter.

        Return None if it was added. If the wait queue is full, or the submitter has used its share,
        return the load signal that states why the batch is refused.
        """
        submitter, size = waiting.batch.submitter, len(waiting.batch.encoded)
        if self._screened != submitter and (full := self.screen(load, None, submitter)):
            return full
        if self._by_reply and self._waiters_bytes + size > self._limits.wait_queue_bytes_max:
            value = self._waiters_bytes + size
            return _full_signal("wait_queue_bytes", value, self._limits.wait_queue_bytes_max)
        self._waiters.add(waiting)
        self._screened = None
        self._waiters_bytes += size
        self._by_reply[waiting.reply] = waiting
        waiting.reply.add_done_callback(self._on_done)
        self._set_deadline(waiting)
        if not (self._aside or self._lane):
            self._schedule_retry(load)
        return None

    def post_nowait(self, message: QueuedBatch, size: int = 0) -> int:
        """Enqueue a batch if the wait queue is empty; return the number of batches before it.

        Raises:
            MailboxFull: The queue is full, or the wait queue is not empty.
        """
        if self._by_reply:
            raise MailboxFull("mailbox_batches", len(self), self._count_max)
        return super().post_nowait(message, size)

    def take(self, count_max: int, intents_max: int | None = None) -> list[QueuedBatch]:
        """Remove and return batches as `BatchQueue.take`; refill the queue from the wait queue.

        Batches move from the wait queue until the queue is full or a load limit is exceeded; they
        are not returned by this call.
        """
        taken = super().take(count_max, intents_max)
        if self._by_reply:
            self.admit_waiters()
        return taken

    def take_all(self) -> list[QueuedBatch]:
        """Remove and return every batch, including the wait queue."""
        line = sorted(self._waiters, key=lambda waiting: waiting.number)
        for waiting in line:
            self._waiters.discard(waiting)
            self._forget(waiting)
        return [*super().take_all(), *line]

    def admit_waiters(self) -> None:
        """Move batches from the wait queue into the queue while no limit is exceeded."""
        line, places, now_ns = self._waiters, self._by_reply, 0
        room = self._count_max - len(self._lane) - self._aside
        self._clear_away()
        while places and room > 0:  # else the next `take` admits them
            waiting = line.peek()
            if waiting.reply.done():  # canceled; its callback is about to run
                line.discard(waiting)
                self._forget(waiting)
                continue
            size = len(waiting.batch.encoded)
            if self._bytes + size > self._bytes_max and (self._aside or self._lane):
                return
            if not now_ns:  # judged once: until the end of this loop only room changes
                load, now_ns = (
                    self.admission.overload_of(self, waiting.batch.submitter),
                    self._monotonic_ns(),
                )
                if load is not None:
                    self._schedule_retry(load)
                    return
            line.pop()
            self._forget(waiting)
            waiting.queued_ns = now_ns
            room -= 1
            if self._aside:
                self._fair.add(waiting)
                self._post_aside(size)
            else:
                super().post_nowait(waiting, size)

    @property
    def waiters_count(self) -> int:
        """Number of batches in the wait queue."""
        return len(self._by_reply)

    def batches(self) -> list[CheckedBatch]:
        """Return all batches that were not canceled, including the wait queue."""
        return [
            *super().batches(),
            *(waiting.batch for waiting in self._waiters if not waiting.reply.done()),
        ]

    def replies(self) -> list[asyncio.Future[Any]]:
        """Return the futures of all queued batches, including the wait queue."""
        return [*super().replies(), *self._by_reply]

    def _wait_ns_max(self, waiting: QueuedBatch) -> int:
        valid_for_ns = waiting.batch.valid_for_ns
        return self._limits.wait_queue_ms_max * _MS_NS if valid_for_ns is None else valid_for_ns

    def _schedule_retry(self, load: Overload) -> None:
        """Schedule another admission if the queue is empty: then no `take` will admit batches."""
        if self._retry_timer is None and not len(self):
            delay_s = max(load.clears_ns / SECOND_NS, _RETRY_S_MIN)
            self._retry_timer = asyncio.get_running_loop().call_later(delay_s, self._retry)

    def _retry(self) -> None:
        self._retry_timer = None
        self.admit_waiters()

    def _time(self) -> float:
        """Return the present time on the clock of deadlines, seconds."""
        return asyncio.get_running_loop().time()

    def _set_deadline(self, waiting: QueuedBatch) -> None:
        valid_for_ns = waiting.batch.valid_for_ns
        if valid_for_ns is None:
            ends = self._time() + self._wait_s_max
            self._default_deadlines.append((ends, waiting.number, waiting.reply))
        else:
            ends = self._time() + valid_for_ns / SECOND_NS
            heappush(self._deadlines, (ends, waiting.number, waiting.reply))
        if self._deadline_timer is None or ends < self._deadline_at:
            self._deadline_at = ends
            self._schedule_expiry(ends)

    def _clear_away(self) -> None:
        """Drop the deadlines of entries that have left, once as many have left as remain."""
        places = self._by_reply
        if len(self._default_deadlines) + len(self._deadlines) <= 2 * len(places) + _GONE_MAX:
            return
        self._default_deadlines = deque(
            entry for entry in self._default_deadlines if entry[2] in places
        )
        self._deadlines = [entry for entry in self._deadlines if entry[2] in places]
        heapify(self._deadlines)

    def _schedule_expiry(self, ends: float) -> None:
        if self._deadline_timer is not None:
            self._deadline_timer.cancel()
        self._deadline_timer = asyncio.get_running_loop().call_at(ends, self._expire_due, ends)

    def _expire_due(self, now: float) -> None:
        """Refuse the batches whose deadline has passed, and schedule the next expiry."""
        self._deadline_timer = None
        deadlines, patient, places = self._deadlines, self._default_deadlines, self._by_reply
        now = max(now, self._time())
        while deadlines and (deadlines[0][0] <= now or deadlines[0][2] not in places):
            self._expire(heappop(deadlines)[2])
        while patient and (patient[0][0] <= now or patient[0][2] not in places):
            self._expire(patient.popleft()[2])
        ends = [queue[0][0] for queue in (deadlines, patient) if queue]
        if ends:
            self._deadline_at = min(ends)
            self._schedule_expiry(self._deadline_at)
        self.admit_waiters()

    def _expire(self, reply: "asyncio.Future[Any]") -> None:
        waiting = self._by_reply.get(reply)
        if waiting is None:
            return
        self._waiters.discard(waiting)
        self._forget(waiting)
        if not waiting.reply.done():  # else canceled at the same moment
            waited_ns = self.waited_ns(waiting, self._clock.monotonic_ns())
            refusal = timed_out(waited_ns, self._wait_ns_max(waiting))
            waiting.reply.set_result(self.admission.refuse(refusal, waiting.batch.dry_run))

    def _on_canceled(self, reply: "asyncio.Future[Any]") -> None:
        waiting = self._by_reply.get(reply)
        if waiting is not None:
            self._waiters.discard(waiting)
            self._forget(waiting)
            self.admit_waiters()

    def _forget(self, waiting: QueuedBatch) -> None:
        """Remove the remains of an entry that has left the wait queue."""
        reply = waiting.reply
        self.cached_refusal = None
        del self._by_reply[reply]
        reply.remove_done_callback(self._on_done)
        self._waiters_bytes -= len(waiting.batch.encoded)
        if not self._by_reply:
            self._deadlines.clear()
            self._default_deadlines.clear()
            for timer in (self._retry_timer, self._deadline_timer):
                if timer is not None:
                    timer.cancel()
            self._retry_timer = self._deadline_timer = None


def _full_signal(signal: str, value: int, limit: int) -> Overload:
    return Overload(RefusalCode.QUEUE_FULL, signal, value, limit)
