"""The face by which a host program sees what its agents see."""

from collections.abc import AsyncGenerator, Awaitable, Callable

from placet.kernel.kernel import Kernel
from placet.runtime.world import WorldRuntime
from placet.schemas.errors import AgentError
from placet.schemas.latency import Latency
from placet.schemas.limits import ObserverLimits
from placet.schemas.view import Observation


class ShowsAgents:
    """`observe`, for the holder of an open world."""

    __slots__ = ()

    @property
    def _open(self) -> WorldRuntime:
        """The world, if it is open."""
        raise NotImplementedError

    async def observe(
        self,
        agent_id: str,
        *,
        bytes_max: int | None = None,
        limits: ObserverLimits | None = None,
        latency: Latency | None = None,
    ) -> AsyncGenerator[Observation, None]:
        """Observe as an agent, as its handle does; it ends with the world, or with the agent.

        Args:
            agent_id: Through whose eyes.
            bytes_max: Budget of one observation.
            limits: How much may wait.
            latency: How late all is shown, in simulated time.

        Raises:
            AgentError: There is no such agent.
            ClosedError, StoreError: The world is closed, or has failed.
        """
        world = self._open

        def begin(act: Callable[[Kernel], None]) -> Awaitable[None]:
            def check_and_act(kernel: Kernel) -> None:  # in one turn: who goes after it is told of
                if agent_id not in kernel.ledger.agents:
                    raise AgentError(f"there is no agent {agent_id!r}; register it first")
                act(kernel)

            return world.actor.command(check_and_act)

        eyes = world.observing.observer(agent_id, begin, limits, bytes_max, latency)
        async with eyes as observer:
            while (observation := await observer.next()) is not None:
                yield observation
