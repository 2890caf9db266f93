"""The host program's handle of one agent: observe its view and submit its batches."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, NoReturn

from placet.actors.admission.overload import unauthorized
from placet.actors.observation.observer import Observer
from placet.actors.policies.staleness_scope import Begin, Read, StalenessOptions, StalenessScope
from placet.actors.policies.subscriptions import ExternalChange
from placet.kernel.kernel import Kernel
from placet.runtime.agent_lease import AgentLease
from placet.runtime.api import sim_time as time_api
from placet.runtime.pending_verdict import PendingVerdict
from placet.schemas.codec import Json
from placet.schemas.condition import if_unchanged as conditions_on
from placet.schemas.config import Leases
from placet.schemas.errors import PermissionDeniedError
from placet.schemas.intent import Intent, joined_payload, new_intent
from placet.schemas.latency import Latency
from placet.schemas.limits import ObserverLimits
from placet.schemas.verdict import Verdict
from placet.schemas.view import Observation, View

if TYPE_CHECKING:
    from placet.runtime.world import WorldRuntime


class AgentHandle:
    """A handle of one registered agent: submits its batches, returns its views and observations.

    `Orchestrator.register_agent` returns it. A loop of an agent looks, and then proposes:

        view = await ann.refresh_view()
        x, y, _ = view.state["world.agents"]["ann"]["position"]
        verdict = await ann.submit([ann.intent("Move", to=[x + 1, y])])

    Attributes:
        agent_id: Name of the agent.
        generation: Number of registrations of the name up to this agent; once the agent is removed,
            this handle is refused, even if the name is registered again.
        view_seq: Seq of the latest view, used as `context_seq` by `intent`.

    Args:
        world: The world that the agent is registered in.
        agent_id: Name of the agent.
        generation: Generation of the agent.
        sequence: Prefix of the req_ids that `intent` makes, unique to this handle.
    """

    __slots__ = (
        *("_numbers", "_opened", "_sequence", "_view", "agent_id", "generation", "view_seq"),
    )

    def __init__(
        self, world: "WorldRuntime", agent_id: str, generation: int, sequence: str
    ) -> None:
        self._opened = world
        self.agent_id = agent_id
        self.generation = generation
        self.view_seq = world.committer.durable_seq
        self._sequence = sequence
        self._numbers = count()
        self._view: View | None = None

    @property
    def _world(self) -> "WorldRuntime":
        """The world, whose event loop runs the caller."""
        world = self._opened
        world.home.require()
        return world

    def intent(
        self,
        kind: str,
        mapping: Mapping[str, Json] | None = None,
        /,
        *,
        if_unchanged: Iterable[str | Sequence[str]] | None = None,
        **payload: Json,
    ) -> Intent:
        """Build an intent of a kind; the fields besides kind and payload are filled in.

        The req_id is `PREFIX:NUMBER`, and `context_seq` is the seq of the latest view.

        Args:
            kind: Name of the kind.
            mapping: Payload, such as the TypedDict of the kind; also for fields that no keyword
                can have, such as `if_unchanged`.
            if_unchanged: Paths of 1 to 16 values, such as `world.objects/lamp/holder`. The intent
                then expects the values that the latest view of `refresh_view` or `fresh_context`
                has there, and depends on nothing else: no other change makes it stale. None: it
                depends on the entities that its kind reads.
            **payload: Fields of the payload.

        Raises:
            ValueError: A path is invalid, or there is no view yet.
        """
        content = payload if mapping is None else joined_payload(kind, mapping, payload)
        req_id = f"{self._sequence}:{next(self._numbers)}"
        intent = new_intent(kind, content, self.agent_id, req_id, self.view_seq)
        if if_unchanged is not None:
            if self._view is None:
                raise ValueError(
                    f"if_unchanged needs a view of {self.agent_id!r}: call refresh_view() first"
                )
            intent["expect"] = conditions_on(self._view.state, if_unchanged)
        return intent

    async def submit(self, batch: object, *, dry_run: bool = False) -> Verdict:
        """Submit a batch of this agent and return its verdict, also if the batch is refused.

        Args:
            batch: A list of intents, a batch object, or one intent. All of it is admitted, or
                nothing.
            dry_run: Decide, and change nothing.

        Returns:
            The verdict, once it is durable.

        Raises:
            ClosedError, StoreError: The world is closed, or has failed.
        """
        return await self._world.submit(batch, self.agent_id, dry_run, self, fill_missing=True)

    def submit_nowait(self, batch: object, *, dry_run: bool = False) -> PendingVerdict:
        """Submit a batch of this agent without waiting.

        Await the returned object for the verdict.
        """
        reply = self._world.actor.post_batch(batch, self.agent_id, dry_run, self, fill_missing=True)
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
        return await self._world.submit_intents(intents, sim_time, self.agent_id, self)

    async def submit_intent(self, intent: Mapping[str, Json], sim_time: float | None = None) -> str:
        """Submit one intent, and return its req_id.

        Raises:
            PlacetError: The intent was refused; the subclass depends on the refusal.
        """
        return (await self.submit_intents([intent], sim_time))[0]

    async def refresh_view(self) -> View:
        """Return a view: a consistent copy of the entities visible to the agent, at the latest seq.

        The copy is durable.

        Raises:
            PermissionDeniedError: The agent was removed.
        """
        return self._keep(await self._world.actor.command(self._look))

    def fresh_context(
        self,
        freshness: StalenessOptions | None = None,
        /,
        *,
        threshold: int | None = None,
        reads: Iterable[Read] | None = None,
        kinds: Iterable[str] | None = None,
        intents: Iterable[Intent] | None = None,
        relevant: Callable[[ExternalChange], bool] | None = None,
        debounce: float = 0.0,
    ) -> StalenessScope:
        """Return an async context manager whose block is canceled once its view is stale.

            async with alice.fresh_context(reads=["world.agents/bob"]) as context:
                intents = await think(context.view)

        The block is canceled when a durable change by another agent affects a dependency; then
        `StaleContextError` is raised out of it and lists the changes. A block that completes
        raises nothing. The arguments are those of `StalenessOptions`, which may be passed instead;
        with none of them, everything that the agent may see counts.

        Raises:
            PermissionDeniedError: Entered after the agent was removed.
            StaleContextError: Raised out of the block.
            ValueError: The dependencies cannot be determined.
        """
        if freshness is None:
            freshness = StalenessOptions(
                threshold=threshold,
                reads=reads,
                kinds=kinds,
                intents=intents,
                relevant=relevant,
                debounce=debounce,
            )
        world = self._world
        changes_max = world.limits.changes_listed_max
        return StalenessScope(
            self.agent_id, freshness, self._look_and, world.subscriptions, changes_max
        )

    @property
    def leases(self) -> Leases | None:
        """The bounds of the world's leases; None if it has none."""
        return self._opened.config.leases

    def lease(self, *refs: str | Sequence[str], seconds: float) -> AgentLease:
        """Return an async context manager in whose block the agent alone changes some entities.

            async with alice.lease("world.objects/lamp", seconds=5) as lease:
                view = await alice.refresh_view()
                await alice.submit([act(view), lease.release()])

        It waits for the agent's turn. The world must have leases (`OrchestratorConfig.leases`).

        Args:
            *refs: The entities, as `collection/entity` or as pairs.
            seconds: Simulated seconds that the agent needs at most.

        Raises:
            PlacetError: Entering: the request was refused, such as `lease_unknown`.
            ValueError: A ref is no entity, the seconds are no positive number, or the world has no
                leases.
        """
        if self._world.kernel.ledger.leases is None:
            raise ValueError(
                "this world has no leases; open it with OrchestratorConfig(leases=Leases())"
            )
        return AgentLease(self, refs, seconds, self._wait_for_lease, self._ticket)

    async def _wait_for_lease(self) -> None:
        world = self._world
        await world.actor.lease_waiters.wait(self.agent_id, world.clock.now_ns())

    async def _ticket(self) -> int | None:
        """Return the number of the agent's ticket; None if it has none."""
        world = self._world

        def number_of(kernel: Kernel) -> int | None:
            leases = kernel.ledger.leases
            tickets = {} if leases is None else leases.at(world.clock.now_ns()).tickets
            return tickets[self.agent_id].number if self.agent_id in tickets else None

        return await world.actor.command(number_of)

    def skip_step(self) -> None:
        """Declare that the agent submits nothing before the next step; barriers do not wait for it.

        Raises:
            ValueError: The world is not stepped.
        """
        if self._world.config.clock != "stepped":
            raise ValueError("only a stepped world has steps to skip; set clock='stepped'")
        self._world.actor.barrier.note_pass(self.agent_id)

    async def sleep_until(self, sim_time: float) -> None:
        """Wait until the world's simulated time reaches `sim_time` seconds.

        Raises:
            ClosedError, StoreError: The world is closed, or fails, before.
            ValueError: The time is not finite, or beyond the range of simulated time.
        """
        await time_api.sleep_until(self._world, sim_time, self.agent_id)

    async def sleep(self, seconds: float) -> None:
        """Wait until simulated time has advanced by `seconds`.

        Real time depends on the world's clock.

        Raises:
            ClosedError, StoreError: The world is closed, or fails, before.
            ValueError: The end is not finite, or beyond the range of simulated time.
        """
        await time_api.sleep(self._world, seconds, self.agent_id)

    async def deregister(self) -> None:
        """Remove the agent from the world, and stop a policy that runs for it.

        Raises:
            PermissionDeniedError: The agent was already removed.
        """
        actor, agent_id = self._world.actor, self.agent_id
        try:
            await actor.command(
                lambda kernel: actor.change_agent(self._checked(kernel), agent_id, "removed")
            )
        finally:  # the removal may happen although the caller was canceled
            self._world.policy_supervisor.sync(agent_id)

    async def observe(
        self,
        *,
        bytes_max: int | None = None,
        limits: ObserverLimits | None = None,
        latency: Latency | None = None,
    ) -> AsyncGenerator[Observation, None]:
        """Yield observations of the agent: a snapshot of its view, then changes, until closed.

        Args:
            bytes_max: Byte budget of one observation: changes that do not fit are deferred, the
                least relevant first. None for no budget.
            limits: Bounds of the changes that wait for this observer; beyond them it receives a
                snapshot.
            latency: Delay of every observation, the agent's own changes included, in simulated
                time: `Constant`, `Uniform` or `ByDistance` of `placet.schemas.latency`.
                `refresh_view` is not delayed.

        Raises:
            PermissionDeniedError: The agent was removed.
        """
        opened = self.observer(bytes_max=bytes_max, limits=limits, latency=latency)
        async with opened as observer:
            while (observation := await observer.next()) is not None:
                self.view_seq = max(self.view_seq, observation.view_seq)
                yield observation
            if observer.end == "removed":
                self._refuse()

    def observer(
        self,
        *,
        bytes_max: int | None = None,
        limits: ObserverLimits | None = None,
        latency: Latency | None = None,
    ) -> Observer:
        """Return an observer as an async context manager; its `next` returns the next observation.

        The arguments are those of `observe`.
        """

        def begin(act: Callable[[Kernel], None]) -> Awaitable[None]:
            return self._world.actor.command(lambda kernel: act(self._checked(kernel)))

        observing = self._world.observing
        return observing.observer(self.agent_id, begin, limits, bytes_max, latency)

    async def _look_and(self, begin: Begin | None) -> View:
        """Return a view; `begin`, called in the same cycle, starts the work that acts on it."""
        if begin is None:
            return await self._world.actor.command(self._look)

        def look(kernel: Kernel) -> View:
            view = self._look(kernel)
            begin(kernel, view)
            return view

        return self._keep(await self._world.actor.command(look))

    def _keep(self, view: View) -> View:
        self._view, self.view_seq = view, view.view_seq
        return view

    def _look(self, kernel: Kernel) -> View:
        return self._opened.viewer.view(self._checked(kernel), self.agent_id)

    def _checked(self, kernel: Kernel) -> Kernel:
        agent = kernel.ledger.agents.get(self.agent_id)
        if agent is None or agent.generation != self.generation:
            self._refuse()
        return kernel

    def _refuse(self) -> NoReturn:
        refused = self._opened.actor.refuse(unauthorized(self.agent_id))
        raise PermissionDeniedError(refused.refusals[0].message, verdict=refused)

    def __repr__(self) -> str:
        return f"<AgentHandle {self.agent_id!r} at view {self.view_seq}>"
