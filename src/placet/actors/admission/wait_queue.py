"""`wait`.

Batches submitted under load go to a wait queue, from which submitters are served in turn.

Round-robin by submitter, each submitter's batches in order; no batch bypasses the wait queue. An
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
from placet.actors.committer import QueuedBatch
from placet.actors.mailbox import MailboxFull
from placet.actors.ports import Clock
from placet.schemas.batch import CheckedBatch
from placet.schemas.identity import OPERATOR
from placet.schemas.limits import SECOND_NS, Limits
from placet.schemas.refusal import RefusalCode

_Deadline: TypeAlias = "tuple[float, int, asyncio.Future[Any]]"

_GONE_MAX: Final = 64
_MS_NS = 1_000_000
_LOOK_AGAIN_S = 0.05
"""When to look again, at the earliest, where nothing will be taken from the queue."""


class WaitingQueue(BatchQueue):
    """A queue with a line before it.

    Args:
        limits: Bounds of the queue and of the line.
        clock: Says when it is.
    """

    __slots__ = (
        "_bell",
        "_bell_at",
        "_cleared",
        "_clock",
        "_deadlines",
        "_full",
        "_limits",
        "_line",
        "_line_bytes",
        "_monotonic_ns",
        "_on_done",
        "_patience_s",
        "_patient",
        "_places",
        "_timer",
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
        self._line = FairQueue()
        self._places: dict[asyncio.Future[Any], QueuedBatch] = {}
        self._on_done = self._withdrawn
        self._cleared: str | None = None  # who was found room since the line last grew
        self._line_bytes = 0
        # By `_time`, earliest first; those that have left are passed over. Who names no deadline
        # has as long as everybody else who names none, so those need no sorting.
        self._patience_s = limits.wait_queue_ms_max * _MS_NS / SECOND_NS
        self._patient: deque[_Deadline] = deque()
        self._deadlines: list[_Deadline] = []
        self._bell: asyncio.TimerHandle | None = None
        self._bell_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        places = limits.wait_queue_batches_max
        self._full = Overload(
            RefusalCode.QUEUE_FULL, "line_batches", places, places, is_for_all=True
        )

    def beyond_share(self, submitter: str) -> Overload | None:
        """Allow a submitter its share of the queue and more.

        The wait queue is shared and served in turn.
        """
        return None

    def screen(self, load: Overload, raw: object, submitter: str) -> Overload | None:
        """Refuse at once only where the line is full, or the submitter's share of it."""
        limits, length = self._limits, len(self._line)
        if length >= limits.wait_queue_batches_max:
            return self._full
        share, free = self._line.count_of(submitter), limits.wait_queue_batches_max - length
        if share >= free and submitter != OPERATOR:
            # At most as many as it leaves free: the other half of the line is for the others.
            return _no_place("line_batches_of_submitter", share, free)
        self._cleared = submitter
        return None

    def enqueue_under_load(self, waiting: QueuedBatch, load: Overload) -> Overload | None:
        """Put a batch into the line, behind those of its owner."""
        submitter, size = waiting.batch.submitter, len(waiting.batch.encoded)
        if self._cleared != submitter and (full := self.screen(load, None, submitter)):
            return full
        if self._places and self._line_bytes + size > self._limits.wait_queue_bytes_max:
            value = self._line_bytes + size
            return _no_place("line_bytes", value, self._limits.wait_queue_bytes_max)
        self._line.add(waiting)
        self._cleared = None
        self._line_bytes += size
        self._places[waiting.reply] = waiting
        waiting.reply.add_done_callback(self._on_done)
        self._set_deadline(waiting)
        if not (self._aside or self._lane):
            self._look_again(load)
        return None

    def post_nowait(self, message: QueuedBatch, size: int = 0) -> int:
        """Put a batch into the queue, unless others stand in line for it.

        Raises:
            MailboxFull: It would hold more than it may, or there is a line.
        """
        if self._places:
            raise MailboxFull("mailbox_batches", len(self), self._count_max)
        return super().post_nowait(message, size)

    def take(self, count_max: int, intents_max: int | None = None) -> list[QueuedBatch]:
        """Take batches in queue order, round-robin in a crowd.

        Admit as many from the wait queue.
        """
        taken = super().take(count_max, intents_max)
        if self._places:
            self.let_in()
        return taken

    def take_all(self) -> list[QueuedBatch]:
        """Take every batch, those in line too."""
        line = sorted(self._line, key=lambda one: one.number)
        for waiting in line:
            self._line.discard(waiting)
            self._forget(waiting)
        return [*super().take_all(), *line]

    def let_in(self) -> None:
        """Admit the next submitters from the wait queue, as long as no limit is exceeded."""
        line, places, now_ns = self._line, self._places, 0
        room = self._count_max - len(self._lane) - self._aside
        self._clear_away()
        while places and room > 0:  # else it will be asked again when something is taken
            waiting = line.peek()
            if waiting.reply.done():  # withdrawn a moment ago
                line.discard(waiting)
                self._forget(waiting)
                continue
            size = len(waiting.batch.encoded)
            if self._bytes + size > self._bytes_max and (self._aside or self._lane):
                return
            if not now_ns:  # judged once: within this moment only room is used up
                load, now_ns = (
                    self.admission.overload_of(self, waiting.batch.submitter),
                    self._monotonic_ns(),
                )
                if load is not None:
                    self._look_again(load)
                    return
            line.pop()
            self._forget(waiting)
            waiting.queued_ns = now_ns
            room -= 1
            if self._aside:
                self._turns.add(waiting)
                self._post_aside(size)
            else:
                super().post_nowait(waiting, size)

    @property
    def in_line(self) -> int:
        """How many stand in line."""
        return len(self._places)

    def batches(self) -> list[CheckedBatch]:
        """Return all that wait, in line too."""
        return [*super().batches(), *(one.batch for one in self._line if not one.reply.done())]

    def replies(self) -> list[asyncio.Future[Any]]:
        """Return the replies of all who wait, in line too."""
        return [*super().replies(), *self._places]

    def _patience_ns(self, waiting: QueuedBatch) -> int:
        valid_for_ns = waiting.batch.valid_for_ns
        return self._limits.wait_queue_ms_max * _MS_NS if valid_for_ns is None else valid_for_ns

    def _look_again(self, load: Overload) -> None:
        """Set the one timer of the wait queue when the queue is empty.

        Because then no `take` will admit any.
        """
        if self._timer is None and not len(self):
            delay_s = max(load.clears_ns / SECOND_NS, _LOOK_AGAIN_S)
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self.let_in()

    def _time(self) -> float:
        """Return the time that deadlines are counted in, seconds."""
        return asyncio.get_running_loop().time()

    def _set_deadline(self, waiting: QueuedBatch) -> None:
        valid_for_ns = waiting.batch.valid_for_ns
        if valid_for_ns is None:
            ends = self._time() + self._patience_s
            self._patient.append((ends, waiting.number, waiting.reply))
        else:
            ends = self._time() + valid_for_ns / SECOND_NS
            heappush(self._deadlines, (ends, waiting.number, waiting.reply))
        if self._bell is None or ends < self._bell_at:
            self._bell_at = ends
            self._ring_at(ends)

    def _clear_away(self) -> None:
        """Drop the deadlines of entries that have left.

        Amortized, when as many have left as remain.
        """
        places = self._places
        if len(self._patient) + len(self._deadlines) <= 2 * len(places) + _GONE_MAX:
            return
        self._patient = deque(one for one in self._patient if one[2] in places)
        self._deadlines = [one for one in self._deadlines if one[2] in places]
        heapify(self._deadlines)

    def _ring_at(self, ends: float) -> None:
        if self._bell is not None:
            self._bell.cancel()
        self._bell = asyncio.get_running_loop().call_at(ends, self._expire_due, ends)

    def _expire_due(self, now: float) -> None:
        """Answer those whose deadline has come, and set the bell for the next."""
        self._bell = None
        deadlines, patient, places = self._deadlines, self._patient, self._places
        now = max(now, self._time())
        while deadlines and (deadlines[0][0] <= now or deadlines[0][2] not in places):
            self._expire(heappop(deadlines)[2])
        while patient and (patient[0][0] <= now or patient[0][2] not in places):
            self._expire(patient.popleft()[2])
        ends = [queue[0][0] for queue in (deadlines, patient) if queue]
        if ends:
            self._bell_at = min(ends)
            self._ring_at(self._bell_at)
        self.let_in()

    def _expire(self, reply: "asyncio.Future[Any]") -> None:
        waiting = self._places.get(reply)
        if waiting is None:
            return
        self._line.discard(waiting)
        self._forget(waiting)
        if not waiting.reply.done():  # else withdrawn in the same moment
            waited_ns = self.waited_ns(waiting, self._clock.monotonic_ns())
            refusal = timed_out(waited_ns, self._patience_ns(waiting))
            waiting.reply.set_result(self.admission.refuse(refusal, waiting.batch.dry_run))

    def _withdrawn(self, reply: "asyncio.Future[Any]") -> None:
        waiting = self._places.get(reply)
        if waiting is not None:
            self._line.discard(waiting)
            self._forget(waiting)
            self.let_in()

    def _forget(self, waiting: QueuedBatch) -> None:
        """Remove the remains of an entry that has left the wait queue."""
        reply = waiting.reply
        self.cached_refusal = None
        del self._places[reply]
        reply.remove_done_callback(self._on_done)
        self._line_bytes -= len(waiting.batch.encoded)
        if not self._places:
            self._deadlines.clear()
            self._patient.clear()
            for timer in (self._timer, self._bell):
                if timer is not None:
                    timer.cancel()
            self._timer = self._bell = None


def _no_place(signal: str, value: int, limit: int) -> Overload:
    return Overload(RefusalCode.QUEUE_FULL, signal, value, limit)
