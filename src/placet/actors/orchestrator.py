"""The one writer: takes batches from its mailbox, lets the kernel decide, hands the outcome on.

What waits is drained together (smart batching) and decided in chunks, so one turn of the event
loop stays short. It never awaits between reading and writing state. Its messages are `Waiting`
(a batch in the queue), and `Command` and `Step` (control messages, never shed).
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

from placet.actors.committer import Commit, Committer, Reply
from placet.actors.counters import Counters, Outcome
from placet.actors.door import Door, shed, timed_out
from placet.actors.mailbox import Mailbox, MailboxFull
from placet.actors.ports import Clock, HostClock
from placet.kernel.decide import Answer
from placet.kernel.kernel import Kernel
from placet.schemas.batch import CheckedBatch
from placet.schemas.effect import Effect
from placet.schemas.errors import ClosedError
from placet.schemas.intent import Intent
from placet.schemas.limits import SECOND_NS
from placet.schemas.record import LogGroup
from placet.schemas.refusal import Refusal
from placet.schemas.verdict import Verdict

T = TypeVar("T")
GroupReport: TypeAlias = Callable[[Sequence[Verdict]], None]


class Waiting:
    """A batch in the queue, and who waits for its verdict. Times are monotonic nanoseconds."""

    __slots__ = ("batch", "reply", "since_ns")

    def __init__(self, batch: CheckedBatch, reply: "asyncio.Future[Any]", since_ns: int) -> None:
        self.batch = batch
        self.reply = reply
        self.since_ns = since_ns


class Command(NamedTuple):
    """Do something with the kernel in the orchestrator's turn."""

    act: Callable[[Kernel], object]
    reply: "asyncio.Future[Any]"


class Step(NamedTuple):
    """Advance a stepped world by so many nanoseconds."""

    dt_ns: int
    reply: "asyncio.Future[Any]"


class _Outcome:
    """What one turn brought about, to be handed on as one commit."""

    __slots__ = ("effects", "replies")

    def __init__(self) -> None:
        self.replies: list[Reply] = []
        self.effects: list[Effect] = []


class OrchestratorActor:
    """The orchestrator of one world.

    Args:
        kernel: Decides. Nobody else touches it while this runs.
        records: Where the kernel's journal puts the records of the current turn.
        committer: Makes decisions durable, then tells.
        clock: Says when it is; a `SteppedClock` makes a stepped world.
        counters: Counted once per group.
        on_group: Told of the verdicts of each group, for logging.
    """

    def __init__(
        self,
        kernel: Kernel,
        records: list[bytes],
        committer: Committer,
        clock: Clock,
        counters: Counters,
        *,
        on_group: GroupReport | None = None,
    ) -> None:
        limits = kernel.config.limits
        self._kernel = kernel
        self._records = records
        self._handed_on = kernel.history_end
        self._committer = committer
        self._clock = clock
        self._advance = clock.advance if isinstance(clock, HostClock) else None
        self._counters = counters
        self._on_group = on_group
        self._limits = limits
        self._door = Door(limits)
        self._mailbox: Mailbox[Waiting, Command | Step] = Mailbox(
            limits.mailbox_batches_max, limits.mailbox_bytes_max
        )
        self._held: Mailbox[Waiting, Command | Step] = Mailbox(
            limits.mailbox_batches_max, limits.mailbox_bytes_max
        )
        self._ns_per_intent = 10_000
        self._is_closed = False
        self._woken_ns = 0
        self._timer: asyncio.TimerHandle | None = None
        counters.watch("mailbox_depth", self.__len__, "orchestrator")
        counters.watch("mailbox_oldest_seconds", self._oldest_seconds)

    # what clients call

    def post(
        self, raw: object, submitter: str, *, dry_run: bool = False
    ) -> "asyncio.Future[Verdict]":
        """Hand in a batch: door, structure, queue. The future resolves to its verdict.

        Raises:
            ClosedError, StoreError: The world takes no more batches, or has failed.
        """
        self._check_open()
        reply: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        now_ns = self._clock.monotonic_ns()
        queue = self._mailbox if self._advance is None else self._held
        oldest = self._mailbox.oldest
        since_ns = None if oldest is None else oldest.since_ns
        refusal = self._door.check(submitter, now_ns, len(queue), since_ns)
        if refusal is not None:
            reply.set_result(self.refuse(refusal))
            return reply
        checked = self._kernel.check(raw, submitter)
        if isinstance(checked, Verdict):
            self._count_refused(checked)
            self._committer.offer(Commit(None, [(reply, checked)]))
            return reply
        checked.dry_run = checked.dry_run or dry_run
        if queue is self._held and self._is_prompt(checked):
            queue = self._mailbox
        if queue is self._mailbox and not len(queue):
            self._woken_ns = now_ns
        try:
            queue.post_nowait(Waiting(checked, reply, now_ns), len(checked.encoded))
        except MailboxFull as full:
            reply.set_result(
                self.refuse(self._door.queue_full(full.signal, full.value, full.limit))
            )
        return reply

    async def command(self, act: Callable[[Kernel], T]) -> T:
        """Do something with the kernel in the orchestrator's turn, before all waiting batches.

        Returns:
            What `act` returned, once everything it could see is durable.

        Raises:
            ClosedError, StoreError: The world is closed, or has failed.
        """
        self._check_open()
        reply: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._mailbox.post_control(Command(act, reply))
        return await reply

    async def step(self, dt_ns: int) -> list[Verdict]:
        """Advance a stepped world: decide as one group all that waits and is due, then tick.

        Returns:
            The verdicts of the batches that waited, in order of arrival.

        Raises:
            ClosedError, StoreError: The world is closed, or has failed.
        """
        self._check_open()
        reply: asyncio.Future[list[Verdict]] = asyncio.get_running_loop().create_future()
        self._mailbox.post_control(Step(dt_ns, reply))
        return await reply

    def refuse(self, refusal: Refusal) -> Verdict:
        """Answer at the door; leaves no trace but a count."""
        kernel = self._kernel
        verdict = Verdict("", False, None, self._committer.durable_seq, kernel.sim_time, (refusal,))
        self._count_refused(verdict)
        return verdict

    def close(self) -> None:
        """Take no more messages; `run` returns when those that wait are decided."""
        self._is_closed = True
        self._mailbox.wake()

    def shed(self, why: str) -> None:
        """Answer everything that still waits without deciding it."""
        for mailbox in (self._held, self._mailbox):
            for waiting in mailbox.take(len(mailbox)):
                _resolve(waiting.reply, self.refuse(shed(why)))
            while (message := mailbox.take_control()) is not None:
                _resolve(message.reply, self._committer.failure or ClosedError(why))

    def __len__(self) -> int:
        return len(self._mailbox) + len(self._held)

    # the loop

    async def run(self) -> None:
        """Decide what waits, turn by turn, until closed and drained."""
        while self._committer.failure is None:
            if self._mailbox.is_empty:
                if self._is_closed:
                    break
                self._arm()
                await self._mailbox.wait()
            self._turn()
            await self._committer.room()
            await asyncio.sleep(0)  # let those who were answered take their turn
        if self._timer is not None:
            self._timer.cancel()

    def _turn(self) -> None:
        outcome = _Outcome()
        while (message := self._mailbox.take_control()) is not None:
            self._obey(message, outcome)
        waiting = self._take()
        now_ns = self._clock.now_ns()
        if waiting or (self._advance is None and self._is_due(now_ns)):
            self._note_lag()
            self._decide(waiting, now_ns, outcome)
        self._hand_on(outcome)

    def _take(self) -> list[Waiting]:
        """Take a chunk: at most so many batches, at most so many milliseconds' worth of intents."""
        budget = self._limits.group_ms_max * 1_000_000 // self._ns_per_intent

        def is_enough(waiting: Waiting) -> bool:
            nonlocal budget
            budget -= len(waiting.batch.intents)
            return budget <= 0

        return self._mailbox.take(self._limits.group_batches_max, is_enough)

    def _obey(self, message: Command | Step, outcome: _Outcome) -> None:
        """Carry out a control message. What it raises is its sender's, and is told like a result."""
        result: object
        try:
            if isinstance(message, Step):
                result = self._step(message.dt_ns, outcome)
            else:
                result = message.act(self._kernel)
        except Exception as error:  # noqa: BLE001  # carried to whoever sent the message
            result = error
        outcome.replies.append((message.reply, result))

    def _step(self, dt_ns: int, outcome: _Outcome) -> list[Verdict]:
        assert self._advance is not None, "only a stepped world is stepped"
        now_ns = self._advance(dt_ns)
        verdicts = self._decide(self._held.take(len(self._held)), now_ns, outcome)
        self._kernel.tick(now_ns / SECOND_NS)
        return verdicts

    def _decide(
        self, waiting: list[Waiting], now_ns: int, outcome: _Outcome
    ) -> list[Verdict]:
        started_ns = self._clock.monotonic_ns()
        waiting = [one for one in waiting if not self._is_over(one, started_ns)]
        decision = self._kernel.decide_checked([one.batch for one in waiting], now_ns)
        outcome.effects += decision.effects
        verdicts = {answer.batch.batch_id: answer.verdict for answer in decision.answers}
        ended_ns = self._clock.monotonic_ns()
        ordered = []
        durability = self._committer.durability
        observe = self._counters.observe_submit_to_verdict
        for one in waiting:
            verdict = verdicts[one.batch.batch_id]
            verdict.durability = durability
            ordered.append(verdict)
            outcome.replies.append((one.reply, verdict))
            observe((ended_ns - one.since_ns) / SECOND_NS)
        self._counters.observe_decide((ended_ns - started_ns) / SECOND_NS)
        self._count(decision.answers, ended_ns - started_ns)
        return ordered

    def _is_over(self, waiting: Waiting, now_ns: int) -> bool:
        """Skip what was withdrawn, answer what is past its deadline."""
        if waiting.reply.done():
            return True
        valid_for_ns = waiting.batch.valid_for_ns
        waited_ns = now_ns - waiting.since_ns
        if valid_for_ns is None or waited_ns <= valid_for_ns:
            return False
        _resolve(waiting.reply, self.refuse(timed_out(waited_ns, valid_for_ns)))
        return True

    def _hand_on(self, outcome: _Outcome) -> None:
        """Give the turn's records and replies to the committer, which tells when they are durable."""
        group = None
        if self._records:
            seq, count = self._handed_on
            group = LogGroup(count, seq, self._kernel.seq, tuple(self._records))
            self._handed_on = (group.seq, count + len(group.records))
            self._records.clear()
        if group is not None or outcome.replies:
            self._committer.offer(Commit(group, outcome.replies, outcome.effects))

    # the moment

    def _check_open(self) -> None:
        if self._committer.failure is not None:
            raise self._committer.failure
        if self._is_closed:
            raise ClosedError("the world is closed and takes no more batches; open it again")

    def _is_prompt(self, batch: CheckedBatch) -> bool:
        """In a stepped world, dry runs and batches for later are answered at once."""
        later = batch.sim_time_ns is not None and batch.sim_time_ns > self._clock.now_ns()
        return batch.dry_run or later

    def _is_due(self, now_ns: int) -> bool:
        due_ns = self._kernel.ledger.next_due_ns
        return due_ns is not None and due_ns <= now_ns

    def _arm(self) -> None:
        """Be woken when the next scheduled batch is due."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due_ns = self._kernel.ledger.next_due_ns
        if due_ns is None or self._advance is not None:
            return
        delay_s = max(0, due_ns - self._clock.now_ns()) / SECOND_NS
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(delay_s + 0.0005, self._mailbox.wake)

    def _note_lag(self) -> None:
        if self._woken_ns:
            now_ns = self._clock.monotonic_ns()
            self._door.note_lag(now_ns - self._woken_ns, now_ns)
            self._woken_ns = 0

    def _oldest_seconds(self) -> float:
        oldest = self._mailbox.oldest
        return 0.0 if oldest is None else (self._clock.monotonic_ns() - oldest.since_ns) / SECOND_NS

    # counting

    def _count(self, answers: list[Answer], spent_ns: int) -> None:
        """Count a group, once for all its batches."""
        by_outcome: dict[Outcome, list[Sequence[Intent]]] = {}
        intents = 1
        for batch, verdict in answers:
            if verdict.dry_run:
                continue
            by_outcome.setdefault(_outcome(verdict), []).append(batch.intents)
            intents += len(batch.intents)
            for refusal in verdict.refusals:
                self._counters.count_refusal(refusal.stage, refusal.code)
        for outcome, batches in by_outcome.items():
            self._counters.count_batches(batches, outcome)
        self._ns_per_intent = (self._ns_per_intent * 7 + spent_ns // intents) // 8 + 1
        if self._on_group is not None and answers:
            self._on_group([verdict for _, verdict in answers])

    def _count_refused(self, verdict: Verdict) -> None:
        for refusal in verdict.refusals:
            kind = refusal.details.get("kind", "")
            self._counters.count_intents(kind, "refused")
            self._counters.count_refusal(refusal.stage, refusal.code)
        if self._on_group is not None:
            self._on_group([verdict])


def _outcome(verdict: Verdict) -> Outcome:
    if verdict.replayed:
        return "replayed"
    if not verdict.admitted:
        return "refused"
    return "scheduled" if verdict.scheduled else "admitted"


def _resolve(reply: "asyncio.Future[Any]", result: object) -> None:
    if reply.done():
        return
    if isinstance(result, BaseException):
        reply.set_exception(result)
    else:
        reply.set_result(result)
