"""The public face of one world. Each method is one message to an actor, or one look.

async with Orchestrator(World(), OrchestratorConfig(store="sqlite:///town.db")) as world:
    alice = await world.register_agent("alice", position=[0, 0, 0])
    await alice.submit_intents([alice.intent("Move", to=[1, 0, 0])])
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

import anyio

from placet.actors.ports import AgentIdentity, EventLog
from placet.kernel.domain import Domain
from placet.kernel.gate.domain_rules import EffectValidator
from placet.kernel.kernel import Kernel
from placet.runtime.agent_handle import AgentHandle
from placet.runtime.api.agents import RunsAgents
from placet.runtime.api.effects import ExecutesEffects
from placet.runtime.api.explanations import ExplainsAnswers
from placet.runtime.api.forks import BranchesWorlds
from placet.runtime.api.gateway import AnswersProposers
from placet.runtime.api.observers import ShowsAgents
from placet.runtime.api.sim_time import KeepsTime
from placet.runtime.api.typed_errors import RaisesRefusals
from placet.runtime.config import OrchestratorConfig
from placet.runtime.pending_verdict import PendingVerdict
from placet.runtime.plugins import default_domain
from placet.runtime.snapshots.recovery import Recovery, recover
from placet.runtime.snapshots.standby import Standby, stand_by
from placet.runtime.state_path import state_at
from placet.runtime.stores.url import open_event_log
from placet.runtime.world import WorldRuntime, in_thread_if
from placet.schemas.codec import Json
from placet.schemas.config import QuotaSpec
from placet.schemas.errors import ClosedError, StoreError
from placet.schemas.event import Event
from placet.schemas.identity import OPERATOR
from placet.schemas.log.record import LogStart
from placet.schemas.verdict import Verdict
from placet.schemas.view import View

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

T = TypeVar("T")


class Orchestrator(
    RaisesRefusals,
    ExplainsAnswers,
    ExecutesEffects,
    RunsAgents,
    ShowsAgents,
    BranchesWorlds,
    KeepsTime,
    AnswersProposers,
):
    """One world: its state, its log, its actors. Use it as an async context manager.

    Args:
        domain: A domain, or several; None is an open `World()`.
        config: None is all defaults: in memory, in real time.
        effect_validator: The host's own rule, called before each domain rule.

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
        self._world: WorldRuntime | None = None

    async def __aenter__(self) -> Self:
        if self._world is not None:
            raise ClosedError("an Orchestrator is opened once; make another one for the same store")
        records: list[bytes] = []
        log = open_event_log(self.config.store, self.config.kernel_config().limits)
        try:
            standby = await stand_by(log, self._warn) if self.config.standby else None
            load = partial(self._load, log, records, standby)
            epoch, kernel, recovery = await in_thread_if(log.is_blocking, load)
        except BaseException:
            log.close()
            raise
        self._world = WorldRuntime(self.config, log, epoch, kernel, records, recovery=recovery)
        try:
            await self._world.start()
            await self._register_brought(self.domains)
        except BaseException:
            await self.close()
            self._world = None
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Decide the queued batches, let effects finish within the limit, and release the store.

        All decisions are durable then.

        Harmless if done twice.
        """
        if self._world is not None:
            with anyio.CancelScope(shield=True):
                await self._world.stop()

    def _load(
        self, log: EventLog, records: list[bytes], standby: Standby | None = None
    ) -> tuple[int, Kernel, Recovery]:
        epoch = log.open()  # before the first look, so that nobody appends after it
        recovery = recover(log) if standby is None else standby.fold()
        kernel = Kernel(
            self._domain,
            self.config.kernel_config(),
            effect_validator=self._validator,
            sink=records.append,
            history=recovery.past,
            durability=log.durability,
            origin=self.config.origin,
        )
        return epoch, kernel, recovery

    def _warn(self, error: StoreError) -> None:
        from placet.runtime.telemetry.world_logger import Reports  # noqa: PLC0415  # 209 ms

        config = self.config
        Reports(config.log_format, config.log_level, config.world).warning(str(error))

    @property
    def _open(self) -> WorldRuntime:
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
        **attributes: Json,
    ) -> AgentHandle:
        """Register an agent and give its handle; the domain places it by the other keywords.

        Registering a registered name changes its permissions where they are given, and nothing
        else; an owner that is given must be the one it has.

        Raises:
            AgentError: The name is no identity, reserved or another owner's; too many agents.
            ValidationError: The domain refused the attributes.
        """
        world = self._open
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
        """Return which kinds an agent may propose: None is all, the empty set nothing.

        Raises:
            AgentError: There is no such agent.
        """
        await self._open.actor.operate(lambda k: k.set_agent_permissions(agent_id, permissions))

    # batches

    async def submit(
        self, batch: object, *, dry_run: bool = False, identity: AgentIdentity | None = None
    ) -> Verdict:
        """Submit a batch for any agent, as the operator; never raises for a refusal.

        Args:
            batch: A list of intents, a batch object, or one intent.
            dry_run: Decide, and change nothing.
            identity: Handle of the agent on whose behalf the operator submits: if that agent was
                removed, the batch is refused `unauthorized`, even if the name was registered again.

        Raises:
            ClosedError, StoreError: The world is closed, or has failed.
        """
        reply = self._open.actor.post(batch, OPERATOR, dry_run, identity)
        if reply.done():  # turned away at the door; who tries again at once lets others have a turn
            await asyncio.sleep(0)
        return await reply

    def submit_nowait(
        self, batch: object, *, dry_run: bool = False, submitter: str = OPERATOR
    ) -> PendingVerdict:
        """Submit a batch without waiting; await the result for its verdict.

        Args:
            batch: As `submit` takes it.
            dry_run: Decide, and change nothing.
            submitter: For whom it speaks: agents of that name and that owner, and no others.

        Raises:
            ClosedError, StoreError: The world is closed, or has failed.
        """
        reply = self._open.actor.post(batch, submitter, dry_run=dry_run)
        return PendingVerdict(reply, reply.done())

    async def verdict_of(self, agent_id: str, req_id: str) -> Verdict | None:
        """Ask for the answer to a request; None if it is not, or no longer, remembered."""
        return await self._open.actor.operate(lambda kernel: kernel.verdict_of(agent_id, req_id))

    # load

    async def pause(self) -> None:
        """Decide no batches until `resume`; they are queued within the limits.

        Control messages are handled.
        """
        await self._open.actor.pause()

    async def drain(self) -> None:
        """Reject new batches until `resume`.

        Return once the queued ones are decided and durable.
        """
        await self._open.actor.drain()

    async def resume(self) -> None:
        """Take back `pause` and `drain`."""
        await self._open.actor.resume()

    # reading

    @property
    def seq(self) -> int:
        """The durable sequence number of the world."""
        return self._open.committer.durable_seq

    async def log_start(self) -> LogStart:
        """Return where the log begins, which is not at its front once it was compacted."""
        log = self._open.log
        return await in_thread_if(log.is_blocking, log.start)

    @property
    def domains(self) -> Sequence[Domain]:
        """The domains of the world, in the order given."""
        domain = self._domain  # to ask whether it is a Domain would look at each part of the port
        return list(domain) if isinstance(domain, Sequence) else [domain]

    @property
    def records(self) -> int:
        """How many records the log has durably; the next one will have this ordinal."""
        return self._open.committer.durable_records

    @property
    def store_scheme(self) -> str:
        """Scheme of the store's URL, such as `sqlite`, without its location."""
        return self._open.log.url.partition(":")[0]

    @property
    def durability(self) -> str:
        """Durability level of acknowledged records: `memory off normal local full`."""
        return self._open.log.durability

    @property
    def is_paused(self) -> bool:
        """No batches are decided until `resume`."""
        return self._open.actor.is_paused

    async def state(self, path: str = "") -> Json:
        """Copy the state, or a part: `collection`, `collection/entity`, `collection/entity/field`.

        Raises:
            KeyError: There is nothing at the path.
        """
        return await self._open.actor.operate(lambda kernel: state_at(kernel.state, path))

    async def query(self, fn: Callable[[Kernel], T]) -> T:
        """Run a function on the kernel between two batches.

        Its result is returned once it is durable.

        Args:
            fn: Reads and changes nothing; returns copies. It blocks the world while it runs.

        Raises:
            ClosedError, StoreError: The world is closed, or has failed.
        """
        return await self._open.actor.operate(fn)

    async def digest(self) -> str:
        """Return the state digest, hexadecimal: equal states have equal digests."""
        return await self._open.actor.operate(lambda kernel: kernel.digest())

    async def views_for(self, agent_ids: Iterable[str]) -> list[View]:
        """Return what each of several agents may see, all at one seq, in the order asked."""
        view = self._open.viewer.view
        return await self._open.actor.operate(
            lambda kernel: [view(kernel, agent_id) for agent_id in agent_ids]
        )

    def events(self, since: int = 0) -> AsyncIterator[Event]:
        """Return every event after a seq, past and future."""
        return self._open.publisher.events(since)

    def event_pages(
        self, since: int = 0, *, from_record: int | None = None
    ) -> AsyncGenerator[list[Event]]:
        """Return the events in pages of those available.

        `from_record` starts at a record's ordinal.
        """
        return self._open.publisher.pages(since, from_record)

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
        """Return counts and latencies so far as plain JSON."""
        return self._open.statistics()
