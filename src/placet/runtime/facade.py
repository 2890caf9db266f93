"""The public face of one world: it puts the actors together, and takes them down in order.

    async with Orchestrator(World(), OrchestratorConfig(store="sqlite:///town.db")) as orchestrator:
        alice = await orchestrator.register_agent("alice", position=[0, 0, 0])
        await alice.submit_intents([alice.intent("Move", to=[1, 0, 0])])
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

import anyio
from anyio import to_thread

from placet.actors.agent import AgentActor
from placet.actors.committer import Commit, Committer
from placet.actors.counters import Counters
from placet.actors.door import unauthorized
from placet.actors.executor import Executor
from placet.actors.orchestrator import OrchestratorActor
from placet.actors.ports import Clock, EffectHandler, EventLog
from placet.actors.publisher import Publisher
from placet.actors.supervisor import Fault, Supervisor
from placet.actors.ticket import Ticket
from placet.actors.viewing import Viewer
from placet.kernel.domain import Domain
from placet.kernel.gate.domain_rules import EffectValidator
from placet.kernel.kernel import Kernel
from placet.runtime.agent_handle import AgentHandle
from placet.runtime.clock import RealtimeClock, SteppedClock
from placet.runtime.config import OrchestratorConfig
from placet.runtime.event_log_url import open_event_log
from placet.runtime.plugins import default_domain
from placet.schemas.codec import Json
from placet.schemas.config import QuotaSpec
from placet.schemas.errors import ClosedError, StoreError, error_of
from placet.schemas.event import Event
from placet.schemas.identity import OPERATOR
from placet.schemas.limits import SECOND_NS
from placet.schemas.verdict import Verdict
from placet.schemas.view import View

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from placet.runtime.metrics_prometheus import MetricsServer
    from placet.runtime.reports_structlog import Reports

T = TypeVar("T")


class Orchestrator:
    """One world: its state, its log, its actors. Use it as an async context manager.

    Args:
        domain: A domain, or several; None is an open `World()`.
        config: None is all defaults: in memory, in real time.
        effect_validator: A rule of the user's own, asked before each domain rule (seed 003).

    Raises:
        ValueError: The domain or the configuration is unsound.
    """

    def __init__(
        self,
        domain: Domain | Sequence[Domain] | None = None,
        config: OrchestratorConfig | None = None,
        *,
        effect_validator: EffectValidator | None = None,
    ) -> None:
        self.config = config or OrchestratorConfig()
        self._domain = default_domain() if domain is None else domain
        self._validator = effect_validator
        self._world: _World | None = None

    async def __aenter__(self) -> Self:
        if self._world is not None:
            raise ClosedError("the world is open already; open another one beside it")
        records: list[bytes] = []
        log = open_event_log(self.config.store, self.config.kernel_config().limits)
        try:
            epoch, kernel = await _in_thread_if(log.is_blocking, lambda: self._load(log, records))
        except BaseException:
            log.close()
            raise
        self._world = _World(self.config, log, epoch, kernel, records)
        await self._world.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Decide what waits, make it durable, let effects finish within the limit, and let go.

        Harmless if done twice.
        """
        if self._world is not None:
            with anyio.CancelScope(shield=True):
                await self._world.stop()

    def _load(self, log: EventLog, records: list[bytes]) -> tuple[int, Kernel]:
        epoch = log.open()
        kernel = Kernel(
            self._domain,
            self.config.kernel_config(),
            effect_validator=self._validator,
            sink=records.append,
            history=(data for _, data in log.read()),
        )
        return epoch, kernel

    @property
    def _open(self) -> "_World":
        if self._world is None:
            raise ClosedError("the world is not open; use `async with Orchestrator(...)`")
        return self._world

    # agents

    async def register_agent(
        self,
        agent_id: str,
        *,
        permissions: Iterable[str] | None = None,
        owner: str | None = None,
        priority_max: int = 100,
        quotas: Mapping[str, Mapping[str, float] | QuotaSpec] | None = None,
        **placing: Json,
    ) -> AgentHandle:
        """Register an agent and give its handle; the domain places it by the other keywords.

        Registering a registered name changes its permissions where they are given, and nothing
        else.

        Raises:
            AgentError: The name is no identity, is reserved, or there are too many agents.
            ValidationError: The domain refused the placing.
        """
        world = self._open
        agent = await world.actor.command(
            lambda kernel: kernel.register_agent(
                agent_id,
                permissions=permissions,
                owner=owner,
                priority_max=priority_max,
                quotas=quotas,
                **placing,
            )
        )
        return AgentHandle(self, agent_id, agent.incarnation, world.epoch)

    async def set_agent_permissions(self, agent_id: str, permissions: Iterable[str] | None) -> None:
        """Say which kinds an agent may propose: None is all, the empty set nothing.

        Raises:
            AgentError: There is no such agent.
        """
        await self._open.actor.command(lambda k: k.set_agent_permissions(agent_id, permissions))

    async def suspend_agent(self, agent_id: str) -> None:
        """Refuse what an agent proposes, until it is resumed.

        Raises:
            AgentError: There is no such agent.
        """
        await self._open.actor.command(lambda kernel: kernel.change_agent(agent_id, "suspended"))

    async def resume_agent(self, agent_id: str) -> None:
        """Take back a suspension.

        Raises:
            AgentError: There is no such agent.
        """
        await self._open.actor.command(lambda kernel: kernel.change_agent(agent_id, "resumed"))

    async def remove_agent(self, agent_id: str) -> None:
        """Strike an agent out; its handles are no longer valid.

        Raises:
            AgentError: There is no such agent.
        """
        await self._open.actor.command(lambda kernel: kernel.change_agent(agent_id, "removed"))

    def run_agent(self, agent: AgentActor, name: str) -> None:
        """Run an agent actor under this world's supervisor; if it keeps failing it is suspended."""
        self._open.run_agent(agent, name)

    # batches

    async def submit(self, batch: object, *, dry_run: bool = False) -> Verdict:
        """Submit a batch for any agent, as the operator; never raises for a refusal.

        Args:
            batch: A list of intents, a batch object, or one intent.
            dry_run: Decide, and change nothing.

        Raises:
            ClosedError, StoreError: The world is closed, or has failed.
        """
        return await self._open.actor.post(batch, OPERATOR, dry_run=dry_run)

    def post(self, batch: object, *, dry_run: bool = False) -> Ticket:
        """Hand in a batch and go on; await the ticket for its verdict."""
        return Ticket(self._open.actor.post(batch, OPERATOR, dry_run=dry_run))

    async def submit_intents(
        self, intents: Iterable[Mapping[str, Json]], sim_time: float | None = None
    ) -> list[str]:
        """Submit intents that pass or fail together, and give their req_ids (seed 003).

        Raises:
            PlacetError: The subclass that stands for the first refusal.
        """
        verdict = await self.submit({"intents": list(intents), "sim_time": sim_time})
        if not verdict.admitted:
            raise error_of(verdict)
        return verdict.req_ids

    async def submit_intent(
        self, intent: Mapping[str, Json], sim_time: float | None = None
    ) -> str:
        """Submit one intent and give its req_id (seed 003).

        Raises:
            PlacetError: The subclass that stands for the refusal.
        """
        return (await self.submit_intents([intent], sim_time))[0]

    async def verdict_of(self, agent_id: str, req_id: str) -> Verdict | None:
        """Ask for the answer to a request; None if it is not, or no longer, remembered."""
        return await self._open.actor.command(lambda kernel: kernel.verdict_of(agent_id, req_id))

    async def submit_as(self, handle: AgentHandle, batch: object, *, dry_run: bool) -> Verdict:
        """Submit for a handle's agent alone; handles call this."""
        world = self._open
        agent = world.kernel.ledger.agents.get(handle.agent_id)
        if agent is None or agent.incarnation != handle.incarnation:
            return world.actor.refuse(unauthorized(handle.agent_id))
        return await world.actor.post(batch, handle.agent_id, dry_run=dry_run)

    # time and effects

    async def step(self, dt: float) -> list[Verdict]:
        """Advance a stepped world by `dt` simulated seconds and decide all that is due.

        Returns:
            The verdicts of the batches that waited, in order of arrival.

        Raises:
            ValueError: The world is not stepped, or `dt` is negative or not finite.
        """
        if self.config.clock != "stepped":
            raise ValueError("only a stepped world is stepped; set clock='stepped'")
        if not 0 <= dt < 2**63 / SECOND_NS:
            raise ValueError(f"dt must be a finite number of seconds >= 0, got {dt!r}")
        return await self._open.actor.step(round(dt * SECOND_NS))

    async def register_executor(
        self,
        kind: str,
        handler: EffectHandler,
        *,
        concurrency: int | None = None,
        outbox_max: int | None = None,
    ) -> None:
        """Run effects of a kind with an async function; open effects of the kind are taken up.

        Args:
            kind: As the domain's kinds declare it.
            handler: Gets the effect and returns its output as plain JSON; raising is a failure.
            concurrency: How many run at a time.
            outbox_max: How many may wait before the gate answers `executor_busy`.
        """
        await self._open.register_executor(kind, handler, concurrency, outbox_max)

    async def settle(self) -> None:
        """Wait until all effects so far are settled."""
        await self._open.settle()

    # reading

    @property
    def seq(self) -> int:
        """The durable sequence number of the world."""
        return self._open.committer.durable_seq

    @property
    def sim_time(self) -> float:
        """Simulated time, seconds."""
        return self._open.clock.now_ns() / SECOND_NS

    async def state(self, path: str = "") -> Json:
        """Copy the state, or a part: `collection`, `collection/entity`, `collection/entity/field`.

        Raises:
            KeyError: There is nothing at the path.
        """
        return await self._open.actor.command(lambda kernel: kernel.read(path))

    async def digest(self) -> str:
        """Give the state digest, hexadecimal: equal states have equal digests."""
        return await self._open.actor.command(lambda kernel: kernel.digest())

    async def view_for(self, agent_id: str) -> View:
        """Give what an agent may see, as an atomic cut; handles call this."""
        world = self._open
        return await world.actor.command(lambda kernel: world.viewer.view(kernel, agent_id))

    def events(self, since: int = 0) -> AsyncIterator[Event]:
        """Give every event after a seq, those that are and those that come."""
        return self._open.publisher.events(since)

    @property
    def metrics_registry(self) -> "CollectorRegistry":
        """The Prometheus registry of this world, its own."""
        return self._open.metrics_registry

    @property
    def metrics_url(self) -> str | None:
        """Where the metrics are served; None where `metrics_port` is not set."""
        server = self._open.metrics_server
        return None if server is None else server.url

    def statistics(self) -> dict[str, Json]:
        """Give counts and latencies so far as plain JSON."""
        return self._open.statistics()


class _World:
    """The parts of an open world, and their life."""

    def __init__(
        self,
        config: OrchestratorConfig,
        log: EventLog,
        epoch: int,
        kernel: Kernel,
        records: list[bytes],
    ) -> None:
        limits = kernel.config.limits
        self.config = config
        self.log = log
        self.epoch = epoch
        self.kernel = kernel
        self.limits = limits
        start_ns = kernel.ledger.now_ns
        self.clock: Clock
        self.clock = SteppedClock(start_ns) if config.clock == "stepped" else RealtimeClock(start_ns)
        self.counters = Counters(kernel.registry.kinds)
        self.publisher = Publisher(log, limits.subscriber_events_max)
        self.committer = Committer(
            log, epoch, self.clock, self.counters, limits.groups_in_flight_max, self._on_durable
        )
        self.actor = OrchestratorActor(
            kernel,
            records,
            self.committer,
            self.clock,
            self.counters,
            on_group=self._on_group if config.log_level in {"debug", "info"} else None,
        )
        self.viewer = Viewer(kernel)
        self.supervisor = Supervisor(limits, self.clock, self._on_fault)
        self.executors: dict[str, Executor] = {}
        self.metrics_server: MetricsServer | None = None
        self._drained = anyio.Event()
        self._settled = anyio.Event()
        self._root: asyncio.Task[None] | None = None
        kernel.rules.on_fault = self._on_error
        self._watch()

    async def start(self) -> None:
        """Start the actors; what the kernel wrote as it opened becomes durable."""
        self.committer.begin(*self.kernel.history_end)
        self.publisher.begin(*self.kernel.history_end)
        started = anyio.Event()
        self._root = asyncio.create_task(self.supervisor.run(started), name="placet")
        await started.wait()
        for name, run in (("committer", self.committer.run), ("orchestrator", self._orchestrate)):
            self.supervisor.start(name, run, self._on_escalation, restarts=False)
        await self.actor.command(lambda kernel: None)
        if self.config.metrics_port is not None:
            from placet.runtime.metrics_prometheus import serve_metrics  # noqa: PLC0415  # 69 ms

            self.metrics_server = serve_metrics(self.metrics_registry, self.config.metrics_port)

    async def stop(self) -> None:
        """Take everything down in order, within `shutdown_seconds_max`."""
        if self._root is None:
            return
        root, self._root = self._root, None
        with anyio.move_on_after(self.limits.shutdown_seconds_max):
            for executor in self.executors.values():
                executor.close()
            while self.committer.failure is None and any(
                executor.running for executor in self.executors.values()
            ):
                await self._next_settlement()
            self.actor.close()
            await self._drained.wait()
            await self.committer.flush()
        self.actor.close()
        self.actor.shed("the world was closed")
        self.publisher.close()
        self.supervisor.stop()
        await root
        if self.metrics_server is not None:
            await to_thread.run_sync(self.metrics_server.close)
        await _in_thread_if(self.log.is_blocking, self.log.close)

    def run_agent(self, agent: AgentActor, name: str) -> None:
        """Run an agent under the supervisor."""

        def give_up(_: str, error: BaseException) -> None:
            self._on_error(f"agent {name}", error)
            self.supervisor.start(
                f"suspend {name}",
                lambda: self.actor.command(lambda k: k.change_agent(name, "suspended")),
                self._on_error,
            )

        self.supervisor.start(f"agent {name}", agent.run, give_up)

    async def register_executor(
        self, kind: str, handler: EffectHandler, concurrency: int | None, outbox_max: int | None
    ) -> None:
        """Start an executor, tell the gate, and hand it what is open."""
        limits = self.limits
        executor = Executor(
            kind,
            handler,
            lambda settlement: self.actor.command(lambda kernel: kernel.settle(settlement)),
            self.clock,
            self.counters,
            concurrency=concurrency or limits.executor_concurrency_max,
            seconds_max=limits.effect_seconds_max,
            on_fault=self._on_error,
        )
        if kind in self.executors:
            raise ValueError(f"effects of kind {kind!r} have an executor already")
        self.executors[kind] = executor
        self.counters.watch("outbox_depth", lambda: self.kernel.ledger.outbox_depth.get(kind, 0), kind)
        self.supervisor.start(f"executor {kind}", executor.run, self._on_error)
        depth_max = outbox_max or limits.outbox_depth_max
        await self.actor.command(lambda kernel: kernel.change_executor(kind, depth_max))
        for effect in self.kernel.open_effects():
            if effect.kind == kind:
                executor.take(effect)

    async def settle(self) -> None:
        """Wait until the effects that are open now are settled."""
        await self.actor.command(lambda kernel: None)
        awaited = set(self.kernel.ledger.outbox)
        while awaited & self.kernel.ledger.outbox.keys():
            await self._next_settlement()

    @cached_property
    def metrics_registry(self) -> "CollectorRegistry":
        """Made when first asked for."""
        from placet.runtime.metrics_prometheus import create_registry  # noqa: PLC0415  # 69 ms

        return create_registry(self.counters)

    def statistics(self) -> dict[str, Json]:
        """Sum up."""
        return {
            **self.counters.statistics(),
            "seq": self.committer.durable_seq,
            "records": self.committer.durable_records,
            "agents": len(self.kernel.ledger.agents),
            "waiting": len(self.actor),
            "outbox": len(self.kernel.ledger.outbox),
            "observers": self.publisher.observers,
            "restarts": self.supervisor.restarts,
            "store": self.log.url,
            "durability": self.log.durability,
        }

    async def _orchestrate(self) -> None:
        try:
            await self.actor.run()
        finally:
            self._drained.set()

    async def _next_settlement(self) -> None:
        if self.committer.failure is not None:
            raise self.committer.failure
        await self._settled.wait()

    def _on_durable(self, commit: Commit) -> None:
        if commit.group is not None:
            self.publisher.publish(commit.group)
        for effect in commit.effects:
            executor = self.executors.get(effect.kind)
            if executor is not None:
                executor.take(effect)
        if self.executors:
            self._settled.set()
            self._settled = anyio.Event()

    def _watch(self) -> None:
        counters, kernel = self.counters, self.kernel
        counters.watch("seq", lambda: self.committer.durable_seq)
        counters.watch("agents", lambda: len(kernel.ledger.agents))
        counters.watch("log_bytes", self.log.size_bytes)
        counters.watch("observers", lambda: self.publisher.observers)
        counters.watch("observation_lag_seqs", lambda: self.publisher.lag_records)

    # faults

    @cached_property
    def _reports(self) -> "Reports":
        from placet.runtime.reports_structlog import Reports  # noqa: PLC0415  # 209 ms

        return Reports(self.config.log_format, self.config.log_level, self.config.world)

    def _on_group(self, verdicts: Sequence[Verdict]) -> None:
        self._reports.group(verdicts)

    def _on_error(self, where: str, error: BaseException) -> None:
        self._reports.fault(where, error)

    def _on_fault(self, fault: Fault) -> None:
        self._reports.fault(fault.name, fault.error, is_restarted=fault.is_restarted)

    def _on_escalation(self, name: str, error: BaseException) -> None:
        """Stop the world: nobody is told anything that may not be true after a restart."""
        failure = error
        if not isinstance(failure, StoreError):
            failure = StoreError(f"the {name} failed: {error!r}; the log ends before it")
        self.committer.fail(failure)
        self.actor.shed("the world has failed")


async def _in_thread_if(is_blocking: bool, act: Callable[[], T]) -> T:
    return await to_thread.run_sync(act) if is_blocking else act()
