"""The orchestrator's queue: its messages, the order of batches, and the overflow policy under load.

With few queued batches the queue is a deque. When more are queued than a few cycles take, or half
of the limit, they are served fairly by owner (`fair_queue.py`), unless every owner has exactly
one of equal size: those stay in order of submission. When half of the limit is queued, no owner may
have more queued than remains free. All of this ends when the crowd is gone, so fairness costs
nothing without one.

Each overflow policy (`backpressure`) has its queue: `reject` here, `wait` in `wait_queue.py`,
`dilate` in `time_scaled_queue.py`, `shed_lowest` in `shed_queue.py`. Below every limit all four
behave alike.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol, TypeAlias

from placet.actors.admission.fair_queue import FairQueue, OneEach
from placet.actors.admission.overload import CachedRefusal, Overload
from placet.actors.mailbox import Mailbox
from placet.actors.queued_batch import QueuedBatch
from placet.kernel.kernel import Kernel
from placet.schemas.identity import OPERATOR
from placet.schemas.limits import Limits
from placet.schemas.refusal import Refusal, RefusalCode
from placet.schemas.verdict import Verdict

if TYPE_CHECKING:
    import asyncio

    from placet.schemas.batch import CheckedBatch

Backpressure: TypeAlias = Literal["reject", "wait", "shed_lowest", "dilate"]

_GROUPS_IN_ORDER: Final = 4
"""Number of groups that may be queued in order of arrival before batches are served fairly."""

_SHARE_MIN_PART: Final = 32
"""An agent may always have the limit of the queue, divided by this, queued if there is room."""


class ControlMessage(NamedTuple):
    """A message that makes the orchestrator call a function with the kernel in its next cycle.

    Attributes:
        act: The function.
        reply: Future of its result, or of the exception that it raised.
    """

    act: Callable[[Kernel], object]
    reply: "asyncio.Future[Any]"


class StepMessage(NamedTuple):
    """A message that advances a stepped world.

    Attributes:
        dt_ns: Nanoseconds to advance by.
        reply: Future of the replies of the batches submitted since the last step.
        is_tick: Run a tick at the end of the step.
    """

    dt_ns: int
    reply: "asyncio.Future[Any]"
    is_tick: bool = True


class Admission(Protocol):
    """The part of the ingress that its queues call under load."""

    def overload_of(self, queue: "BatchQueue", submitter: str) -> Overload | None:
        """Return the load signal that keeps a submitter's batch in the wait queue now.

        None if none.
        """

    def refuse(self, refusal: Refusal, is_dry_run: bool = False) -> Verdict:
        """Build the verdict of a refused batch, and count it unless it is a dry run."""

    def priority_of(self, batch: "CheckedBatch") -> int:
        """Return the priority of a batch, capped by the lowest `priority_max` concerned.

        These are the caps of the agents that it names and of its submitter.
        """

    def priority_cap(self, submitter: str) -> int:
        """Return the highest priority that a submitter's batch may have."""

    def answer_shed(self, waiting: QueuedBatch, priority: int, load: Overload) -> None:
        """Refuse a batch that a batch of higher priority displaced, unless it was canceled.

        `priority` is that of the displaced batch; `load` is the load signal over its limit.
        """


class BatchQueue(Mailbox[QueuedBatch, ControlMessage | StepMessage]):
    """The queue of `backpressure="reject"`: under load a batch is refused before it is checked.

    The declared size of a message is the length of its batch's encoding.

    Args:
        limits: Bounds of the queue, and the number of batches of a group.

    Attributes:
        admission: The ingress in front of the queue; it sets this before the first batch.
        cached_refusal: The answer to every submitter until a batch leaves the queue; None while
            the queue has room, or its load does not apply to all.
        is_outranked: Function of an unchecked batch and its submitter: whether `cached_refusal`
            applies to it. None if `cached_refusal` applies to all.
    """

    def __init__(self, limits: Limits) -> None:
        super().__init__(0, limits.mailbox_bytes_max)
        self._group = limits.group_batches_max
        self.cached_refusal: CachedRefusal | None = None
        self.resize(limits.mailbox_places(0))
        self._fair = FairQueue()
        self._one_each = OneEach()
        # Batches that were taken and put back, older than all others: the next `take` returns them
        # first, so that the order of an agent is kept.
        self._undecided: list[QueuedBatch] = []
        self.admission: Admission
        self.is_outranked: Callable[[object, str], bool] | None = None

    def resize(self, count_max: int) -> None:
        """Set the maximum number of queued batches; batches that are queued now stay."""
        self._count_max = count_max
        self._count_min = count_max // _SHARE_MIN_PART
        half = max(self._group, count_max // 2)
        self._fair_from = min(_GROUPS_IN_ORDER * self._group, half)
        self.cached_refusal = None

    def beyond_share(self, submitter: str) -> Overload | None:
        """Return the load signal of a submitter over its share of a crowded queue.

        None if within it.

        A share is as many batches, and bytes, as remain free in the queue.

        Batches that fit into one group are no crowd, and a few groups no flood. Otherwise, under
        overload, many modest submitters would each get a refusal with different numbers, and
        refusals that cannot be shared are expensive. The operator is exempt: it submits for all.

        Source: the dynamic threshold of Choudhury and Hahne, 1998, with alpha = 1.
        """
        waiting, size = len(self._lane) + self._aside, self._bytes
        is_crowd = 2 * waiting >= self._count_max or 2 * size >= self._bytes_max
        if not is_crowd or waiting <= self._group or submitter == OPERATOR:
            return None
        if self._lane:
            self._put_aside()
        own = self._fair.lanes.get(submitter)
        if own is None:
            return None
        count = len(own.batches)
        if count + waiting >= self._count_max and count > self._count_min:
            free = self._count_max - waiting
            return Overload(RefusalCode.QUEUE_FULL, "mailbox_batches_of_agent", count, free)
        if own.size + size >= self._bytes_max and count:
            free = self._bytes_max - size
            return Overload(RefusalCode.QUEUE_FULL, "mailbox_bytes_of_agent", own.size, free)
        return None

    def screen(self, load: Overload, raw: object, submitter: str) -> Overload | None:
        """Decide under load whether a batch is refused unchecked.

        Args:
            load: The signal that is over its limit.
            raw: The batch as submitted, not yet checked.
            submitter: Id of the submitter.

        Returns:
            The load signal to refuse the batch for; None to check it and then enqueue it.
        """
        return load

    def enqueue_under_load(self, waiting: QueuedBatch, load: Overload) -> Overload | None:
        """Enqueue a checked batch under load, if the overflow policy has room for it.

        Args:
            waiting: The batch.
            load: The load signal that is over its limit.

        Returns:
            None if the batch was enqueued, else the load signal that states why it is refused.
            This queue enqueues no batch under load and returns `load`.
        """
        return load

    def admit_waiters(self) -> None:
        """Move batches from the wait queue into the queue as far as there is room.

        Does nothing in a queue without a wait queue.
        """

    def take(self, count_max: int, intents_max: int | None = None) -> list[QueuedBatch]:
        """Remove and return the next batches: fair by owner in a crowd, else in order of arrival.

        Empty while paused. Taking all at once returns them in order of arrival.

        Args:
            count_max: Maximum number of batches.
            intents_max: Stop once the taken batches have this many intents together.
        """
        self.cached_refusal = None
        if self.is_paused:
            return []
        if self._undecided:
            return self._take_undecided()
        fair_from = self._fair_from
        if intents_max is not None and intents_max < self._group:  # intents that do much work
            fair_from = min(fair_from, _GROUPS_IN_ORDER * max(1, intents_max))
        if not self._aside and (len(self._lane) <= fair_from or self._one_each.are_all(self._lane)):
            return self._take_in_order(count_max, intents_max)
        self._put_aside()
        if intents_max is None and count_max >= self._aside:
            return self._taken_all()
        turns, taken, intents = self._fair, list[QueuedBatch](), 0
        for _ in range(min(count_max, self._aside)):
            waiting = turns.pop()
            taken.append(waiting)
            intents += len(waiting.batch.intents)
            if intents_max is not None and intents >= intents_max:
                break
        self._remove_taken(taken)
        self._received += len(taken)
        return taken

    def put_back(self, undecided: list[QueuedBatch]) -> None:
        """Put taken, undecided batches at the front of the queue: the next `take` returns them."""
        self._undecided = [*undecided, *self._undecided]
        self._aside += len(undecided)
        self._bytes += _bytes_of(undecided)

    def take_all(self) -> list[QueuedBatch]:
        """Remove and return every batch, paused or not; end a pause."""
        return [*self._take_undecided(), *super().take_all()]

    def _take_undecided(self) -> list[QueuedBatch]:
        first, self._undecided = self._undecided, []
        self._aside -= len(first)
        self._bytes -= _bytes_of(first)
        return first

    def _take_in_order(self, count_max: int, intents_max: int | None) -> list[QueuedBatch]:
        lane, sizes, taken, intents = self._lane, self._sizes, list[QueuedBatch](), 0
        while lane and len(taken) < count_max:
            waiting = lane.popleft()
            self._bytes -= sizes.popleft()
            taken.append(waiting)
            intents += len(waiting.batch.intents)
            if intents_max is not None and intents >= intents_max:
                break
        self._received += len(taken)
        if self._one_each:
            self._one_each.leave(taken)
        return taken

    @property
    def oldest(self) -> QueuedBatch | None:
        """The oldest batch, or None. O(batches) while batches are served fairly.

        Safe to read from another thread.
        """
        undecided = self._undecided
        if undecided:
            return undecided[0]
        return self._fair.oldest() or super().oldest

    def oldest_for(self, submitter: str) -> QueuedBatch | None:
        """Return the queued batch whose age predicts how long a submitter's next batch would wait.

        None if there is none. While batches are served fairly it is the oldest batch of the
        submitter: those of others do not delay it. Undecided batches precede all others.
        """
        if self._undecided:
            return self._undecided[0]
        if not self._fair:
            if self._one_each and submitter != OPERATOR:
                return self._one_each.get(submitter)
            return self._lane[0] if self._lane else None
        return self._fair.peek() if submitter == OPERATOR else self._fair.oldest_of(submitter)

    @property
    def waiters_count(self) -> int:
        """Number of batches in the wait queue, besides those in the queue."""
        return 0

    def waited_ns(self, waiting: QueuedBatch, now_ns: int) -> int:
        """Return the nanoseconds that a batch has been queued, on the clock of its `valid_for_s`.

        Args:
            waiting: The batch.
            now_ns: Monotonic time.
        """
        return now_ns - waiting.since_ns

    def batches(self) -> "list[CheckedBatch]":
        """Return all queued batches that were not canceled, by owner or in order of submission."""
        queued = (*self._undecided, *self._fair, *self._lane)
        return [waiting.batch for waiting in queued if not waiting.reply.done()]

    def replies(self) -> "list[asyncio.Future[Any]]":
        """Return the futures of all queued batches, including the wait queue."""
        return [waiting.reply for waiting in (*self._undecided, *self._fair, *self._lane)]

    def _put_aside(self) -> None:
        """Move the batches queued in order of arrival to the fair queue."""
        lane = self._lane
        if not lane:
            return
        for waiting in lane:
            self._add(waiting)
        self._one_each.clear()
        self._aside += len(lane)
        lane.clear()
        self._sizes.clear()

    def _add(self, waiting: QueuedBatch) -> None:
        self._fair.add(waiting)

    def _remove_taken(self, taken: Sequence[QueuedBatch]) -> None:
        """Subtract batches that were taken from the counts."""
        self._aside -= len(taken)
        self._bytes -= _bytes_of(taken)

    def _taken_all(self) -> list[QueuedBatch]:
        taken = self._fair.clear()
        self._remove_taken(taken)
        self._received += len(taken)
        return taken


def _bytes_of(batches: Sequence[QueuedBatch]) -> int:
    return sum([len(waiting.batch.encoded) for waiting in batches])


__all__ = ["Backpressure", "BatchQueue", "ControlMessage", "QueuedBatch", "StepMessage"]
