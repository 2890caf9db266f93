"""The ingress: admission, structure check and queueing of every submitted batch.

Everything happens in the submitter's own task. Under load the queue's overflow policy decides
(`queue.py`). A batch that is refused for load is refused before it is checked wherever possible,
because under overload refusing must be much cheaper than deciding.
"""

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING

from placet.actors.admission.column_batches import copied, load_form
from placet.actors.admission.debts import Debts
from placet.actors.admission.overload import (
    CACHED_USES_MAX,
    DRAINING,
    AdmissionControl,
    CachedRefusal,
    Overload,
    rate_exceeded,
    shed,
    shed_for,
    unauthorized,
)
from placet.actors.admission.queue import BatchQueue
from placet.actors.committer import Committer, CycleOutput, resolve
from placet.actors.mailbox import MailboxFull
from placet.actors.metrics import GroupMetrics
from placet.actors.ports import AgentIdentity, Clock, HostClock
from placet.actors.queued_batch import QueuedBatch
from placet.kernel.commit.commit import Unpaid
from placet.kernel.decide.order import priority_cap
from placet.kernel.kernel import Kernel
from placet.schemas.batch import CheckedBatch
from placet.schemas.errors import ClosedError, TimeStalledError
from placet.schemas.identity import OPERATOR
from placet.schemas.limits import REFUSED_INTENT_WORK, SECOND_NS, Limits
from placet.schemas.refusal import Refusal, RefusalCode, Stage
from placet.schemas.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from placet.kernel.columns.batch import ColumnBatch


class SubmissionRates:
    """A rate limiter of submissions per submitter, by the algorithm of a `Quota`.

    Remembers the `ingress_submitters_max` submitters that submitted last, refused or not; a
    submitter that it forgets has its whole burst again.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._interval_ns = SECOND_NS // limits.ingress_rate_per_second_max
        self._burst_ns = limits.ingress_burst_max * self._interval_ns
        self._submitters_max = limits.ingress_submitters_max
        self.debts = Debts(limits)
        self._owing = self.debts.owing
        self.tats: OrderedDict[str, int] = OrderedDict()
        """Theoretical arrival time by submitter, monotonic nanoseconds; the latest comes last."""

    def charge(self, submitter: str, now_ns: int) -> Refusal | None:
        """Count one submission; return None if its submitter is within its rate, else a refusal.

        A refused submission is not counted. A submitter with debts (`Debts`) is refused too.

        A submission that a later stage refuses stays charged, so that an agent that loops on
        refusals is slowed down.
        """
        if self._owing:
            refusal = self.debts.refusal(submitter, now_ns)
            if refusal is not None:
                return refusal
        tats = self.tats
        tat = tats.get(submitter, 0)
        # `Quota.charged` and `over_ns`, inlined: a call for each batch costs as much as the rest.
        if tat < now_ns:  # noqa: PLR1730
            tat = now_ns
        tat += self._interval_ns
        over_ns = tat - now_ns - self._burst_ns
        if over_ns > 0:
            tats.move_to_end(submitter)  # kept: forgetting it would admit a flood
            return rate_exceeded(submitter, over_ns, self._limits)
        tats[submitter] = tat
        tats.move_to_end(submitter)
        if len(tats) > self._submitters_max:
            tats.popitem(last=False)
        return None


class Ingress:
    """The entrance of the orchestrator: checks each submitted batch, then queues or refuses it.

    Args:
        kernel: Checks batches, and knows their agents.
        committer: Releases answers of refused batches once the state that they reveal is durable.
        clock: A `HostClock` makes a stepped world.
        group_metrics: Counts refusals.
        mailbox: The orchestrator's queue of batches to decide.
        held: The orchestrator's queue of batches held for the next step of a stepped world.

    Attributes:
        on_held: Called with each batch added to `held`, while a barrier waits for it.
        on_warned: Called with each checked batch that the structure check changed.
        has_columns: A column batch was submitted; until then the orchestrator looks for none.
        is_closed: The world takes no more batches, and never will.
        stalled: Reason why no further step will come for held batches; None while one may.
        is_draining: The world takes no more batches until `resume`.
        woken_ns: Monotonic time at which a batch woke the orchestrator; 0 once it has run since.
    """

    def __init__(
        self,
        kernel: Kernel,
        committer: Committer,
        clock: Clock,
        group_metrics: GroupMetrics,
        mailbox: BatchQueue,
        held: BatchQueue,
    ) -> None:
        self._kernel = kernel
        self._committer = committer
        self._clock = clock
        self._monotonic_ns = clock.monotonic_ns
        self._group_metrics = group_metrics
        self._counts = group_metrics.rejected_at_ingress
        self._limits = kernel.config.limits
        self._control = AdmissionControl(self._limits)
        self._rates = SubmissionRates(self._limits)
        self._debts = self._rates.debts
        self._owing = self._debts.owing
        self._lag_ns_max = self._limits.loop_lag_ms_max * 1_000_000
        self._mailbox, self._held = mailbox, held
        mailbox.admission = held.admission = self
        self.fit_queues()
        self._is_outranked = mailbox.is_outranked
        self._is_stepped = isinstance(clock, HostClock)
        # A cached refusal is for all submitters: not with two queues, nor where each is reported.
        self._may_cache = not (self._is_stepped or group_metrics.is_reported)
        self._cached: dict[tuple[str, int], CachedRefusal] = {}  # by signal and value of the load
        self._last_cached: CachedRefusal | None = None
        # Holds each undecided batch of the next step: only answered ones are forgotten.
        self._submitted: list[asyncio.Future[Verdict]] = []  # since the last step, dry runs aside
        self._submitted_max = 4 * self._control.places
        self.on_held: Callable[[CheckedBatch], None] | None = None
        self.on_warned: Callable[[CheckedBatch], None] | None = None
        self.has_columns = False
        self.is_closed = False
        self.stalled: TimeStalledError | None = None
        self.is_draining = False
        self.woken_ns = 0

    def post_batch(
        self,
        raw: object,
        submitter: str,
        dry_run: bool = False,
        identity: AgentIdentity | None = None,
        *,
        fill_missing: bool = False,
        shows_changes: bool = False,
    ) -> "asyncio.Future[Verdict]":
        """Submit a batch: admission, structure check, queue. Return the future of its verdict.

        Canceling the future withdraws a batch that is not decided yet. A decided batch stays
        decided, and `verdict_of` returns its verdict.

        Args:
            raw: The batch as submitted, not yet checked.
            submitter: Id of the submitting agent, or the operator.
            dry_run: Decide without applying.
            fill_missing: Fill in the fields that a client may leave out.
            shows_changes: List the changes of the batch in its verdict; a dry run always does.
            identity: The batch is refused if this agent, of this generation, is no longer
                registered when it is decided; None for no such condition.

        Raises:
            ClosedError, StoreError: The world is closed, or has failed.
            TimeStalledError: The batch would be held for a step, and no step will come.
        """
        if self.is_closed or self._committer.failure is not None:
            self.check_open()  # raises, with the reason
        now_ns = self._monotonic_ns()
        cached = self._mailbox.cached_refusal
        if (
            cached is not None
            and cached.left
            and now_ns < cached.until_ns
            and cached.seq == self._committer.durable_seq
            and not (dry_run or (type(raw) is dict and raw.get("dry_run") is True))
            and (self._is_outranked is None or self._is_outranked(raw, submitter))
        ):  # first of all: under overload most submissions end here
            cached.left -= 1
            self._counts[cached.code] += 1
            return cached.reply
        is_held = self._is_stepped and not dry_run and not _seems_immediate(raw)
        queue = self._held if is_held else self._mailbox
        load = self._load(queue, now_ns, submitter)
        if load is not None or self.is_draining:
            reason = self._reason(queue, load, raw, submitter)
            if reason is not None:
                return self._rejected_at_ingress(queue, reason, now_ns, dry_run or _is_dry_run(raw))
        reply: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        refusal = self._rates.charge(submitter, now_ns)
        if refusal is not None:
            reply.set_result(self.refuse(refusal, dry_run or _is_dry_run(raw)))
            return reply
        if identity is not None and not self._is_current(identity):
            refused = self.refuse(unauthorized(identity.agent_id), dry_run or _is_dry_run(raw))
            return self._answer(reply, refused)
        checked = self._kernel.check(raw, submitter, fill_missing=fill_missing)
        if dry_run:
            checked.dry_run = True
        if not isinstance(checked, CheckedBatch):
            return self._refuse_malformed(reply, checked, raw, submitter, now_ns)
        if dry_run or shows_changes:
            checked.shows_changes = True
        if checked.notices is not None and self.on_warned is not None:
            self.on_warned(checked)
        waiting = QueuedBatch(checked, reply, now_ns, identity, now_ns)
        if self._is_stepped:
            self._put_for_step(waiting, submitter)
        else:
            self._put(queue, waiting, load)
        return reply

    def post_for_step(
        self,
        raw: object,
        submitter: str,
        dry_run: bool = False,
        identity: AgentIdentity | None = None,
        *,
        fill_missing: bool = False,
        shows_changes: bool = False,
    ) -> "asyncio.Future[Verdict]":
        """Submit a batch to a stepped world, like `post_batch`, and note it for the next step.

        Also a refused batch is noted, but not a dry run. Of more than four queues full, those
        answered already are forgotten: their submitters have the verdicts.
        """
        reply = self.post_batch(
            raw,
            submitter,
            dry_run,
            identity,
            fill_missing=fill_missing,
            shows_changes=shows_changes,
        )
        if not (dry_run or _is_dry_run(raw)):
            submitted = self._submitted
            submitted.append(reply)
            if len(submitted) > self._submitted_max:
                self._forget_answered()
        return reply

    def post_columns(self, batch: "ColumnBatch") -> "asyncio.Future[Verdict]":
        """Submit a column batch: admission, form, a copy of its arrays, queue.

        The queue counts it as one batch, by the bytes of its arrays.

        Returns:
            The future of its `ColumnVerdict`; or of a `Verdict` that refuses it for load.

        Raises:
            ClosedError, StoreError: The world is closed, or has failed.
            TimeStalledError: The batch would be held for a step, and no step will come.
            ValueError: Its form is wrong.
        """
        self.check_open()
        now_ns, submitter = self._monotonic_ns(), batch.submitter
        queue = self._held if self._is_stepped else self._mailbox
        load = self._load(queue, now_ns, submitter)
        if load is not None or self.is_draining:
            reason = self._reason(queue, load, load_form(batch), submitter)
            if reason is not None:
                return self._rejected_at_ingress(queue, reason, now_ns)
        own = copied(batch, self._kernel)
        reply: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        refusal = self._rates.charge(submitter, now_ns)
        if refusal is not None:
            reply.set_result(self.refuse(refusal))
            return reply
        self.has_columns = True
        waiting = QueuedBatch(own, reply, now_ns, None, now_ns)
        if self._is_stepped:
            self._put_for_step(waiting, submitter)
            self._submitted.append(reply)
            if len(self._submitted) > self._submitted_max:
                self._forget_answered()
        else:
            self._put(queue, waiting, load)
        return reply

    def _forget_answered(self) -> None:
        """Forget the answered batches since the last step: their submitters have the verdicts."""
        self._submitted[:] = [reply for reply in self._submitted if not reply.done()]
        self._submitted_max = 2 * len(self._submitted) + 4 * self._control.places

    def take_submitted(self) -> "list[asyncio.Future[Verdict]]":
        """Return the replies of the batches submitted since the last step, oldest first."""
        submitted, self._submitted = self._submitted, []
        self._submitted_max = 4 * self._control.places
        return submitted

    def put_back_submitted(self, replies: "list[asyncio.Future[Verdict]]") -> None:
        """Note batches that a step left undecided for the next one."""
        self._submitted[:0] = replies

    def refuse(self, refusal: Refusal, is_dry_run: bool = False) -> Verdict:
        """Build the verdict of a batch that a refusal ends before it is decided, and count it.

        Dry runs are not counted.
        """
        kernel = self._kernel
        verdict = Verdict("", False, None, self._committer.durable_seq, kernel.sim_time, (refusal,))
        verdict.dry_run = is_dry_run
        if refusal.stage is not Stage.ADMISSION:
            self._group_metrics.count_refused(verdict)
        elif not is_dry_run:
            self._group_metrics.count_rejected(verdict)
        return verdict

    def charge_unpaid(self, unpaid: "Sequence[Unpaid]", now_ns: int) -> None:
        """Charge agents for dry runs, refused and repeated batches; see `Debts`."""
        if not self._is_stepped:
            self._debts.charge(unpaid, now_ns)

    def drain(self) -> None:
        """Refuse new batches until `resume`; end a pause, so that queued batches are decided."""
        self.resume()
        self.is_draining = True
        self._mailbox.cached_refusal = None  # from now on each is refused as `draining`
        self._mailbox.admit_waiters()
        self._mailbox.wake()

    def fit_queues(self) -> None:
        """Resize the queues for the present number of registered agents."""
        places = self._limits.mailbox_places(len(self._kernel.ledger.agents))
        if places != self._control.places:
            self._control.resize(places)
            for queue in (self._mailbox, self._held):
                queue.resize(places)

    def resume(self) -> None:
        """Accept and decide batches again, after `drain` or a pause."""
        self._mailbox.is_paused = self.is_draining = False
        self.woken_ns = 0  # a pause is not a lag of the event loop

    def close(self) -> None:
        """Refuse all further batches permanently; the queued ones are still decided."""
        self.is_closed = True
        self._mailbox.admit_waiters()
        self._mailbox.wake()

    def shed(self, why: str) -> None:
        """Answer all queued messages without deciding them: refuse batches, fail commands.

        If the world has failed, all get its failure. `why` is the reason, in words.
        """
        failure = self._committer.failure
        for queue in (self._held, self._mailbox):
            for waiting in queue.take_all():
                resolve(waiting.reply, failure or self.refuse(shed(why), waiting.batch.dry_run))
            while (message := queue.take_control()) is not None:
                resolve(message.reply, failure or ClosedError(why))

    def stall(self, stalled: TimeStalledError) -> None:
        """Fail the batches held for the next step, because no step will come.

        Later batches that would be held fail too. Dry runs and batches for a later time are still
        decided.

        Args:
            stalled: The error that the submitters of these batches get; kept in `self.stalled`.
        """
        self.stalled = stalled
        for waiting in self._held.take_all():
            resolve(waiting.reply, stalled)

    def held_batches(self) -> list[CheckedBatch]:
        """Return the batches held for the next step, except canceled batches."""
        return self._held.batches()

    def measure_lag(self) -> None:
        """Measure the event-loop lag: the time since a batch woke the orchestrator."""
        if self.woken_ns:
            now_ns = self._clock.monotonic_ns()
            lag_ns = now_ns - self.woken_ns
            if lag_ns > self._lag_ns_max or self._control.is_lagging:
                self._control.note_lag(lag_ns, now_ns)
            self.woken_ns = 0

    def check_open(self) -> None:
        """Raise if the world accepts no more messages; else do nothing.

        Raises:
            ClosedError, StoreError: The world is closed, or has failed.
        """
        if self._committer.failure is not None:
            raise self._committer.failure
        if self.is_closed:
            raise ClosedError("the world is closed and takes no more batches; open it again")

    # steps of `post_batch`

    def _is_current(self, identity: AgentIdentity) -> bool:
        """Return whether an agent is registered, as the same generation of its name."""
        agent = self._kernel.ledger.agents.get(identity.agent_id)
        return agent is not None and agent.generation == identity.generation

    def _load(self, queue: BatchQueue, now_ns: int, submitter: str) -> Overload | None:
        """Return the load signal that is over its limit for one more batch; None if none is."""
        waiting = len(queue)
        if not waiting and queue is self._mailbox and not self._control.is_lagging:
            return None  # as a rule; no signal can be over its limit
        if waiting >= self._control.places:
            return self._control.full  # most refusals under overload: nothing else is looked at
        oldest = self._mailbox.oldest_for(submitter)
        load = self._control.load(now_ns, waiting, None if oldest is None else oldest.queued_ns)
        if load is None and waiting > self._limits.group_batches_max:
            return queue.beyond_share(submitter)
        return load

    def _reason(
        self, queue: BatchQueue, load: Overload | None, raw: object, submitter: str
    ) -> Overload | None:
        """Return the load for which a batch is refused unchecked; None if it is to be checked."""
        if load is None or self.is_draining:
            return Overload(RefusalCode.OVERLOADED, DRAINING, len(self), 0)
        return queue.screen(load, raw, submitter)

    def _rejected_at_ingress(
        self, queue: BatchQueue, load: Overload, now_ns: int, is_dry_run: bool = False
    ) -> "asyncio.Future[Verdict]":
        """Refuse a batch for a load. Consecutive refusals share one verdict: it names no batch.

        A dry run is not counted, so it gets a separate answer.
        """
        if is_dry_run:
            reply: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
            reply.set_result(self.refuse(self._refusal(queue, load, now_ns), is_dry_run=True))
            return reply
        cached, durable_seq = self._last_cached, self._committer.durable_seq
        if cached is None or cached.load is not load:
            cached = self._cached.get((load.signal, load.value))
        if (
            cached is None
            or now_ns >= cached.until_ns
            or cached.seq != durable_seq
            or not cached.left
            or (cached.load is not load and cached.load != load)
        ):
            cached = CachedRefusal(load, self.refuse(self._refusal(queue, load, now_ns)), now_ns)
            if len(self._cached) >= CACHED_USES_MAX:
                self._cached.clear()
            self._cached[load.signal, load.value] = cached
        else:
            cached.left -= 1
            self._group_metrics.count_rejected(cached.verdict)
        self._last_cached = cached
        if load.is_for_all and self._may_cache:
            queue.cached_refusal = cached
        return cached.reply

    def _refuse_malformed(
        self,
        reply: "asyncio.Future[Verdict]",
        verdict: Verdict,
        raw: object,
        submitter: str,
        now_ns: int,
    ) -> "asyncio.Future[Verdict]":
        """Answer a batch that the structure stage refused, and charge the work of its check."""
        self._group_metrics.count_refused(verdict)
        if submitter != OPERATOR:
            work = _intents_count(raw, self._limits) * REFUSED_INTENT_WORK
            self.charge_unpaid((Unpaid(submitter, 0, work),), now_ns)
        return self._answer(reply, verdict)

    def _put_for_step(self, waiting: QueuedBatch, submitter: str) -> None:
        """Hold a batch of a stepped world, or queue it if it may be decided at once.

        Raises:
            TimeStalledError: The batch would be held for a step, and no step will come.
        """
        checked = waiting.batch
        queue = self._mailbox if self._is_immediate(checked) else self._held
        if queue is self._held and self.stalled is not None:
            raise self.stalled
        self._put(queue, waiting, self._load(queue, waiting.since_ns, submitter))
        if queue is self._held and self.on_held is not None and not waiting.reply.done():
            self.on_held(checked)

    def _put(self, queue: BatchQueue, waiting: QueuedBatch, load: Overload | None) -> None:
        now_ns = waiting.since_ns
        if self._owing and waiting.batch.submitter == OPERATOR:
            owed = self._debts.refusal(waiting.batch.agents[0], now_ns)
            if owed is not None:
                waiting.reply.set_result(self.refuse(owed, waiting.batch.dry_run))
                return
        if load is None:
            try:
                ahead = queue.post_nowait(waiting, len(waiting.batch.encoded))
            except MailboxFull as full:
                load = Overload(RefusalCode.QUEUE_FULL, full.signal, full.value, full.limit)
            else:
                if not ahead and queue is self._mailbox:
                    self.woken_ns = now_ns
                return
        reason = queue.enqueue_under_load(waiting, load)
        if reason is not None:
            refusal = self._refusal(queue, reason, now_ns)
            waiting.reply.set_result(self.refuse(refusal, waiting.batch.dry_run))

    def _refusal(self, queue: BatchQueue, load: Overload, now_ns: int) -> Refusal:
        return self._control.refusal(load, now_ns, queue.received)

    def _is_immediate(self, batch: CheckedBatch) -> bool:
        """Return whether a stepped world decides a batch before its next step.

        That holds for dry runs and for batches scheduled for a later time.
        """
        later = batch.sim_time_ns is not None and batch.sim_time_ns > self._clock.now_ns()
        return batch.dry_run or later

    def __len__(self) -> int:
        queues = (self._mailbox, self._held)
        return sum(len(queue) + queue.waiters_count for queue in queues)

    def _answer(
        self, reply: "asyncio.Future[Verdict]", verdict: Verdict
    ) -> "asyncio.Future[Verdict]":
        """Answer a batch without deciding it, once all that the answer reveals is durable."""
        waiting, limit = self._committer.waiting, self._control.places
        if waiting < limit:
            self._committer.offer(CycleOutput(None, [(reply, verdict)]))
        else:
            load = Overload(RefusalCode.QUEUE_FULL, "answers_waiting", waiting, limit)
            now_ns = self._clock.monotonic_ns()
            refusal = self._refusal(self._mailbox, load, now_ns)
            reply.set_result(self.refuse(refusal, verdict.dry_run))
        return reply

    # called by the queues (`Admission`)

    def overload_of(self, queue: BatchQueue, submitter: str) -> Overload | None:
        """Return the load signal that keeps a submitter's batch in the wait queue now.

        None if none.

        While the world closes or drains, only room counts: no other batches will come.
        """
        is_last = self.is_closed or self.is_draining
        return None if is_last else self._load(queue, self._clock.monotonic_ns(), submitter)

    def priority_of(self, batch: CheckedBatch) -> int:
        """Return the effective priority of a batch: its own, capped.

        The cap is the lowest of those of the agents that it names and of its submitter.
        """
        names: tuple[str, ...] = batch.agents
        if len(names) > 1 or names[0] != batch.submitter:
            names = (*names, batch.submitter)
        return min(batch.priority, priority_cap(names, self._kernel.ledger))

    def priority_cap(self, submitter: str) -> int:
        """Return the highest priority that a submitter's batch may have."""
        return priority_cap((submitter,), self._kernel.ledger)

    def answer_shed(self, waiting: QueuedBatch, priority: int, load: Overload) -> None:
        """Refuse a batch that a batch of higher priority displaced, unless it was canceled.

        Args:
            waiting: The displaced batch.
            priority: Its priority.
            load: The load signal that was over its limit.
        """
        if waiting.reply.done():  # canceled before
            return
        refusal = self._refusal(self._mailbox, load, self._clock.monotonic_ns())
        resolve(waiting.reply, self.refuse(shed_for(refusal, priority), waiting.batch.dry_run))


def _is_dry_run(raw: object) -> bool:
    return type(raw) is dict and raw.get("dry_run") is True


def _seems_immediate(raw: object) -> bool:
    return type(raw) is dict and bool(raw.get("dry_run") or raw.get("sim_time") is not None)


def _intents_count(raw: object, limits: Limits) -> int:
    """Return how many intents of a refused batch were validated at most; at least 1."""
    listed = raw.get("intents") if type(raw) is dict else raw
    count = len(listed) if type(listed) is list or type(listed) is tuple else 1
    return count if 0 < count <= limits.batch_intents_max else 1  # another size: none was looked at
