"""The face by which a world's simulated time is read, waited for and moved."""

from collections.abc import Iterable
from typing import Final

from placet.actors.barrier import Arrivals
from placet.kernel.kernel import Kernel
from placet.runtime.config import OrchestratorConfig
from placet.runtime.world import WorldRuntime
from placet.schemas.limits import SECOND_NS, SIM_TIME_NS_MAX
from placet.schemas.verdict import Verdict

_SECONDS_MAX: Final = SIM_TIME_NS_MAX / SECOND_NS


class KeepsTime:
    """`sim_time`, `step`, `barrier` and `wait_until`, for the holder of an open world."""

    __slots__ = ()
    config: OrchestratorConfig

    @property
    def _open(self) -> WorldRuntime:
        """The world, if it is open."""
        raise NotImplementedError

    @property
    def sim_time(self) -> float:
        """Simulated time, seconds."""
        return self._open.clock.now_ns() / SECOND_NS

    async def step(self, dt: float) -> list[Verdict]:
        """Advance a stepped world by `dt` simulated seconds and decide all that is due.

        Returns:
            The verdicts of the batches that waited, in order of arrival.

        Raises:
            ValueError: The world is not stepped, or `dt` is negative or leads past time's end.
        """
        if self.config.clock != "stepped":
            raise ValueError("only a stepped world is stepped; set clock='stepped'")
        if not 0 <= dt < 2**63 / SECOND_NS:
            raise ValueError(f"dt must be a finite number of seconds >= 0, got {dt!r}")
        world = self._open
        try:
            return await world.actor.step(round(dt * SECOND_NS))
        finally:  # who no longer waits for the verdicts has moved time all the same
            world.sleepers.wake()

    async def barrier(
        self, agents: Iterable[str] | None = None, *, deadline_s: float = 10.0
    ) -> Arrivals:
        """Wait, before a step, until each agent has submitted since the last, or passed.

        A batch that is malformed or rejected at admission does not count as submitted. An agent
        skips the step by `handle.skip_step()`.

        Args:
            agents: Who is waited for; None is all who are registered and not suspended.
            deadline_s: Real seconds after which missing agents count as late.

        Returns:
            Who passed and who was late. The next step is taken without these.

        Raises:
            ClosedError, StoreError: The world is closed, or fails, before.
            ValueError: The world is not stepped, or another caller waits here already.
        """
        if self.config.clock != "stepped":
            raise ValueError("only a stepped world has barriers; set clock='stepped'")
        if not 0 <= deadline_s < _SECONDS_MAX:
            raise ValueError(f"deadline_s must be a finite number >= 0, got {deadline_s!r}")
        actor = self._open.actor
        if agents is None:
            agents = await actor.command(_active_agents)
        return await actor.barrier.wait(agents, deadline_s)

    async def wait_until(self, sim_time: float) -> None:
        """Wait until simulated time reaches a moment, in seconds.

        A stepped world must be stepped by another task meanwhile. Where time is dilated this takes
        longer than the machine's clock would say.

        Raises:
            ClosedError, StoreError: The world is closed, or fails, before.
            TimeStalledError: Somebody holds up the time of a `next_event` world.
            ValueError: It is no moment of simulated time.
        """
        await self._open.sleepers.sleep_until(_moment_ns(sim_time), "the host")


class Sleeps:
    """`sleep`, `sleep_until` and `skip_step`, for agents of a world."""

    __slots__ = ()
    agent_id: str
    _world: WorldRuntime

    def skip_step(self) -> None:
        """Propose nothing before the next step; a barrier need not wait for this agent.

        Raises:
            ValueError: The world is not stepped.
        """
        if self._world.config.clock != "stepped":
            raise ValueError("only in a stepped world there are turns to pass")
        self._world.actor.barrier.note_pass(self.agent_id)

    async def sleep_until(self, sim_time: float) -> None:
        """Wait until simulated time reaches a moment, in seconds.

        Raises:
            ClosedError, StoreError: The world is closed, or fails, before.
            ValueError: It is no moment of simulated time.
        """
        await self._world.sleepers.sleep_until(_moment_ns(sim_time), self.agent_id)

    async def sleep(self, seconds: float) -> None:
        """Wait so many simulated seconds.

        Raises:
            ClosedError, StoreError, ValueError: As `sleep_until`.
        """
        sleepers, now_ns = self._world.sleepers, self._world.clock.now_ns()
        await sleepers.sleep_until(_moment_ns(seconds, now_ns), self.agent_id)


def _active_agents(kernel: Kernel) -> list[str]:
    return [one.agent_id for one in kernel.ledger.agents.values() if not one.is_suspended]


def _moment_ns(seconds: float, since_ns: int = 0) -> int:
    """Read a moment that a program waits for, as seconds since another.

    Raises:
        ValueError: It is no moment of simulated time.
    """
    moment = since_ns / SECOND_NS + seconds
    if not -_SECONDS_MAX < moment < _SECONDS_MAX:
        raise ValueError(f"a moment must be seconds below {_SECONDS_MAX:g}, got {moment!r}")
    return since_ns + round(seconds * SECOND_NS)
