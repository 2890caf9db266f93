"""The host program's handle of one agent: observe its view and submit its batches."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from itertools import count
from typing import TYPE_CHECKING, NoReturn

from placet.actors.admission.overload import unauthorized
from placet.actors.observation.observer import Observer
from placet.actors.policies.staleness_scope import Begin, Read, StalenessOptions, StalenessScope
from placet.actors.policies.subscriptions import ExternalChange
from placet.kernel.kernel import Kernel
from placet.runtime.api.sim_time import Sleeps
from placet.runtime.api.typed_errors import RaisesRefusals
from placet.runtime.pending_verdict import PendingVerdict
from placet.schemas.codec import Json
from placet.schemas.errors import PermissionDeniedError
from placet.schemas.intent import SCHEMA_VERSION, Intent
from placet.schemas.latency import Latency
from placet.schemas.limits import ObserverLimits
from placet.schemas.verdict import Verdict
from placet.schemas.view import Observation, View

if TYPE_CHECKING:
    from placet.runtime.world import WorldRuntime

DEFAULT_PRIORITY = 10


class AgentHandle(RaisesRefusals, Sleeps):
    """Speaks for one agent, and for no other.

    Attributes:
        agent_id: The agent.
        generation: How often its name was registered; a handle of an earlier one is refused.
        view_seq: Of the latest view it was given; fills in `context_seq`.

    Args:
        world: The world that the agent is registered in.
        agent_id: The agent.
        generation: As above.
        sequence: Name of the req_ids that it makes, which no other handle has.
    """

    __slots__ = ("_numbers", "_sequence", "_world", "agent_id", "generation", "view_seq")

    def __init__(
        self, world: "WorldRuntime", agent_id: str, generation: int, sequence: str
    ) -> None:
        self._world = world
        self.agent_id = agent_id
        self.generation = generation
        self.view_seq = world.committer.durable_seq
        self._sequence = sequence
        self._numbers = count()

    def intent(self, kind: str, /, **payload: Json) -> Intent:
        """Make an intent of a payload; the other fields are filled in.

        The req_id is of the sequence form, `context_seq` is that of the latest view.
        """
        return {
            "kind": kind,
            "payload": payload,
            "agent_id": self.agent_id,
            "req_id": f"{self._sequence}:{next(self._numbers)}",
            "context_seq": self.view_seq,
            "priority": DEFAULT_PRIORITY,
            "schema_version": SCHEMA_VERSION,
        }

    async def submit(self, batch: object, *, dry_run: bool = False) -> Verdict:
        """Submit a batch of this agent's own; never raises for a refusal."""
        reply = self._world.actor.post(batch, self.agent_id, dry_run, self)
        if reply.done():  # turned away at the door; who tries again at once lets others have a turn
            await asyncio.sleep(0)
        return await reply

    def submit_nowait(self, batch: object, *, dry_run: bool = False) -> PendingVerdict:
        """Submit a batch of this agent without waiting; await the result for its verdict."""
        reply = self._world.actor.post(batch, self.agent_id, dry_run, self)
        return PendingVerdict(reply, reply.done())

    async def refresh_view(self) -> View:
        """Return a view: an atomic cut of what the agent may see, at the latest durable seq.

        Raises:
            PermissionDeniedError: The agent was removed since.
        """
        view = await self._world.actor.command(self._look)
        self.view_seq = view.view_seq
        return view

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
        """Open a block on a fresh view that is canceled once the view is stale.

            async with alice.fresh_context(reads=["world.agents/bob"]) as context:
                intents = await think(context.view)

        The block is canceled when another agent's durable change affects what it depends on; then
        `StaleContextError` is raised out of it, with what changed. A block that completes raises
        nothing. The arguments are those of `StalenessOptions`, which may be passed instead; with
        none of them, everything that the agent may see counts.

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

    async def submit_one(self, intent: Intent) -> Verdict:
        """Propose one intent; never raises for a refusal."""
        return await self.submit([intent])

    async def deregister(self) -> None:
        """Leave the world: the agent is removed, and a policy that runs for it is stopped.

        Raises:
            PermissionDeniedError: The agent was removed before.
        """
        actor, agent_id = self._world.actor, self.agent_id
        try:
            await actor.command(
                lambda kernel: actor.change_agent(self._checked(kernel), agent_id, "removed")
            )
        finally:  # it may be done though nobody waits for that any more
            self._world.policy_supervisor.sync(agent_id)

    async def observe(
        self,
        *,
        bytes_max: int | None = None,
        limits: ObserverLimits | None = None,
        latency: Latency | None = None,
    ) -> AsyncGenerator[Observation, None]:
        """Observe: a snapshot, then deltas as the world changes in the agent's eyes, until closed.

        Args:
            bytes_max: Budget of one observation: what does not fit comes late, the far after the
                near. None is no budget.
            limits: How much may wait for this observer; what does not fit becomes a snapshot.
            latency: Delay of every observation, the agent's own changes included, in simulated
                time: `Constant`, `Uniform` or `ByDistance` of `placet.schemas.latency`.
                `refresh_view` is not delayed.

        Raises:
            PermissionDeniedError: The agent was removed.
        """
        eyes = self.observer(bytes_max=bytes_max, limits=limits, latency=latency)
        async with eyes as observer:
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
        """Return the agent's eyes, an async context manager: `next` gives what `observe` gives."""

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

        view = await self._world.actor.command(look)
        self.view_seq = view.view_seq
        return view

    def _look(self, kernel: Kernel) -> View:
        return self._world.viewer.view(self._checked(kernel), self.agent_id)

    def _checked(self, kernel: Kernel) -> Kernel:
        agent = kernel.ledger.agents.get(self.agent_id)
        if agent is None or agent.generation != self.generation:
            self._refuse()
        return kernel

    def _refuse(self) -> NoReturn:
        refused = self._world.actor.refuse(unauthorized(self.agent_id))
        raise PermissionDeniedError(refused.refusals[0].message, verdict=refused)

    def __repr__(self) -> str:
        return f"<AgentHandle {self.agent_id!r} at view {self.view_seq}>"
