"""`wait`: who comes under load stands in line, first come, first in, and nobody overtakes.

The line is a list of promises, not of tasks: whoever posted holds a future, and it costs one timer.
It is bounded by count, by bytes and by time. What leaves the line early, withdrawn or timed out,
leaves nothing behind and hands its turn on.

    Source: the share of one submitter is the dynamic threshold of Choudhury and Hahne, "Dynamic
    queue length thresholds for shared-memory packet switches", 1998, with alpha = 1.
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

from placet.actors.door import Load, timed_out
from placet.actors.mailbox import MailboxFull
from placet.actors.ports import Clock
from placet.actors.queue import BatchQueue, Waiting
from placet.schemas.identity import OPERATOR
from placet.schemas.limits import SECOND_NS, Limits
from placet.schemas.refusal import Refusal, RefusalCode
from placet.schemas.verdict import Verdict

_MS_NS = 1_000_000
_LOOK_AGAIN_S = 0.05
"""When to look again, at the earliest, where nothing will be taken from the queue."""


class _Place(NamedTuple):
    waiting: Waiting
    deadline: asyncio.TimerHandle


class WaitingQueue(BatchQueue):
    """A queue with a line before it.

    Args:
        limits: Bounds of the queue and of the line.
        clock: Says when it is.
        judge: Says what stands against one more batch in this queue, now.
        refuse: Makes the answer to a refusal.
    """

    __slots__ = (
        "_clock",
        "_full",
        "_judge",
        "_limits",
        "_line",
        "_line_bytes",
        "_refuse",
        "_shares",
        "_timer",
    )

    def __init__(
        self,
        limits: Limits,
        clock: Clock,
        judge: Callable[[BatchQueue], Load | None],
        refuse: Callable[[Refusal], Verdict],
    ) -> None:
        super().__init__(limits.mailbox_batches_max, limits.mailbox_bytes_max)
        self._limits = limits
        self._clock = clock
        self._judge = judge
        self._refuse = refuse
        self._line: OrderedDict[asyncio.Future[Any], _Place] = OrderedDict()
        self._line_bytes = 0
        self._shares: Counter[str] = Counter()
        self._timer: asyncio.TimerHandle | None = None
        self._full = _no_place("line_batches", limits.line_batches_max, limits.line_batches_max)

    def turn_away(self, load: Load, raw: object, submitter: str) -> Load | None:
        """Refuse at once only where the line is full, or the submitter's share of it."""
        limits, length = self._limits, len(self._line)
        if length >= limits.line_batches_max:
            return self._full
        share, free = self._shares[submitter], limits.line_batches_max - length
        if share >= free and submitter != OPERATOR:
            # At most as many as it leaves free: the other half of the line is for the others.
            return _no_place("line_batches_of_submitter", share, free)
        return None

    def place(self, waiting: Waiting, load: Load) -> Load | None:
        """Put a batch at the end of the line."""
        submitter, size = waiting.batch.submitter, len(waiting.batch.encoded)
        full = self.turn_away(load, None, submitter)
        if full is not None:
            return full
        if self._line and self._line_bytes + size > self._limits.line_bytes_max:
            value = self._line_bytes + size
            return _no_place("line_bytes", value, self._limits.line_bytes_max)
        reply = waiting.reply
        loop = asyncio.get_running_loop()
        deadline = loop.call_later(self._patience_ns(waiting) / SECOND_NS, self._expire, reply)
        self._line[reply] = _Place(waiting, deadline)
        self._line_bytes += size
        self._shares[submitter] += 1
        reply.add_done_callback(self._withdrawn)
        self._look_again(load)
        return None

    def post_nowait(self, message: Waiting, size: int = 0) -> None:
        """Put a batch into the queue, unless others stand in line for it.

        Raises:
            MailboxFull: It would hold more than it may, or there is a line.
        """
        if self._line:
            raise MailboxFull("mailbox_batches", len(self), self._count_max)
        super().post_nowait(message, size)

    def take(
        self, count_max: int, enough: Callable[[Waiting], bool] | None = None
    ) -> list[Waiting]:
        """Take the oldest batches, and let in as many from the line."""
        taken = super().take(count_max, enough)
        if self._line:
            self.let_in()
        return taken

    def take_all(self) -> list[Waiting]:
        """Take every batch, those in line too."""
        line = [place.waiting for place in self._line.values()]
        for reply in list(self._line):
            self._leave(reply)
        return [*super().take_all(), *line]

    def let_in(self) -> None:
        """Let in who came first, and the next, as long as nothing stands against it."""
        line = self._line
        while line:
            reply = next(iter(line))
            waiting = line[reply].waiting
            if reply.done():  # withdrawn a moment ago
                self._leave(reply)
                continue
            load = self._judge(self)
            if load is not None:
                self._look_again(load)
                return
            try:
                super().post_nowait(waiting, len(waiting.batch.encoded))
            except MailboxFull:  # by bytes: it will be asked again when something is taken
                return
            self._leave(reply)
            waiting.queued_ns = self._clock.monotonic_ns()

    @property
    def in_line(self) -> int:
        """How many stand in line."""
        return len(self._line)

    def replies(self) -> list[asyncio.Future[Any]]:
        """Give the replies of all who wait, in line too."""
        return [*super().replies(), *self._line]

    def _patience_ns(self, waiting: Waiting) -> int:
        valid_for_ns = waiting.batch.valid_for_ns
        return self._limits.line_ms_max * _MS_NS if valid_for_ns is None else valid_for_ns

    def _look_again(self, load: Load) -> None:
        """Set the line's one timer where the queue is empty: no `take` will let anybody in."""
        if self._timer is None and not len(self):
            delay_s = max(load.clears_ns / SECOND_NS, _LOOK_AGAIN_S)
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self.let_in()

    def _expire(self, reply: "asyncio.Future[Any]") -> None:
        waiting = self._line[reply].waiting
        self._leave(reply)
        if not reply.done():  # else withdrawn in the same moment
            waited_ns = self._clock.monotonic_ns() - waiting.since_ns
            reply.set_result(self._refuse(timed_out(waited_ns, self._patience_ns(waiting))))
        self.let_in()

    def _withdrawn(self, reply: "asyncio.Future[Any]") -> None:
        if reply in self._line:
            self._leave(reply)
            self.let_in()

    def _leave(self, reply: "asyncio.Future[Any]") -> None:
        waiting, deadline = self._line.pop(reply)
        deadline.cancel()
        reply.remove_done_callback(self._withdrawn)
        self._line_bytes -= len(waiting.batch.encoded)
        submitter = waiting.batch.submitter
        self._shares[submitter] -= 1
        if not self._shares[submitter]:
            del self._shares[submitter]
        if not self._line and self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _no_place(signal: str, value: int, limit: int) -> Load:
    return Load(RefusalCode.QUEUE_FULL, signal, value, limit)
