"""The time of one world: its clock, its waiters, and what advances it."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from placet.actors.admission.time_scaled_queue import Dilation
from placet.actors.effects.dispatcher import Executors
from placet.actors.next_event import NextEvent
from placet.actors.orchestrator_actor import OrchestratorActor
from placet.actors.ports import AgentIdentity, Clock
from placet.actors.timers.time_participants import TimeParticipants
from placet.actors.timers.timer_queue import TimerQueue
from placet.kernel.kernel import Kernel
from placet.runtime.clock import DilatedClock, RealtimeClock, SteppedClock
from placet.runtime.config import OrchestratorConfig
from placet.schemas.codec import Json
from placet.schemas.errors import PlacetError
from placet.schemas.limits import SECOND_NS

if TYPE_CHECKING:
    import asyncio

    from placet.schemas.verdict import Verdict


class WorldTime:
    """The clock of a world and its sleeping tasks, built from the configuration.

    Args:
        config: The user's configuration.
        start_ns: Simulated time to continue from.
        clock: The clock; None for the configured one.
        on_dilated: Called when dilation has slowed time, and when time is back at full speed.
        on_stall: Called when time cannot advance.

    Attributes:
        clock: The world's simulated clock.
        timers: The queue of tasks that wait for a simulated time.
        participants: The same queue, if the clock is `next_event`; else None.
    """

    def __init__(
        self,
        config: OrchestratorConfig,
        start_ns: int,
        clock: Clock | None,
        on_dilated: Callable[[Dilation, int], None],
        on_stall: Callable[[PlacetError], None],
    ) -> None:
        self._config = config
        self._on_stall = on_stall
        self.clock = clock or _clock_of(config, start_ns, on_dilated)
        self.participants = TimeParticipants(self.clock) if config.clock == "next_event" else None
        self.timers = TimerQueue(self.clock) if self.participants is None else self.participants

    def next_event(
        self, kernel: Kernel, actor: OrchestratorActor, executors: Executors
    ) -> NextEvent:
        """Build the driver of a `next_event` world's time.

        From then on it is notified of each batch.
        """
        participants, config, post = self.participants, self._config, actor.post_batch
        assert participants is not None, "only a `next_event` world goes by its next event"

        def noted(
            raw: object,
            submitter: str,
            dry_run: bool = False,
            identity: AgentIdentity | None = None,
            *,
            fill_missing: bool = False,
            shows_changes: bool = False,
        ) -> "asyncio.Future[Verdict]":
            reply = post(
                raw,
                submitter,
                dry_run,
                identity,
                fill_missing=fill_missing,
                shows_changes=shows_changes,
            )
            participants.note_post(reply, submitter)
            return reply

        # An attribute of this actor hides the method, so other worlds need no check.
        actor.post_batch = noted
        return NextEvent(
            kernel,
            actor,
            executors,
            participants,
            self.clock,
            tick_ns=None if config.tick_s is None else round(config.tick_s * SECOND_NS),
            rounds_max=config.instant_groups_max,
            seconds_max=config.agent_think_seconds_max,
            on_stall=self._on_stall,
        )

    def factor(self) -> float:
        """Return the present speed of simulated time: simulated seconds per real second.

        Only dilation (`backpressure="dilate"`) lowers it below 1.
        """
        clock = self.clock
        return clock.dilation.factor if isinstance(clock, DilatedClock) else 1.0

    def statistics(self) -> dict[str, Json]:
        """Return the state of the clock as plain JSON; `behind_s`: seconds lost to dilation."""
        clock = self.clock
        report: dict[str, Json] = {"clock": self._config.clock, "asleep": len(self.timers)}
        if isinstance(clock, DilatedClock):
            report["factor"] = round(clock.dilation.factor, 6)
            report["factor_lowest"] = round(clock.dilation.lowest, 6)
            report["behind_s"] = round(clock.behind_ns / SECOND_NS, 6)
        return report


def _clock_of(
    config: OrchestratorConfig, start_ns: int, on_dilated: Callable[[Dilation, int], None]
) -> Clock:
    if config.clock != "realtime":
        return SteppedClock(start_ns)
    if config.backpressure == "dilate":
        return DilatedClock(start_ns, config.dilation(), on_change=on_dilated)
    return RealtimeClock(start_ns)
