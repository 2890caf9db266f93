"""The single writer of a world: decides queued batches and offers the results to the committer.

Waiting batches are drained together (smart batching) and decided in chunks, so that a cycle of the
event loop stays short. It never awaits between reading and writing state. Its messages are
`QueuedBatch`, and the control messages `ControlMessage` and `StepMessage`, which are never shed.

Between two cycles no work is half done, so the first operator command that arrives then is executed
at once, in a separate cycle: it does not wait for a loaded event loop (decision 0024).
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

from placet.actors.admission.column_batches import QueuedColumns, refusals_of
from placet.actors.admission.ingress import Ingress
from placet.actors.admission.overload import timed_out, unauthorized
from placet.actors.admission.queue import Backpressure, BatchQueue, ControlMessage, StepMessage
from placet.actors.admission.shed_queue import SheddingQueue
from placet.actors.admission.time_scaled_queue import DilatingQueue
from placet.actors.admission.wait_queue import WaitingQueue
from placet.actors.barrier import Barrier
from placet.actors.committer import Committer, CycleOutput, resolve
from placet.actors.metrics import Counters, GroupMetrics, GroupReport
from placet.actors.ports import Clock, DilatingClock, HostClock
from placet.actors.queued_batch import QueuedBatch
from placet.actors.timers.lease_waiters import LeaseWaiters
from placet.actors.timers.timer_queue import OneShotTimer
from placet.kernel.kernel import Kernel
from placet.schemas.batch import CheckedBatch
from placet.schemas.errors import INTERRUPTS, StoreError
from placet.schemas.limits import SECOND_NS, SIM_TIME_NS_MAX, UNLIMITED, Limits
from placet.schemas.log.record import LogAppend
from placet.schemas.verdict import Verdict

if TYPE_CHECKING:
    from placet.schemas.effect import Effect

T = TypeVar("T")
Submitted: TypeAlias = list[asyncio.Future[Verdict]]
"""The replies of batches, in order of submission."""

_MS_NS = 1_000_000


class OrchestratorActor:
    """The single writer of one world: decides queued batches and runs commands, cycle by cycle.

    Args:
        kernel: Decides batches. Only the orchestrator changes its state; the ingress checks
            batches with it and reads the ledger, in the same thread.
        records: The list to which the kernel's journal appends the records of the present cycle.
        committer: Makes decisions durable, then releases their answers.
        clock: The simulated time; a `HostClock` makes a stepped world.
        counters: Metrics of the world, updated once per group.
        backpressure: The overflow policy of the queue (`queue.py`).
        on_group: Called with the verdicts of each group, for logging; None to skip it.

    Attributes:
        post_batch: Submits a batch (`Ingress.post_batch`).
        post_columns: Submits a column batch (`Ingress.post_columns`).
        refuse: Returns the verdict of a refused batch, and counts it (`Ingress.refuse`).
        shed: Answers all queued messages without deciding them (`Ingress.shed`).
        stall: Fails the batches held for a step that will not come (`Ingress.stall`).
        lease_waiters: The agents that wait for their turn at leased entities.
        start_effects: Called with the effects of a group before it is written; None for no call.
        barrier: The barrier at which the host of a stepped world waits for its agents.
        ended: Set when `run` has returned or failed.
        busy_since_ns: Real monotonic time at which the present cycle began; 0 between cycles.
    """

    def __init__(
        self,
        kernel: Kernel,
        records: list[bytes],
        committer: Committer,
        clock: Clock,
        counters: Counters,
        *,
        backpressure: Backpressure = "reject",
        on_group: GroupReport | None = None,
        on_warned: Callable[[CheckedBatch], None] | None = None,
    ) -> None:
        limits = kernel.config.limits
        self._kernel = kernel
        self._records = records
        # Seq and record count up to which the committer has been offered all records: `_records`
        # continues there, and is empty between cycles.
        self._offered_end = kernel.history_end
        self._committer = committer
        self._clock = clock
        self._advance = clock.advance if isinstance(clock, HostClock) else None
        self._group_metrics = GroupMetrics(counters, on_group)
        self._limits = limits
        self._mailbox = _make_queue(backpressure, limits, clock)
        self._held = _make_queue(backpressure, limits, clock)
        self._ingress = ingress = Ingress(
            kernel, committer, clock, self._group_metrics, self._mailbox, self._held
        )
        ingress.on_warned = on_warned
        # The clients' interface of the ingress. Bound once: a method would cost a call per batch.
        is_stepped = self._advance is not None
        self.post_batch = ingress.post_for_step if is_stepped else ingress.post_batch
        self.post_columns = ingress.post_columns
        self.refuse, self.shed = ingress.refuse, ingress.shed
        self.stall = ingress.stall
        self.barrier = Barrier(ingress)
        self._due_timer = OneShotTimer(clock, self._mailbox.wake)
        self.lease_waiters = LeaseWaiters(kernel.ledger, self._set_timer)
        self.start_effects: Callable[[list[Effect]], None] | None = None
        self.ended = asyncio.Event()
        self.busy_since_ns = 0
        # True iff no operator command and no step came since the last cycle: then a command may run
        # at once, because it can overtake neither.
        self._is_free = True
        counters.watch("mailbox_depth", self.__len__, "orchestrator")
        counters.watch("mailbox_oldest_seconds", self._oldest_seconds)

    # what clients call

    async def command(self, act: Callable[[Kernel], T]) -> T:
        """Call a function with the kernel in the next cycle, before all queued batches.

        Returns:
            The result of `act`, once everything that it could read is durable.

        Raises:
            ClosedError, StoreError: The world is closed, or has failed.
        """
        self._ingress.check_open()
        reply: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._mailbox.post_control(ControlMessage(act, reply))
        return await reply

    async def operate(self, act: Callable[[Kernel], T]) -> T:
        """Call a function with the kernel for the operator and return its result.

        It runs at once if between two cycles.

        At most one operator command runs between two cycles; further commands are queued so that
        batches are not starved. Commands of agents and executors go through the mailbox: of many,
        the first after a cycle would otherwise always win.

        Raises:
            ClosedError, StoreError: The world is closed, or has failed.
        """
        if not self._is_free:
            return await self.command(act)
        self._ingress.check_open()
        self._is_free = False
        reply: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        with self._cycle() as output:
            self._execute_command(ControlMessage(act, reply), output)
        self._mailbox.wake()  # the command may have made a batch due, or resumed the world
        return await reply

    async def step(self, dt_ns: int, *, is_tick: bool = True) -> list[Verdict]:
        """Advance a stepped world: decide all held and due batches as one group, then tick.

        Args:
            dt_ns: Nanoseconds to advance by.
            is_tick: False to advance to a moment between two ticks.

        Returns:
            The verdicts of the batches submitted since the last step, in order of submission: the
            held ones, those refused before they were held, and those scheduled for later. Not of
            dry runs and canceled batches.

        Raises:
            ClosedError, StoreError: The world is closed, or has failed.
        """
        self._ingress.check_open()
        reply: asyncio.Future[Submitted] = asyncio.get_running_loop().create_future()
        self._is_free = False  # no operator command may overtake the step
        self._mailbox.post_control(StepMessage(dt_ns, reply, is_tick))
        submitted = await reply
        # Only the overflow policy `wait` leaves some unanswered: they did not fit in the queue.
        self._ingress.put_back_submitted([one for one in submitted if not one.done()])
        return [
            one.result()
            for one in submitted
            if one.done() and not one.cancelled() and one.exception() is None
        ]

    def change_agent(self, kernel: Kernel, agent_id: str, change: str) -> None:
        """Apply a change of an agent's status to the kernel; call it inside a command.

        Scheduled batches that the change invalidates are refused and counted.

        Raises:
            AgentError: There is no such agent.
        """
        started_ns = self._clock.monotonic_ns()
        answers = kernel.change_agent(agent_id, change)
        if answers:
            self._group_metrics.count_group(answers, self._clock.monotonic_ns() - started_ns)

    async def pause(self) -> None:
        """Decide no batches until `resume`; they are queued within the limits.

        Control messages are handled. Returns once everything decided before is durable.

        Raises:
            ClosedError, StoreError: The world is closed, or has failed.
        """
        await self.operate(lambda _kernel: self._mailbox.pause())

    async def resume(self) -> None:
        """Undo `pause` and `drain`.

        Raises:
            ClosedError, StoreError: The world is closed, or has failed.
        """
        await self.operate(lambda _kernel: self._ingress.resume())

    async def drain(self) -> None:
        """Reject new batches until `resume`, and decide the queued ones, including the wait queue.

        Returns once the queued batches are decided and durable. Batches held by a stepped world
        belong to its next step.

        Raises:
            ClosedError, StoreError: The world is closed, or has failed.
        """
        self._ingress.check_open()
        self._ingress.drain()
        owed = [reply for reply in self._mailbox.replies() if not reply.done()]
        if owed:
            await asyncio.wait(owed)
        await self.command(lambda _kernel: None)

    def close(self) -> None:
        """Stop accepting messages; `run` returns when the queued batches are decided."""
        self._ingress.close()

    def __len__(self) -> int:
        return len(self._ingress)

    @property
    def held(self) -> int:
        """Number of batches held for the next step."""
        return len(self._held)

    @property
    def is_paused(self) -> bool:
        """Whether no batches are decided, and a stepped world cannot be stepped."""
        return self._mailbox.is_paused

    # the loop

    async def run(self) -> None:
        """Decide queued batches, cycle by cycle, until closed and drained."""
        try:
            while self._committer.failure is None:
                self._is_free = True
                if self._mailbox.is_idle:
                    if self._ingress.is_closed:
                        return
                    self._set_timer()
                    await self._mailbox.wait()
                with self._cycle() as output:
                    self._run_cycle(output)
                if self.lease_waiters.waiting:
                    self.lease_waiters.wake(self._clock.now_ns())
                if self._committer.is_full:
                    await self._committer.room()
                    self._ingress.woken_ns = 0  # the wait was for the store, not for the event loop
                await asyncio.sleep(0)  # let the tasks that were answered run
        finally:
            self._due_timer.clear()
            self.lease_waiters.end(self._committer.failure)
            self.ended.set()

    def _set_timer(self) -> None:
        """Set the timer to the next due batch, or the next call of a waiting agent."""
        if self._advance is None and not self._mailbox.is_paused:
            self._due_timer.set(self._next_ns())

    def _next_ns(self) -> int | None:
        """Return the next time at which a batch is due, or a waiting agent is called."""
        called_ns: int | None = None
        if self.lease_waiters.waiting:
            now_ns = self._clock.now_ns()
            self.lease_waiters.wake(now_ns)
            called_ns = self.lease_waiters.next_ns(now_ns)
        times = (self._kernel.ledger.next_due_ns, called_ns)
        return min((at_ns for at_ns in times if at_ns is not None), default=None)

    @contextmanager
    def _cycle(self) -> Iterator[CycleOutput]:
        """Offer together the work done inside the block; if it fails half way, stop the world."""
        output = CycleOutput()
        self.busy_since_ns = time.monotonic_ns()
        try:
            yield output
            self._offer(output)
        except BaseException as error:
            self._fail_cycle(output, error)
            fault = self._kernel.rules.raised
            if fault is None or fault.error is not error:  # else the world's owner raises it
                raise
        finally:
            self.busy_since_ns = 0

    def _run_cycle(self, output: CycleOutput) -> None:
        """Execute the control messages, then decide a chunk of the queued batches."""
        while (message := self._mailbox.take_control()) is not None:
            self._execute_command(message, output)
        waiting = self._take()
        now_ns = self._clock.now_ns()
        if waiting or (self._advance is None and self._is_due(now_ns)):
            self._ingress.measure_lag()
            limits = self._limits
            if self._ingress.has_columns:
                waiting = self._turn_of(waiting)
            self._decide(waiting, now_ns, output, limits.group_work_max, limits.group_batches_max)

    def _turn_of(self, waiting: list[QueuedBatch]) -> list[QueuedBatch]:
        """Return the batches before the first column batch, or that batch alone; put back the rest.

        So a column batch is a turn by itself, and the order of a submitter is kept.
        """
        run, *others = _runs_of(waiting)
        if others:
            self._mailbox.put_back([queued for other in others for queued in other])
        return run

    def _fail_cycle(self, output: CycleOutput, error: BaseException) -> None:
        """Stop the world: a cycle failed half way, so its state differs from the log."""
        failure = StoreError(
            f"the orchestrator failed with {error!r}; the log ends before this cycle, "
            "and the batches that it took are not decided; open the world again"
        )
        self._committer.fail(failure)
        output.fail(self._committer.failure or failure)

    def _take(self) -> list[QueuedBatch]:
        """Take a chunk: at most a group of batches, at most `group_ms_max` worth of intents."""
        intents_max = self._limits.group_ms_max * _MS_NS // self._group_metrics.ns_per_intent
        return self._mailbox.take(self._limits.group_batches_max, intents_max)

    def _execute_command(self, message: ControlMessage | StepMessage, output: CycleOutput) -> None:
        """Execute a control message if its sender still waits.

        An exception of the command is raised to it.
        """
        if message.reply.done():
            return
        output.owed.append(message.reply)
        result: object
        if isinstance(message, StepMessage) and self._mailbox.is_paused:
            result = ValueError("the world is paused, and time with it; resume it before a step")
        elif isinstance(message, StepMessage) and self._passes_the_end(message):
            end_s, dt_s = SIM_TIME_NS_MAX / SECOND_NS, message.dt_ns / SECOND_NS
            result = ValueError(f"simulated time ends at {end_s:g} s, a step of {dt_s!r} passes it")
        elif isinstance(message, StepMessage):
            result = self._step(message, output)
        else:
            result = self._act(message)
        output.replies.append((message.reply, result))

    def _act(self, message: ControlMessage) -> object:
        """Return the result of a command, or the exception that is raised to its sender.

        Exceptions of the domain are contained here, also where they end a run of a scenario: the
        sender, such as an executor with an outcome, is not at fault.
        """
        rules = self._kernel.rules
        raises_faults, rules.raises_faults = rules.raises_faults, False
        try:
            result: object = message.act(self._kernel)
            self._ingress.fit_queues()  # it may have registered or removed an agent
        except INTERRUPTS:
            raise
        except BaseException as error:  # noqa: BLE001  # raised to the sender of the command
            result = error
        finally:
            if raises_faults:
                rules.raises_faults = True
        return result

    def _passes_the_end(self, step: StepMessage) -> bool:
        return self._clock.now_ns() + step.dt_ns >= SIM_TIME_NS_MAX

    def _step(self, step: StepMessage, output: CycleOutput) -> Submitted:
        assert self._advance is not None, "only a stepped world is stepped"
        mailbox = self._mailbox
        while len(mailbox):  # submitted before the step, so decided before it
            self._decide(mailbox.take(len(mailbox)), self._clock.now_ns(), output)
        now_ns = self._advance(step.dt_ns)
        self.barrier.note_step()
        submitted = self._ingress.take_submitted()
        held = self._held.take(len(self._held))
        for run in _runs_of(held) if self._ingress.has_columns else [held]:
            self._decide(run, now_ns, output)
        if step.is_tick:
            self._kernel.tick(now_ns / SECOND_NS)
        return submitted

    def _decide(
        self,
        waiting: list[QueuedBatch],
        now_ns: int,
        output: CycleOutput,
        work_max: int = UNLIMITED,
        due_max: int = UNLIMITED,
    ) -> None:
        """Decide batches as one group, with those due; put back those left when it is full.

        A column batch is alone in `waiting`, and is decided after those due.
        """
        started_ns = self._clock.monotonic_ns()
        output.owed += [queued.reply for queued in waiting]
        waiting = self._still_wanted(waiting, started_ns, output)
        columns: QueuedBatch | None = None
        if self._ingress.has_columns and waiting and type(waiting[0].batch) is QueuedColumns:
            columns, waiting = waiting[0], []
        batches = [queued.batch for queued in waiting]
        decision = self._kernel.decide_checked(
            batches, now_ns, release_intents=True, work_max=work_max, due_max=due_max
        )
        if decision.effects:
            output.effects += decision.effects
            if self.start_effects is not None:
                self.start_effects(decision.effects)
        verdict_of = dict(decision.answers)
        if decision.undecided:  # of the schedule too, which keeps its own
            self._mailbox.put_back([queued for queued in waiting if queued.batch not in verdict_of])
            waiting = [queued for queued in waiting if queued.batch in verdict_of]
        if decision.unpaid:
            self._ingress.charge_unpaid(decision.unpaid, started_ns)
        output.decided += [(queued, verdict_of[queued.batch]) for queued in waiting]
        self._group_metrics.count_group(decision.answers, self._clock.monotonic_ns() - started_ns)
        if columns is not None:
            self._decide_columns(columns, now_ns, output)

    def _decide_columns(self, queued: QueuedBatch, now_ns: int, output: CycleOutput) -> None:
        """Decide a column batch as a group by itself."""
        batch = queued.batch
        assert isinstance(batch, QueuedColumns), "the caller has looked at its type"
        verdict = self._kernel.decide_columns_alone(batch.columns, now_ns)
        self._group_metrics.count_columns(batch.columns.kind, verdict, refusals_of(verdict))
        output.decided.append((queued, cast("Verdict", verdict)))

    def _still_wanted(
        self, waiting: list[QueuedBatch], now_ns: int, output: CycleOutput
    ) -> list[QueuedBatch]:
        """Yield the batches still wanted.

        Skip canceled ones, and refuse expired ones and those of removed agents.
        """
        agents = self._kernel.ledger.agents
        wanted: list[QueuedBatch] = []
        for queued in waiting:
            batch, identity = queued.batch, queued.identity
            if queued.reply.done():
                continue
            if identity is not None:
                agent = agents.get(identity.agent_id)
                if agent is None or agent.generation != identity.generation:
                    refused = self.refuse(unauthorized(identity.agent_id), batch.dry_run)
                    output.replies.append((queued.reply, refused))
                    continue
            if batch.valid_for_ns is not None:
                waited_ns = self._mailbox.waited_ns(queued, now_ns)
                if waited_ns > batch.valid_for_ns:
                    refusal = timed_out(waited_ns, batch.valid_for_ns)
                    resolve(queued.reply, self.refuse(refusal, batch.dry_run))
                    continue
            wanted.append(queued)
        return wanted

    def _offer(self, output: CycleOutput) -> None:
        """Offer the cycle's records and replies to the committer, if there are any."""
        if self._records:
            seq_before, count = self._offered_end
            seq = self._kernel.ledger.seq
            output.append = append = LogAppend(count, seq_before, seq, tuple(self._records))
            self._offered_end = (append.seq, count + len(append.records))
            self._records.clear()
        if output.append is not None or output.decided or output.replies:
            self._committer.offer(output)

    # time

    def _is_due(self, now_ns: int) -> bool:
        due_ns = self._kernel.ledger.next_due_ns
        return due_ns is not None and due_ns <= now_ns and not self._mailbox.is_paused

    def _oldest_seconds(self) -> float:
        oldest = self._mailbox.oldest
        if oldest is None:
            return 0.0
        return (self._clock.monotonic_ns() - oldest.queued_ns) / SECOND_NS


def _runs_of(waiting: list[QueuedBatch]) -> list[list[QueuedBatch]]:
    """Split batches, in order, into runs that are decided together: each column batch is one.

    The first run is of ordinary batches or a column batch; an empty list is one empty run.
    """
    runs: list[list[QueuedBatch]] = [[]]
    for queued in waiting:
        is_columns = type(queued.batch) is QueuedColumns
        if runs[-1] and (is_columns or type(runs[-1][-1].batch) is QueuedColumns):
            runs.append([])
        runs[-1].append(queued)
    return runs


def _make_queue(backpressure: Backpressure, limits: Limits, clock: Clock) -> BatchQueue:
    """Build the queue of an overflow policy."""
    if backpressure == "wait":
        return WaitingQueue(limits, clock)
    if backpressure == "dilate":
        assert isinstance(clock, DilatingClock), "`dilate` needs a clock that can be slowed"
        return DilatingQueue(limits, clock)
    return SheddingQueue(limits) if backpressure == "shed_lowest" else BatchQueue(limits)
