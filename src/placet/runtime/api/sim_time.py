"""Simulated time of an open world: read, waited for, and moved."""

from collections.abc import Iterable
from typing import Final

from placet.actors.barrier import Arrivals
from placet.actors.effects.dispatcher import nothing
from placet.kernel.kernel import Kernel
from placet.runtime.clock import RealtimeClock
from placet.runtime.world import WorldRuntime
from placet.schemas.codec import without_numpy
from placet.schemas.errors import AgentError
from placet.schemas.limits import SECOND_NS, SIM_TIME_NS_MAX
from placet.schemas.name_suggestions import did_you_mean
from placet.schemas.verdict import Verdict

_SECONDS_MAX: Final = SIM_TIME_NS_MAX / SECOND_NS


async def step(world: WorldRuntime, dt: float) -> list[Verdict]:
    """Advance a stepped world by `dt` simulated seconds, and decide every batch due or held.

    Return the verdicts of the batches submitted since the last step, in order of submission.

    Raises:
        ValueError: The world is not stepped, or `dt` is negative or leads past the end of time.
    """
    if world.config.clock != "stepped":
        raise ValueError("only a stepped world is stepped; set clock='stepped'")
    dt = without_numpy(dt)
    if not 0 <= dt < 2**63 / SECOND_NS:
        raise ValueError(f"dt must be a finite number of seconds >= 0, got {dt!r}")
    try:
        return await world.actor.step(round(dt * SECOND_NS))
    finally:  # a caller that was canceled while it waited has moved time all the same
        world.timers.wake()


async def barrier(world: WorldRuntime, agents: Iterable[str] | None, deadline_s: float) -> Arrivals:
    """Wait until each agent has submitted or skipped the next step, or `deadline_s` real seconds.

    None for `agents` is all that are registered and not suspended.

    Raises:
        AgentError: There is no such agent.
        ValueError: The world is not stepped, or another caller waits here already.
    """
    if world.config.clock != "stepped":
        raise ValueError("only a stepped world has barriers; set clock='stepped'")
    if not 0 <= deadline_s < _SECONDS_MAX:
        raise ValueError(f"deadline_s must be a finite number >= 0, got {deadline_s!r}")
    if agents is None:
        agents = await world.actor.command(_active_agents)
    agents, known = list(agents), world.kernel.ledger.agents
    for agent_id in agents:
        if agent_id not in known:
            hint = did_you_mean(agent_id, known)
            raise AgentError(f"the barrier cannot wait for {agent_id!r}, which is no agent; {hint}")
    return await world.actor.barrier.wait(agents, deadline_s)


def _active_agents(kernel: Kernel) -> list[str]:
    return [agent.agent_id for agent in kernel.ledger.agents.values() if not agent.is_suspended]


async def sleep_until(world: WorldRuntime, sim_time: float, sleeper: str) -> None:
    """Wait until simulated time reaches `sim_time` seconds; `sleeper` is a name for messages.

    Raises:
        ValueError: `sim_time` is not finite, or beyond the range of simulated time.
    """
    await world.timers.sleep_until(_nanoseconds(sim_time), sleeper)


async def sleep(world: WorldRuntime, seconds: float, sleeper: str) -> None:
    """Wait for a number of simulated seconds; `sleeper` is a name for messages.

    Raises:
        ValueError: The end is not finite, or beyond the range of simulated time.
    """
    end_ns = _nanoseconds(seconds, world.clock.now_ns())
    await world.timers.sleep_until(end_ns, sleeper)


def _nanoseconds(seconds: float, since_ns: int = 0) -> int:
    seconds = without_numpy(seconds)
    moment = since_ns / SECOND_NS + seconds
    if not -_SECONDS_MAX < moment < _SECONDS_MAX:
        raise ValueError(f"a moment must be seconds below {_SECONDS_MAX:g}, got {moment!r}")
    return since_ns + round(seconds * SECOND_NS)


async def skip(world: WorldRuntime, seconds: float) -> None:
    """Advance the time of a world that follows the machine's clock, and wake the due tasks.

    Raises:
        ValueError: The clock is another, or the time is negative or not finite.
        ClosedError, StoreError: The world is closed, or has failed.
    """
    clock = world.clock
    if not isinstance(clock, RealtimeClock):
        raise ValueError(
            f"the time of a world with clock={world.config.clock!r} is the host's; use step"
        )
    if not seconds >= 0:  # NaN too
        raise ValueError(f"time never goes back: expected seconds >= 0, got {seconds!r}")
    now_ns = clock.now_ns()
    clock.skip(_nanoseconds(seconds, now_ns) - now_ns)
    world.timers.wake()
    await world.actor.command(nothing)  # one cycle: it decides the due batches
