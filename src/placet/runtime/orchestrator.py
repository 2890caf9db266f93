"""The `Orchestrator`: one open world, with every operation of a host program.

Each method sends one message to an actor or reads durable state; the work is in `runtime/api/`.

async with Orchestrator(World(), OrchestratorConfig(store="sqlite:///town.db")) as world:
    alice = await world.register_agent("alice", position=[0, 0, 0])
    await alice.submit_intents([alice.intent("Move", to=[1, 0, 0])])
"""

from asyncio import _get_running_loop
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from copy import deepcopy
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar, overload

import anyio

from placet.actors.barrier import Arrivals
from placet.actors.effects.outcomes import EffectOutcome
from placet.actors.policies.agent import AgentActor
from placet.actors.policies.runner import AgentStatus
from placet.actors.ports import AgentIdentity, EventLog
from placet.actors.publisher import PAGE_RECORDS_MAX
from placet.kernel.columns.batch import ColumnBatch
from placet.kernel.gate.domain_rules import EffectValidator
from placet.kernel.kernel import Kernel
from placet.kernel.plugin.domain import Domain
from placet.plugins.domains import default_domain, quotas_of, with_needed
from placet.runtime.agent_handle import AgentHandle
from placet.runtime.api import effects as effects_api
from placet.runtime.api import history as history_api
from placet.runtime.api import sim_time as time_api
from placet.runtime.api.gateway import AgentGateway
from placet.runtime.config import OrchestratorConfig
from placet.runtime.executors.fork_handlers import LiveHandler, SimulatedHandler
from placet.runtime.executors.handlers import AnyHandler, AnyInDoubt
from placet.runtime.pending_verdict import PendingVerdict
from placet.runtime.state_path import state_at
from placet.runtime.telemetry.fault_reports import FaultReports
from placet.runtime.world import WorldRuntime, in_thread_if
from placet.runtime.world_opener import WorldOpener, records_to_expect
from placet.schemas.codec import Json
from placet.schemas.config import QuotaSpec
from placet.schemas.effect import Backoff, Delivery, EffectKey, EffectState, EffectStatus
from placet.schemas.errors import AgentError, ClosedError, ReadOnlyError, StoreError
from placet.schemas.event import Event
from placet.schemas.html_table import html_table
from placet.schemas.identity import OPERATOR
from placet.schemas.keywords import explain_keywords, require_a
from placet.schemas.latency import Latency
from placet.schemas.limits import SECOND_NS, ObserverLimits
from placet.schemas.log.record import LogStart
from placet.schemas.verdict import Verdict
from placet.schemas.view import Observation, View
from placet.stores.url import is_lasting, lasting_url_of, whereabouts_of

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from placet.history.fork import Fork, ForkOptions
    from placet.history.position import Position
    from placet.kernel.columns.population import PopulationHandle
    from placet.kernel.columns.verdict import ColumnVerdict
    from placet.schemas.explanation import Explanation

T = TypeVar("T")


@explain_keywords
class Orchestrator:
    """One world: its state, its log, its actors; every operation of a host program on them.

        async with Orchestrator(World(max_step=5.0)) as world:
            ann = await world.register_agent("ann", position=[0, 0])
            verdict = await ann.submit([ann.intent("Move", to=[3, 4])])
            print(verdict.admitted, verdict.codes)
            print(await world.state("world.agents/ann/position"))  # [3.0, 4.0, 0.0]

    Use it as an async context manager, in one event loop: a call from another one that would wait
    there raises `RuntimeError`.

    Args:
        domain: A domain, or several; None is `placet.domains.world.World()` without settings.
        config: The configuration; None for the defaults: in memory, in real time.
        effect_validator: A rule of the host, called before each domain rule.

    Raises:
        ValueError: The domain or the configuration is invalid.
    """

    def __init__(
        self,
        domain: Domain | Sequence[Domain] | None = None,
        config: OrchestratorConfig | None = None,
        *,
        effect_validator: EffectValidator | None = None,
    ) -> None:
        self._domains = with_needed(default_domain() if domain is None else domain)
        config = OrchestratorConfig() if config is None else config
        require_a(config, OrchestratorConfig, "config")
        declared = quotas_of(self._domains)
        self.config = replace(config, quotas={**declared, **config.quotas}) if declared else config
        self._validator = effect_validator
        self._world: WorldRuntime | None = None

    async def __aenter__(self) -> Self:
        if self._world is not None:
            raise ClosedError("an Orchestrator is opened once; make another one for the same store")
        self._world = await self._opener(self.config).open(self._warn)
        return self

    @property
    def is_open(self) -> bool:
        """Whether the world was opened and not closed."""
        return self._world is not None and not self._world.home.is_closed

    def __repr__(self) -> str:
        names = "+".join(domain.name for domain in self.domains)
        if self._world is None:
            return f"<Orchestrator of {names}, not open>"
        return f"<Orchestrator of {names} on {self.store.scheme}, at seq {self.seq}>"

    def _repr_html_(self) -> str:
        if self._world is None:
            return html_table(repr(self)[1:-1], (), ())
        rows = [
            ("world", self.config.world),
            ("store", f"{self.store.scheme}, {self.store.durability}"),
            ("seq", self.seq),
            ("records", self.records),
            ("simulated time", f"{self.sim_time:g} s"),
            ("paused", "yes" if self.is_paused else "no"),
        ]
        return html_table(repr(self)[1:-1], ("of the world", "value"), rows)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Decide the queued batches, let effects finish within the limit, and release the store.

        All decisions are durable on return. A second call does nothing.

        Raises:
            RuntimeError: The world was opened in another event loop. If that loop has ended, the
                store is released all the same.
        """
        if self._world is not None:
            self._world.require_home_to_stop()
            with anyio.CancelScope(shield=True):
                await self._world.stop()

    async def _reopen(self) -> None:
        world = self._open
        if not is_lasting(world.log):
            message = "cannot open a log in memory again: it would be another, empty one"
            raise StoreError(message, store=world.log.url)
        try:
            await self.close()
        except StoreError:  # a file that could not be closed in order is opened again all the same
            if world.committer.failure is None:
                raise
        config = replace(self.config, take_over=False, standby=False)
        if whereabouts_of(world.log) is not None:  # the same file, wherever a link leads by now
            config = replace(config, store=lasting_url_of(world.log))
        opener = replace(self._opener(config), records_min=records_to_expect(world))
        self._world = await opener.open(self._warn)

    def _opener(self, config: OrchestratorConfig) -> WorldOpener:
        return WorldOpener(self._domains, config, self._validator)

    def _warn(self, error: StoreError) -> None:
        from placet.runtime.telemetry.world_logger import WorldLogger  # noqa: PLC0415  # 209 ms

        config = self.config
        WorldLogger(config.log_format, config.log_level, config.world).warning(str(error))

    @property
    def _opened(self) -> WorldRuntime:
        """The open world, for what any thread may read."""
        if self._world is None:
            raise ClosedError("the world is not open; use `async with Orchestrator(...)`")
        return self._world

    @property
    def _open(self) -> WorldRuntime:
        """The open world, whose event loop runs the caller."""
        world = self._opened
        if _get_running_loop() is not world.home.loop:
            world.home.require()
        return world

    @property
    def _writable(self) -> WorldRuntime:
        world = self._open
        if world.is_read_only:
            raise _read_only(world)
        return world

    # agents

    async def register_agent(
        self,
        agent_id: str,
        *,
        permissions: Iterable[str] | None = None,
        owner: str | None = None,
        priority_max: int = 100,
        quotas: Mapping[str, Mapping[str, float] | QuotaSpec] | None = None,
        **attributes: Json,
    ) -> AgentHandle:
        """Register an agent, and return its handle.

            ann = await world.register_agent("ann", permissions={"Move"}, position=[0, 0])

        For a registered name only the permissions are changed, if some are passed; an owner that
        is passed must be the present one.

        Args:
            agent_id: Name of the agent.
            permissions: Kinds that the agent may submit; None is the configured default.
            owner: Name of a submitter that may also submit for the agent; None for none.
            priority_max: Highest priority that the agent's batches may have.
            quotas: Quotas of this agent, in the form of `OrchestratorConfig.quotas`.
            **attributes: Attributes for the domain, such as a position.

        Raises:
            OwnerError: The name is registered, and has another owner.
            AgentError: The name is invalid or reserved, or there are too many agents.
            ValidationError: The domain refused the attributes.
        """
        world = self._writable
        number = next(world.handle_numbers)
        agent = await world.actor.operate(
            lambda kernel: kernel.register_agent(
                agent_id,
                permissions=permissions,
                owner=owner,
                priority_max=priority_max,
                quotas=quotas,
                **attributes,
            )
        )
        return AgentHandle(world, agent.agent_id, agent.generation, f"{world.epoch}.{number}")

    async def set_agent_permissions(self, agent_id: str, permissions: Iterable[str] | None) -> None:
        """Set the kinds that an agent may submit: None is all, an empty set is none.

        Raises:
            AgentError: There is no such agent.
        """
        await self._writable.actor.operate(lambda k: k.set_agent_permissions(agent_id, permissions))

    async def suspend_agent(self, agent_id: str) -> None:
        """Refuse the agent's batches until it is resumed; its policy is stopped meanwhile.

        Raises:
            AgentError: There is no such agent.
        """
        await self._writable.change_agent(agent_id, "suspended")

    async def resume_agent(self, agent_id: str) -> None:
        """End an agent's suspension; its policy, if one runs, continues with a new failure budget.

        Raises:
            AgentError: There is no such agent.
        """
        await self._writable.change_agent(agent_id, "resumed")

    async def remove_agent(self, agent_id: str) -> None:
        """Remove an agent: its handles become invalid, and its policy is stopped for good.

        Raises:
            AgentError: There is no such agent.
        """
        await self._writable.change_agent(agent_id, "removed")

    def run_agent(self, agent: AgentActor) -> None:
        """Run an agent's policy under this world's supervisor.

        Suspend the agent if it keeps failing.

        The policy of a suspended agent waits until the agent is resumed.

        Raises:
            AgentError: The agent was removed after its handle was created.
            ValueError: A policy runs for the agent already.
        """
        self._writable.policy_supervisor.run(agent)

    def agent_status(self, agent_id: str) -> AgentStatus:
        """Return the status of an agent and its policy; for an unknown name the state is `gone`."""
        return self._opened.policy_supervisor.status(agent_id)

    @property
    def gateway(self) -> AgentGateway:
        """The queries of the agent layer to this world: kinds, risks, entities, effect outcomes."""
        return AgentGateway(self._opened)

    async def register_population(
        self,
        name: str,
        count: int,
        *,
        table: str,
        permissions: Iterable[str] | None = None,
        owner: str | None = None,
        priority_max: int = 100,
        quotas: Mapping[str, Mapping[str, float] | QuotaSpec] | None = None,
        **columns: object,
    ) -> "PopulationHandle":
        """Register the agents `<name>:0` to `<name>:<count - 1>`, durably, with their table.

        Args:
            name: Name of the population.
            count: Number of its members. It does not change.
            table: Table of agents that has no population yet.
            permissions: Kinds that each member may submit; None is the configured default.
            owner: Submitter that may also submit for them; None is the operator alone.
            priority_max: Highest priority of their ordinary batches.
            quotas: Quotas of each member, in the form of `OrchestratorConfig.quotas`.
            **columns: Initial values of fields, arrays `(count, *field.shape)`; copied before the
                first await.

        Returns:
            The population. Its columns are those of this moment, which may not be durable yet.

        Raises:
            AgentError: The name is not an identity, is reserved or taken.
            ValidationError: A domain raised in `on_populate`; nothing was changed.
            ValueError: The table, the count, a column or a quota does not fit.
        """
        actor = self._writable.actor
        own = {field: deepcopy(values) for field, values in columns.items()}
        return await actor.operate(
            lambda kernel: kernel.register_population(
                name,
                count,
                table=table,
                permissions=permissions,
                owner=owner,
                priority_max=priority_max,
                quotas=quotas,
                **own,
            )
        )

    def population(self, name: str) -> "PopulationHandle":
        """Return a population; its columns are those of this moment, perhaps not durable yet.

        Raises:
            KeyError: There is none of this name.
        """
        return self._opened.kernel.population(name)

    # batches

    @overload
    async def submit(  # type: ignore[overload-overlap]  # a ColumnBatch is an object too
        self, batch: ColumnBatch
    ) -> "ColumnVerdict": ...

    @overload
    async def submit(
        self,
        batch: object,
        *,
        dry_run: bool = False,
        identity: AgentIdentity | None = None,
        shows_changes: bool = False,
    ) -> Verdict: ...

    async def submit(
        self,
        batch: object,
        *,
        dry_run: bool = False,
        identity: AgentIdentity | None = None,
        shows_changes: bool = False,
    ) -> "Verdict | ColumnVerdict":
        """Submit a batch for any agent, as the operator; return its verdict, also of a refusal.

        A column batch is submitted by its `submitter`, and decided as a turn by itself. Its arrays
        are copied before the first await. It has no other option.

        Args:
            batch: A list of intents, a batch object, or one intent; or a `ColumnBatch`.
            dry_run: Decide, and change nothing.
            identity: Handle of the agent on whose behalf the operator submits: if that agent was
                removed, the batch is refused `unauthorized`, even if the name was registered again.
            shows_changes: List the changes of the batch in `Verdict.diff`, as they are in its
                record; a dry run always lists them.

        Raises:
            BackpressureError: A column batch was refused for load, and not decided; send it again.
            ClosedError, StoreError: The world is closed, or has failed.
            ValueError: The form of a column batch is wrong, or it has an option.
        """
        if isinstance(batch, ColumnBatch):
            if dry_run or identity is not None or shows_changes:
                raise ValueError("a column batch has none of dry_run, identity and shows_changes")
            return await self._writable.submit_columns(batch)
        return await self._writable.submit(
            batch, OPERATOR, dry_run, identity, shows_changes=shows_changes
        )

    def submit_nowait(
        self,
        batch: object,
        *,
        dry_run: bool = False,
        submitter: str = OPERATOR,
        fill_missing: bool = False,
    ) -> PendingVerdict:
        """Submit a batch without waiting; await the returned object for its verdict.

        Args:
            batch: A list of intents, a batch object, or one intent.
            dry_run: Decide, and change nothing.
            submitter: Name of the submitter, which may submit for the agent of that name and for
                agents that it owns; the default is the operator.
            fill_missing: Fill in the fields that a client may leave out: its agent (the
                submitter), `context_seq` (now), priority and schema version.

        Raises:
            ClosedError, StoreError: The world is closed, or has failed.
        """
        reply = self._writable.actor.post_batch(
            batch, submitter, dry_run=dry_run, fill_missing=fill_missing
        )
        return PendingVerdict(reply, reply.done())

    async def submit_intents(
        self, intents: Iterable[Mapping[str, Json]], sim_time: float | None = None
    ) -> list[str]:
        """Submit intents as one batch, admitted or refused together; return their req_ids.

        Args:
            intents: 1 to 512 intents.
            sim_time: Simulated time at which to decide, seconds; None, or a past time, is now.

        Raises:
            PlacetError: The batch was refused; the subclass depends on the first refusal.
        """
        return await self._writable.submit_intents(intents, sim_time, OPERATOR)

    async def submit_intent(self, intent: Mapping[str, Json], sim_time: float | None = None) -> str:
        """Submit one intent, and return its req_id.

        Raises:
            PlacetError: The intent was refused; the subclass depends on the refusal.
        """
        return (await self.submit_intents([intent], sim_time))[0]

    async def verdict_of(self, agent_id: str, req_id: str) -> Verdict | None:
        """Return the verdict on an earlier request; None if the dedup window does not have it."""
        return await self._open.actor.operate(lambda kernel: kernel.verdict_of(agent_id, req_id))

    # load

    async def pause(self) -> None:
        """Decide no batches until `resume`; they are queued within the limits.

        Commands such as a registration are still executed.
        """
        await self._writable.actor.pause()

    async def drain(self) -> None:
        """Reject new batches until `resume`; wait until the queued ones are decided and durable."""
        await self._writable.actor.drain()

    async def resume(self) -> None:
        """Accept and decide batches again, after `pause` or `drain`."""
        await self._writable.actor.resume()

    # reading

    @property
    def seq(self) -> int:
        """The durable sequence number of the world."""
        return self._opened.committer.durable_seq

    @property
    def head(self) -> str:
        """The hash of the last durable record, which ends the log's hash chain, hexadecimal."""
        return self._opened.committer.head.hex()

    async def log_start(self) -> LogStart:
        """Return the position of the log's first record: record 0, unless the log was compacted."""
        log = self._open.log
        return await in_thread_if(log.is_blocking, log.start)

    @property
    def domains(self) -> Sequence[Domain]:
        """The domains of the world, in the order in which they were passed, and those they need."""
        return list(self._domains)

    @property
    def records(self) -> int:
        """Number of durable records of the log, which is the ordinal of the next record."""
        return self._opened.committer.durable_records

    @property
    def store(self) -> "WorldStore":
        """The store of this world: its durability, whether it can be written, and `reopen`."""
        return WorldStore(self._opened, self._reopen)

    @property
    def is_paused(self) -> bool:
        """Whether the world is paused: batches are queued and not decided until `resume`."""
        return self._opened.actor.is_paused and not self._opened.is_read_only

    async def state(self, path: str = "") -> Json:
        """Return a copy of the state at a path as plain JSON.

        A path is `collection`, `collection/entity` or `collection/entity/field`; empty for the
        whole state.

        Raises:
            KeyError: There is nothing at the path.
        """
        return await self._open.actor.operate(lambda kernel: state_at(kernel.state, path))

    async def query(self, fn: Callable[[Kernel], T]) -> T:
        """Run a function on the kernel between two batches; return its result.

        Returns once everything that the function could read is durable.

        Args:
            fn: Reads and changes nothing; returns copies. It blocks the world while it runs.

        Raises:
            ClosedError, StoreError: The world is closed, or has failed.
        """
        return await self._open.actor.operate(fn)

    def query_nowait(self, fn: Callable[[Kernel], T]) -> T:
        """Run a function on the kernel at once and return its result; unlike `query`, do not wait.

        Args:
            fn: Reads and changes nothing; returns copies.

        Returns:
            The result of `fn`. It may not be durable yet: do not release it before the verdict of a
            batch that was submitted after it, which is durable no sooner.

        Raises:
            ClosedError: The world is not open.
        """
        return fn(self._opened.kernel)

    async def digest(self) -> str:
        """Return the digest of the state, hexadecimal: equal states have equal digests."""
        return await self._open.actor.operate(lambda kernel: kernel.digest())

    async def views_for(self, agent_ids: Iterable[str]) -> list[View]:
        """Return the views of several agents at one seq, in the order of `agent_ids`."""
        view = self._open.viewer.view
        return await self._open.actor.operate(
            lambda kernel: [view(kernel, agent_id) for agent_id in agent_ids]
        )

    def events(self, since: int = 0) -> AsyncIterator[Event]:
        """Yield every event after a seq, past and future, until the world is closed.

        Args:
            since: Sequence number of the last event that the caller has; 0 yields all.
        """
        world = self._opened
        return world.home.guarded(world.publisher.events(since))

    def event_pages(
        self,
        since: int = 0,
        *,
        from_record: int | None = None,
        page_records_max: int = PAGE_RECORDS_MAX,
    ) -> AsyncGenerator[list[Event]]:
        """Yield events in lists: those available now, then new ones as they become durable.

        Args:
            since: Sequence number; events with a greater one are returned.
            from_record: Ordinal of the first record to return, instead of `since`.
            page_records_max: Largest number of records that are decoded for a page; it has fewer
                where they would exceed 1 MiB as they are encoded, but at least one.
        """
        world = self._opened
        pages = world.publisher.pages(since, from_record, page_records_max=page_records_max)
        return world.home.guarded(pages)

    @property
    def metrics_registry(self) -> "CollectorRegistry":
        """The Prometheus registry of this world."""
        return self._opened.metrics_registry

    @property
    def metrics_url(self) -> str | None:
        """URL of the metrics; None if `metrics_port` is not set."""
        server = self._opened.metrics_server
        return None if server is None else server.url

    @property
    def faults(self) -> FaultReports:
        """The latest exceptions in this world since it was opened here, with their tracebacks.

        They are in memory alone: no log holds a place or a traceback.
        """
        return self._opened.faults

    def statistics(self) -> dict[str, Json]:
        """Return the counts and latencies so far as plain JSON."""
        return self._opened.statistics()

    async def observe(
        self,
        agent_id: str,
        *,
        bytes_max: int | None = None,
        limits: ObserverLimits | None = None,
        latency: Latency | None = None,
    ) -> AsyncGenerator[Observation, None]:
        """Yield an agent's observations: a snapshot of its view, then changes of it.

        Ends when the agent is removed or the world is closed.

        Args:
            agent_id: Agent whose visibility applies.
            bytes_max: Byte budget of one observation; None for none.
            limits: Bounds of the changes that wait for this observer.
            latency: Delay of every observation, in simulated time.

        Raises:
            AgentError: There is no such agent.
            ClosedError, StoreError: The world is closed, or has failed.
        """
        world = self._open

        def begin(act: Callable[[Kernel], None]) -> Awaitable[None]:
            def check_and_act(kernel: Kernel) -> None:
                # One cycle for both: a removal after the check reaches the new observer.
                if agent_id not in kernel.ledger.agents:
                    raise AgentError(f"there is no agent {agent_id!r}; register it first")
                act(kernel)

            return world.actor.command(check_and_act)

        opened = world.observing.observer(agent_id, begin, limits, bytes_max, latency)
        async with opened as observer:
            while (observation := await observer.next()) is not None:
                yield observation

    # effects

    async def register_executor(
        self,
        kind: str,
        handler: AnyHandler | SimulatedHandler | LiveHandler,
        *,
        delivery: Delivery = "keyed",
        concurrency: int | None = None,
        attempts_max: int | None = None,
        seconds_max: float | None = None,
        backoff: Backoff | None = None,
        outbox_max: int | None = None,
        on_in_doubt: AnyInDoubt | None = None,
    ) -> None:
        """Start the executor of a kind of effect; it also runs the effects that are open now.

        An effect runs at least once, with one key on all attempts, and is settled exactly once.
        `at_most_once` is the reverse: one attempt, whose start is in the log before it begins; if
        that attempt is cut off, its outcome is unknown and the effect is `in_doubt`.

            async def send_mail(effect: Effect) -> Json:
                return await mailer.send(effect.payload["to"], key=str(effect.key))

            await world.register_executor("send_mail", send_mail, delivery="keyed")

        Args:
            kind: Kind of effect, as the domain's kinds declare it.
            handler: Receives the effect and returns its output as plain JSON; an exception is a
                failed attempt. An async function runs in the event loop, a plain one in a thread,
                `InProcess(function)` in another process, `DbosWorkflow(workflow)` in durable steps.
                In a forked world, pass `SimulatedHandler(handler)` or `LiveHandler(handler)`.
            delivery: Why a second attempt is harmless outside the world: `pure`, `idempotent`,
                `keyed` (the callee knows the key); `at_most_once` if it is not.
            concurrency: Number of effects that run at a time.
            attempts_max: Number of failed attempts after which an effect is settled as failed.
            seconds_max: Time limit of one attempt, in seconds.
            backoff: The pauses between attempts.
            outbox_max: Number of unsettled effects at which the gate answers `executor_busy`.
            on_in_doubt: Called with each effect in doubt, now and later; returns its settlement, or
                None if it does not know either.

        Raises:
            ValueError: The kind has an executor already, an option is invalid, or the world is a
                fork and the handler is neither a `SimulatedHandler` nor a `LiveHandler`.
            ClosedError, StoreError: The world is closed, or has failed.
        """
        options = effects_api.ExecutorOptions(
            delivery=delivery,
            concurrency=concurrency,
            attempts_max=attempts_max,
            seconds_max=seconds_max,
            backoff=backoff,
            outbox_max=outbox_max,
            on_in_doubt=on_in_doubt,
        )
        await effects_api.register_executor(self._writable, kind, handler, options)

    async def unregister_executor(self, kind: str) -> None:
        """Stop the executor of a kind: refuse its effects, and wait for running attempts.

        Open effects stay open until the kind has an executor again.

        Raises:
            ValueError: The kind has no executor.
            ClosedError, StoreError: The world is closed, or has failed.
        """
        await self._writable.executors.unregister(kind)

    async def wait_effects(self, verdict: Verdict | None = None) -> None:
        """Wait until effects are durably settled, or in doubt.

        An effect without an executor is waited for too: it settles once there is one.

        Args:
            verdict: Verdict of the batch that emitted them; None for all effects so far.

        Raises:
            ClosedError, StoreError: The world is closed, or fails, before that.
        """
        await effects_api.wait_effects(self._open, verdict)

    async def outcomes(self, verdict: Verdict, *, seconds_max: float = 60.0) -> list[EffectOutcome]:
        """Wait for the effects of an admitted batch, and return the outcome of each, in order.

        Args:
            verdict: Verdict of the batch.
            seconds_max: Maximum wait in real seconds; an effect that is not settled by then, nor in
                doubt, has `succeeded` None.

        Raises:
            ClosedError, StoreError: The world is closed, or has failed.
        """
        return await self.gateway.outcomes(verdict, seconds_max=seconds_max)

    async def effects(
        self, state: EffectState | None = None, *, kind: str | None = None
    ) -> list[EffectStatus]:
        """Return the effects that are not settled, oldest first; or the effects that were given up.

        Args:
            state: `open`, `started`, `in_doubt`; or `dead` and `failed` (reported as not done),
                which are read from the log: O(log). None for all that are not settled.
            kind: Kind of the effects to list; None for all.

        Raises:
            ValueError: There is no such state.
            ClosedError, StoreError: The world is closed, or has failed.
        """
        return await effects_api.list_effects(self._open, state, kind)

    async def resolve_effect(self, key: EffectKey, *, succeeded: bool, output: Json = None) -> bool:
        """Settle by hand an effect that is in doubt, or that no longer has an executor.

        Returns:
            True if the effect was settled; False if it is settled already, or unknown.

        Raises:
            ValueError: The output is not plain JSON, or too large; the effect is unchanged.
            ClosedError, StoreError: The world is closed, or has failed.
        """
        return await effects_api.resolve_effect(
            self._writable, key, succeeded=succeeded, output=output
        )

    # history

    async def explain(self, agent_id: str, req_id: str) -> "Explanation":
        """Return an explanation of the verdict on a request: each stage of the gate. O(log).

        For a request without an answer in the log, the explanation names where it may have been
        refused. A log in memory is read in the event loop's thread; one on disk, in a separate
        thread.

        Raises:
            ClosedError, StoreError: The world is closed, or has failed.
        """
        return await history_api.explain(self._open, agent_id, req_id, self._validator)

    async def fork(
        self,
        to: str,
        options: "ForkOptions | None" = None,
        *,
        at: "int | Position | None" = None,
    ) -> "Fork":
        """Copy this world's log up to a position, as a separate world; this world continues.

        O(copied records).

        Args:
            to: Path of the new log; nothing may exist there.
            options: Changes to apply in the fork; None for none.
            at: Seq at which to fork, which must be the end of a batch; or another position. None
                is the latest durable record.

        Raises:
            ClosedError, StoreError: The world is closed, or has failed; or it cannot be forked
                there, or into that path.
            ValidationError, AgentError: A change is invalid.
            ValueError: The fork's name or seed is invalid.
        """
        return await history_api.fork(self._open, to, options, at, self._validator)

    async def restore(self, path: str, to_seq: int) -> int:
        """Set a part of the state back to an earlier value, by a new record.

        The log is not rewound.

        Decisions made since then stay; agents, quotas and effects are unchanged. The domains'
        invariants are checked, as for a batch.

        Args:
            path: `collection` or `collection/entity`.
            to_seq: Seq of the earlier value: the end of a batch that the log still has.

        Returns:
            The seq of the world after the change; the present seq if nothing differs.

        Raises:
            ClosedError, StoreError: The world is closed, has failed, or never was at that seq.
            ValidationError: There is nothing at the path, or an invariant would not hold; nothing
                was changed.
        """
        return await history_api.restore(self._writable, path, to_seq)

    # simulated time

    @property
    def sim_time(self) -> float:
        """The world's simulated time, seconds."""
        return self._opened.clock.now_ns() / SECOND_NS

    async def step(self, dt: float) -> list[Verdict]:
        """Advance a stepped world by `dt` simulated seconds, and decide all batches that are due.

        Returns:
            One verdict for each batch submitted since the last step, in order of submission: also
            of those refused at admission or for their structure, and of those scheduled for a later
            time. Not of dry runs. After a flood, batches refused before the step are left out:
            beyond four queues full.

        Raises:
            ValueError: The world is not stepped, or `dt` is negative or leads past the end of time.
        """
        return await time_api.step(self._writable, dt)

    async def barrier(
        self, agents: Iterable[str] | None = None, *, deadline_s: float = 10.0
    ) -> Arrivals:
        """Wait until each agent has submitted or skipped the next step, or until a deadline.

        A batch that is malformed or rejected at admission does not count as submitted. An agent
        skips the step by `handle.skip_step()`.

        Args:
            agents: Agents to wait for; None for all that are registered and not suspended.
            deadline_s: Real seconds after which missing agents count as late.

        Returns:
            The agents that skipped, and the late ones. The next step does not wait for late agents.

        Raises:
            ClosedError, StoreError: The world is closed, or fails, before.
            ValueError: The world is not stepped, or another caller waits here already.
        """
        return await time_api.barrier(self._writable, agents, deadline_s)

    async def wait_until(self, sim_time: float) -> None:
        """Wait until simulated time reaches `sim_time` seconds.

        A stepped world must be stepped by another task meanwhile. With time dilation this takes
        longer in real seconds.

        Raises:
            ClosedError, StoreError: The world is closed, or fails, before.
            TimeStalledError: A participant holds up the time of a `next_event` world.
            ValueError: The time is not finite, or beyond the range of simulated time.
        """
        await time_api.sleep_until(self._open, sim_time, "the host")

    async def skip_time(self, seconds: float) -> None:
        """Advance simulated time at once, such as by the time for which the world was closed.

        Only where simulated time follows the machine's clock (`realtime`). The next records have
        the later time, so a log replays as any other.

        Args:
            seconds: Simulated seconds, from 0.

        Raises:
            ValueError: The clock is another, or the time is out of range.
            ClosedError, StoreError: The world is closed, or has failed.
            ReadOnlyError: The world is open read-only.
        """
        await time_api.skip(self._writable, seconds)


def _read_only(world: WorldRuntime) -> ReadOnlyError:
    return ReadOnlyError(
        f"the world is open read-only, from {world.log.url}; ask the process that writes it, or "
        "open it for writing",
        store=world.log.url,
    )


class WorldStore:
    """The store of an open world: its durability, its failure, and the way to reopen the world.

    Args:
        world: The open world.
        reopen: Function that stops the world and opens it again from its log.
    """

    __slots__ = ("_reopen", "_world")

    def __init__(self, world: WorldRuntime, reopen: Callable[[], Awaitable[None]]) -> None:
        self._world = world
        self._reopen = reopen

    @property
    def scheme(self) -> str:
        """Scheme of the store's URL, such as `sqlite`, without its location."""
        return self._world.log.url.partition(":")[0]

    @property
    def log(self) -> EventLog:
        """The log of the world, to be read beside its writer; nothing else is to be called."""
        return self._world.log

    @property
    def durability(self) -> str:
        """Durability of acknowledged records: `memory`, `off`, `normal`, `local` or `full`."""
        return self._world.log.durability

    @property
    def failure(self) -> StoreError | None:
        """The failure that stopped the world; None while it runs, and after an orderly end."""
        return self._world.committer.failure

    async def wait_failed(self) -> StoreError:
        """Wait until the world stops because of a failure, and return the failure.

        If the world is closed in order, this never returns.
        """
        self._world.home.require()
        await self._world.failed.wait()
        assert self.failure is not None, "a world fails for a reason"
        return self.failure

    async def check_writable(self) -> None:
        """Check by one durable write that the world still decides and its store can be written.

        A store that cannot be written stops the world. A world that is open read-only proves that
        its store can be read.

        Raises:
            ClosedError, StoreError: The world is closed, has failed, or fails now.
        """
        self._world.home.require()
        await self._world.check_writable()

    async def reopen(self) -> None:
        """Stop the world, and open it again from its log, as a restart of the process would.

        For a world whose store has failed, once the store may work again. A batch without an answer
        is in the log or not: submit it again with its req_ids. Handles, observers, policies and the
        host's executors belong to the stopped world, as does this object: create them again.

        Raises:
            InUseError: Another process writes the log by now.
            StoreError: The store cannot be opened, or is in memory and has lost the log; the world
                stays stopped, and this may be called again.
        """
        await self._reopen()
