"""An open world: its parts, put together, watched over, and taken down in order.

    orchestrator > committer > publisher and executors, all under one supervisor

Shutdown goes from the front: effects are no longer started, queued batches are decided, decisions
become durable, then the tasks end and the store is released.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
from anyio import to_thread

from placet.actors.admission.time_scaled_queue import Dilation
from placet.actors.committer import Committer, CycleOutput
from placet.actors.effects.dispatcher import Executors, nothing
from placet.actors.metrics import Counters
from placet.actors.observation.delayed_observer import Time
from placet.actors.observation.hub import ObserverHub
from placet.actors.observation.viewer import Viewer
from placet.actors.orchestrator_actor import OrchestratorActor
from placet.actors.policies.runner import PolicySupervisor
from placet.actors.policies.subscriptions import SubscriptionTable
from placet.actors.ports import AgentIdentity, Clock, EventLog
from placet.actors.publisher import Publisher
from placet.actors.supervisor import HomeLoop, Supervisor, TaskFailure, ignore
from placet.kernel.columns.batch import ColumnBatch
from placet.kernel.kernel import Kernel
from placet.kernel.log.replay import Replayer
from placet.kernel.state.tree import State
from placet.runtime.config import OrchestratorConfig
from placet.runtime.log_follower import LogFollower
from placet.runtime.telemetry.fault_reports import FaultReports
from placet.runtime.telemetry.watchdog import RuleWatchdog, RunningRule
from placet.runtime.world_time import WorldTime
from placet.schemas.batch import CheckedBatch
from placet.schemas.codec import Json
from placet.schemas.errors import PlacetError, StoreError, error_of
from placet.schemas.limits import SECOND_NS
from placet.schemas.log.record import Forked, LogAppend, record_hash
from placet.schemas.verdict import Verdict
from placet.stores.snapshots.files import snapshots_of
from placet.stores.snapshots.recovery import Recovery
from placet.stores.snapshots.scheduler import SnapshotScheduler
from placet.stores.snapshots.writer import SnapshotProcess
from placet.stores.url import environment_of, lasting_url_of

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from placet.kernel.columns.verdict import ColumnVerdict
    from placet.runtime.telemetry.prometheus import MetricsServer
    from placet.runtime.telemetry.world_logger import WorldLogger
    from placet.stores.anchors import AnchorWriter

T = TypeVar("T")


class WorldRuntime:
    """The parts of one open world, with their start and stop.

    Args:
        config: The user's configuration.
        log: The log, opened for writing.
        epoch: The epoch that `log.open` returned.
        kernel: The kernel, loaded with the log's history.
        records: The list to which the kernel's journal appends new records.
        clock: The clock; None for the configured one.
        recovery: How the history was read; None if there was no history.
        follower: Follows the log in a read-only world; None in other worlds.

    Attributes:
        is_read_only: Another process may write the log; nothing is decided here.
        failed: Event that is set once a failure has stopped the world (`committer.failure`).
        faults: The latest faults, since the world was opened.
        home: The event loop of its actors.
        handle_numbers: Numbers of agent handles, so that the req_ids of no two handles are equal.
    """

    def __init__(
        self,
        config: OrchestratorConfig,
        log: EventLog,
        epoch: int,
        kernel: Kernel,
        records: list[bytes],
        clock: Clock | None = None,
        *,
        recovery: Recovery | None = None,
        follower: LogFollower | None = None,
    ) -> None:
        limits = kernel.config.limits
        self.home, self.faults = HomeLoop(), FaultReports()
        self.config = config
        self.log = log
        self.epoch = epoch
        self.kernel = kernel
        self.limits = limits
        self.handle_numbers = count(1)
        self.time = WorldTime(config, kernel.ledger.now_ns, clock, self._on_dilated, self._on_stall)
        self.clock, self.timers = self.time.clock, self.time.timers
        self.counters = counters = Counters(kernel.registry.kinds)
        in_flight_max, durable = limits.groups_in_flight_max, self._on_durable
        self.committer = Committer(log, epoch, self.clock, counters, in_flight_max, durable)
        self.publisher = Publisher(log, limits.subscriber_events_max, self.committer.position)
        self.actor = OrchestratorActor(
            kernel,
            records,
            self.committer,
            self.clock,
            counters,
            backpressure=config.backpressure,
            on_group=self._on_group if config.log_level in {"debug", "info"} else None,
            on_warned=self._on_warned,
        )
        self.viewer = Viewer(kernel)
        self.observing = self._make_observing(kernel)
        self.supervisor = Supervisor(limits, self.clock, self._on_fault)
        self.policy_supervisor = PolicySupervisor(
            self.supervisor, kernel.ledger.agents, self._suspend, self._on_given_up
        )
        self.subscriptions = SubscriptionTable(kernel.registry, self._state_to_judge_by)
        self.executors = Executors(
            kernel, self.actor, self.supervisor, self.clock, counters, on_fault=self._on_error
        )
        self.metrics_server: MetricsServer | None = None
        self._recovery = recovery = recovery or Recovery(Replayer())
        snapshots = snapshot_scheduler(config, log, epoch, counters, recovery, self._on_error)
        self._snapshot_scheduler = snapshots
        self._follower, self.is_read_only = follower, follower is not None
        # Not None iff the actors run: `stop` takes it, so that only the first call ends them.
        self._root: asyncio.Task[None] | None = None
        # `_is_ending`: true iff `_end` was called; a fault that follows from the failure of the
        # committer is then not reported again. `_removals`: the ledger's count when removed
        # agents were last ended here.
        self._is_ending, self._removals = False, kernel.ledger.removals
        self.failed = anyio.Event()
        kernel.rules.on_fault = self._on_error
        self._watch()

    async def start(self) -> None:
        """Start the actors; make the records durable that the kernel wrote on opening."""
        self.committer.begin(*self.kernel.history_end, self.kernel.history_head)
        started = anyio.Event()
        for sentence in self._recovery.skipped:
            self._reports.warning(sentence)
        if self.kernel.idle_names:
            self._reports.warning("; ".join(self.kernel.idle_names))
        if self.config.clock == "realtime" and self.config.log_level not in {"error", "critical"}:
            for domain in self.kernel.registry.with_on_tick:
                self._reports.warning(
                    f"on_tick of {domain.name} never runs with clock='realtime'; open the world "
                    "with clock='stepped', or 'next_event' and tick_s"
                )
        self._root = asyncio.create_task(self.supervisor.run(started), name="placet")
        self._watchdog.start()
        await started.wait()
        for name, run in (("committer", self.committer.run), ("orchestrator", self.actor.run)):
            self.supervisor.start(name, run, self._on_escalation, restarts=False)
        if self._snapshot_scheduler is not None:
            seq, records = self.kernel.history_end
            self._snapshot_scheduler.note(records, seq)
        await self.actor.command(nothing)
        if self._anchors is not None:
            await self._anchors.append()
            self.supervisor.start("anchors", self._anchors.run, ignore)
        if self._follower is not None:
            await self.actor.pause()  # the writer decides the scheduled batches
            follow = partial(self._follower.run, self._on_followed)
            self.supervisor.start("follower", follow, self._on_escalation, restarts=False)
        if self.time.participants is not None:
            run = self.time.next_event(self.kernel, self.actor, self.executors).run
            self.supervisor.start("time", run, self._on_escalation, restarts=False)
        if self.config.metrics_port is not None:
            from placet.runtime.telemetry.prometheus import serve_metrics  # noqa: PLC0415  # 69 ms

            self.metrics_server = serve_metrics(self.metrics_registry, self.config.metrics_port)

    def require_home_to_stop(self) -> None:
        """Check that the caller may stop this world: it runs in the world's event loop.

        If that loop has ended, the actors have too, and nothing more is written: the store is
        released, so that it can be opened again.

        Raises:
            RuntimeError: It does not, and the world is not stopped.
        """
        if self._root is None:
            return
        try:
            self.home.require()
        except RuntimeError:
            if self.home.is_closed:
                self._root = None
                self._watchdog.stop()
                if self._snapshot_scheduler is not None:
                    self._snapshot_scheduler.close()
                self.log.close()
            raise

    async def stop(self) -> None:
        """Stop all parts in order, within `shutdown_seconds_max`."""
        if self._root is None:
            return
        root, self._root = self._root, None
        with anyio.move_on_after(self.limits.shutdown_seconds_max):
            if self.committer.failure is None:
                await self.executors.finish()
            self.actor.close()
            await self.actor.ended.wait()
            await self.committer.flush()
        self.actor.close()
        self.actor.shed("the world was closed")
        if self._snapshot_scheduler is not None:
            await to_thread.run_sync(self._snapshot_scheduler.close)
        self.supervisor.stop()
        await root
        self.committer.close()
        await to_thread.run_sync(self._watchdog.stop)
        if self._anchors is not None:
            await self._anchors.try_append()
        self._end()
        if "_reports" in self.__dict__:  # it is made by the first report
            self._reports.end()
        if self.metrics_server is not None:
            await to_thread.run_sync(self.metrics_server.close)
        await in_thread_if(self.log.is_blocking, self.log.close)

    async def check_writable(self) -> None:
        """Check by one durable write that the world still decides and its store can be written.

        In a read-only world, check that the store can be read.

        Raises:
            ClosedError, StoreError: The world is closed, has failed, or fails now.
        """
        await self.actor.command(nothing)
        if self.is_read_only:
            await in_thread_if(self.log.is_blocking, self.log.count)
        else:
            await self.committer.check_writable()

    async def change_agent(self, agent_id: str, change: str) -> None:
        """Suspend, resume or remove an agent durably; its policy is paused, resumed or ended.

        `change` is `suspended`, `resumed` or `removed`.

        Raises:
            AgentError: There is no such agent.
        """
        try:
            await self.actor.operate(lambda k: self.actor.change_agent(k, agent_id, change))
        finally:  # the change may be done although its caller was canceled
            self.policy_supervisor.sync(agent_id)

    @cached_property
    def metrics_registry(self) -> "CollectorRegistry":
        """The Prometheus registry of this world, created when it is first read."""
        from placet.runtime.telemetry.prometheus import create_registry  # noqa: PLC0415  # 69 ms

        return create_registry(self.counters)

    @property
    def forked_from(self) -> tuple[str, int] | None:
        """Name and seq of the parent from which this world was forked; None if it is no fork."""
        header = self._recovery.past.header
        return header.forked_from if isinstance(header, Forked) else None

    async def submit(
        self,
        batch: object,
        submitter: str,
        dry_run: bool = False,
        identity: AgentIdentity | None = None,
        *,
        fill_missing: bool = False,
        shows_changes: bool = False,
    ) -> Verdict:
        """Submit a batch and return its verdict, also of a refusal."""
        reply = self.actor.post_batch(
            batch,
            submitter,
            dry_run,
            identity,
            fill_missing=fill_missing,
            shows_changes=shows_changes,
        )
        if reply.done():  # refused at admission: who retries in a loop yields to others
            await asyncio.sleep(0)
        return await reply

    async def submit_columns(self, batch: ColumnBatch) -> "ColumnVerdict":
        """Submit a column batch, and return its verdict once it is durable.

        Raises:
            BackpressureError: It was refused for load, and not decided.
            ValueError: Its form is wrong.
        """
        reply: asyncio.Future[Any] = self.actor.post_columns(batch)
        if reply.done():
            await asyncio.sleep(0)
        verdict: Verdict | ColumnVerdict = await reply
        if isinstance(verdict, Verdict):
            raise error_of(verdict)
        return verdict

    async def submit_intents(
        self,
        intents: Iterable[Mapping[str, Json]],
        sim_time: float | None,
        submitter: str,
        identity: AgentIdentity | None = None,
    ) -> list[str]:
        """Submit intents as one batch, and return their req_ids in order.

        Raises:
            PlacetError: The batch was refused; the subclass depends on the first refusal.
        """
        value: object = intents
        if isinstance(value, Iterable) and not isinstance(value, Mapping | str | bytes):
            value = list(value)  # any other value is left for the structure stage
        batch = {"intents": value, "sim_time": sim_time}
        verdict = await self.submit(
            batch, submitter, identity=identity, fill_missing=identity is not None
        )
        if not verdict.admitted:
            raise error_of(verdict)
        return list(verdict.req_ids)

    def statistics(self) -> dict[str, Json]:
        """Return the counts and latencies of this world as plain JSON."""
        return {
            **self.counters.statistics(),
            "seq": self.committer.durable_seq,
            "records": self.committer.durable_records,
            "head": self.committer.head.hex(),
            "agents": self.kernel.ledger.agent_count,
            "waiting": len(self.actor),
            "time": {**self.time.statistics(), "late": self.actor.barrier.lates},
            "outbox": len(self.kernel.ledger.outbox),
            "effects": self.executors.statistics(),
            "observers": self._count_observers(),
            "restarts": self.supervisor.restarts,
            "policies": self.policy_supervisor.counts(),
            "store": self.log.url,
            "durability": self.log.durability,
        }

    def _on_durable(self, output: CycleOutput) -> None:
        if output.append is not None:
            if self.publisher.is_observed:
                self.publisher.publish(output.append)
            if self.observing.is_observed:
                self.observing.publish(output.append)
            if self.subscriptions.open:
                self.subscriptions.publish(output.append)
            if self.kernel.ledger.removals != self._removals:  # a rule may have removed an agent
                self._removals = self.kernel.ledger.removals
                self.policy_supervisor.sync_all()
            if self._snapshot_scheduler is not None:
                self._snapshot_scheduler.note(self.committer.durable_records, output.append.seq)
        if output.effects:
            self.executors.take(output.effects)
        if self.executors.is_awaited:
            self.executors.notify()
        if self.time.participants is not None:
            self.time.participants.notify()

    def _on_followed(self, append: LogAppend) -> None:
        """Publish records that another process wrote, and that are folded by now."""
        self.kernel.note_followed()
        head = record_hash(append.records[-1])
        self.committer.begin(append.seq, append.first_record + len(append.records), head)
        self.timers.wake()
        self._on_durable(CycleOutput(append))

    def _make_observing(self, kernel: Kernel) -> ObserverHub:
        timers = self.timers
        time = Time(self.clock.now_ns, timers.sleep_until, timers.idle, kernel.config.seed)
        hub = ObserverHub(kernel.registry, self._on_error, time)
        hub.require_home = self.home.require
        return hub

    @cached_property
    def _anchors(self) -> "AnchorWriter | None":
        path = self.config.anchors
        if path is None:
            return None
        from placet.stores.anchors import AnchorWriter  # noqa: PLC0415  # few worlds need it

        def position() -> tuple[int, int, bytes]:
            return (*self.committer.position(), self.committer.head)

        return AnchorWriter(Path(path), self.config.world, position, self._on_error)

    def _end(self) -> None:
        self._is_ending = True
        self.publisher.close()
        self.observing.close()
        self.executors.end(self.committer.failure)
        self.timers.end(self.committer.failure)
        self.actor.barrier.end()

    def _watch(self) -> None:
        counters, kernel = self.counters, self.kernel
        counters.watch("time_dilation", self.time.factor)
        counters.watch("barrier_late", lambda: self.actor.barrier.lates)
        counters.watch("seq", lambda: self.committer.durable_seq)
        counters.watch("agents", lambda: kernel.ledger.agent_count)
        counters.watch("log_bytes", self.log.size_bytes)
        counters.watch("observers", self._count_observers)
        counters.watch("observation_lag_seqs", self._observation_lag)
        counters.watch("observation_overflows", lambda: self.observing.overflows)

    def _count_observers(self) -> int:
        return self.publisher.observers + self.observing.count

    def _observation_lag(self) -> int:
        return max(self.publisher.lag_seqs, self.observing.lag_seqs)

    # faults

    @cached_property
    def _reports(self) -> "WorldLogger":
        from placet.runtime.telemetry.world_logger import WorldLogger  # noqa: PLC0415  # 209 ms

        config = self.config
        return WorldLogger(config.log_format, config.log_level, config.world, self.faults)

    @cached_property
    def _watchdog(self) -> RuleWatchdog:
        busy, limit_ms = self.actor, self.limits.loop_lag_ms_max
        return RuleWatchdog(lambda: busy.busy_since_ns, limit_ms, self.counters, self._on_runaway)

    def _on_runaway(self, rule: RunningRule, seconds: float) -> None:
        self._reports.runaway(rule.name, rule.place, seconds)

    def _on_group(self, verdicts: Sequence[Verdict]) -> None:
        self._reports.group(verdicts)

    def _on_warned(self, batch: CheckedBatch) -> None:
        self._reports.unknown_versions(batch)

    def _on_dilated(self, dilation: Dilation, wait_ns: int) -> None:
        self._reports.dilated(dilation.factor, wait_ns / SECOND_NS)

    def _on_stall(self, stalled: PlacetError) -> None:
        self._reports.warning(str(stalled))

    def _state_to_judge_by(self) -> State:
        """Return the published state if there is a replica, else the present state."""
        return self.observing.state or self.kernel.tree

    async def _suspend(self, agent_id: str, generation: int) -> None:
        def suspend(kernel: Kernel) -> None:
            agent = kernel.ledger.agents.get(agent_id)
            if agent is not None and agent.generation == generation:
                kernel.change_agent(agent_id, "suspended")

        await self.actor.command(suspend)

    def _on_given_up(self, agent_id: str, error: str | None) -> None:
        self._reports.warning(
            f"agent {agent_id!r} is suspended: its policy keeps failing, at last with {error}; "
            "resume it to try again"
        )

    def _on_error(self, where: str, error: BaseException) -> None:
        self._reports.fault(where, error, seq=self.kernel.seq)

    def _on_fault(self, fault: TaskFailure) -> None:
        if self._is_ending and fault.error is self.committer.failure:
            return  # the committer repeats what stopped the world, which was reported
        self._reports.fault(
            fault.name, fault.error, is_restarted=fault.is_restarted, seq=self.kernel.seq
        )

    def _on_escalation(self, name: str, error: BaseException) -> None:
        """Stop the world, so that no answer is released that may not hold after a restart."""
        failure = error
        if not isinstance(failure, StoreError):
            failure = StoreError(f"the {name} failed: {error!r}; the log ends before it")
        self.committer.fail(failure)
        self.actor.shed("the world has failed")
        self._end()
        self.failed.set()


def snapshot_scheduler(
    config: OrchestratorConfig,
    log: EventLog,
    epoch: int,
    counters: Counters,
    recovery: Recovery,
    on_fault: Callable[[str, BaseException], None],
) -> SnapshotScheduler | None:
    """Make the scheduler of a log's snapshots; None if the log is in memory, or none are wanted."""
    if config.snapshot_every_seqs is None or snapshots_of(log) is None:
        return None
    seconds_max, environment = config.limits.snapshot_seconds_max, environment_of(log)
    return SnapshotScheduler(
        log,
        epoch,
        SnapshotProcess(lasting_url_of(log), config.snapshots_kept, seconds_max, environment),
        counters,
        every=config.snapshot_every_seqs,
        recovery=recovery,
        is_compacting=config.compact_log,
        on_fault=on_fault,
    )


async def in_thread_if(is_blocking: bool, act: Callable[[], T]) -> T:
    """Call a function and return its result: in a thread if it may block, else directly."""
    return await to_thread.run_sync(act) if is_blocking else act()
