"""The `next_event` clock: simulated time jumps to the next due time once no task is runnable.

A loop of three cases. While a task is runnable, wait. When none is, decide the submitted batches
as one group, in an order that does not depend on arrival. When none is submitted, advance time to
the next wake-up, scheduled batch or tick. So a run is a function of the policies and the
seed, independent of how long each computation took.

The groups at one simulated time and the real time of one computation are bounded; the error names
the tasks that exceed a bound.

    Source: next-event time advance of discrete-event simulation (Law, "Simulation Modeling and
    Analysis", 2015, 1.3); trio's autojump clock for the test that no task is runnable.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from placet.actors.effects.dispatcher import Executors, nothing
from placet.actors.orchestrator_actor import OrchestratorActor
from placet.actors.ports import Clock
from placet.actors.timers.time_participants import TimeParticipants
from placet.kernel.kernel import Kernel
from placet.schemas.errors import ClosedError, StoreError, TimeStalledError
from placet.schemas.limits import SECOND_NS

_QUIET_TURNS: Final = 16
"""Event-loop iterations without activity after which the program counts as quiet.

Registered tasks are awaited by name; this is for a program that is still setting up its tasks."""


class NextEvent:
    """The driver of a `next_event` clock: advances simulated time once no task can run.

    Args:
        kernel: Read for scheduled batches.
        actor: Decides batches and moves the clock.
        executors: Running effects are awaited before time advances.
        participants: Tasks registered on this clock.
        clock: The world's clock.
        tick_ns: Period of ticks, in simulated nanoseconds; None is no ticks.
        rounds_max: Maximum groups decided at one simulated time.
        seconds_max: Maximum real seconds that one computation may hold time.
        on_stall: Called when time has ended because a bound was exceeded.
    """

    def __init__(
        self,
        kernel: Kernel,
        actor: OrchestratorActor,
        executors: Executors,
        participants: TimeParticipants,
        clock: Clock,
        *,
        tick_ns: int | None,
        rounds_max: int,
        seconds_max: float,
        on_stall: Callable[[TimeStalledError], None],
    ) -> None:
        self._kernel = kernel
        self._actor = actor
        self._executors = executors
        self._participants = participants
        self._clock = clock
        self._tick_ns = tick_ns
        self._rounds_max = rounds_max
        self._seconds_max = seconds_max
        self._on_stall = on_stall
        self._rounds = 0

    async def run(self) -> None:
        """Advance simulated time event by event, until the world ends or time stalls."""
        try:
            while True:
                if self._actor.is_paused:
                    await self._participants.wait_changed()
                    continue
                await self._wait_for_thinkers()
                if not await self._is_quiet():
                    continue
                if self._actor.held:
                    await self._decide()
                elif (due_ns := self._next_ns()) is not None:
                    await self._go_to(due_ns)
                else:
                    await self._participants.wait_changed()
        except (ClosedError, StoreError):
            return
        except TimeStalledError as stalled:
            self._participants.end(stalled)
            self._actor.stall(stalled)
            self._on_stall(stalled)

    async def _wait_for_thinkers(self) -> None:
        """Wait until no task is runnable.

        Raises:
            TimeStalledError: A task is runnable for too long, while others wait for a later time.
        """
        participants, now = self._participants, asyncio.get_running_loop().time
        ends: float | None = None
        while participants.is_thinking:
            if self._next_ns() is None:
                ends = None
            elif ends is None:
                ends = now() + self._seconds_max
            try:
                async with asyncio.timeout_at(ends):
                    await participants.wait_changed()
            except TimeoutError:
                ends = participants.thinks_since + self._seconds_max
                if ends > now():
                    continue  # another task is the longest-running one by now, or none is runnable
                raise TimeStalledError(
                    f"simulated time stopped at {self._now_s:g} s: "
                    f"{_join_names(participants.thinkers())} has not slept, submitted or ended for "
                    f"{self._seconds_max:g} s, while other tasks wait for a later time; a task on "
                    "this clock must wait with sleep_until"
                ) from None

    async def _is_quiet(self) -> bool:
        """Return whether nothing is in progress: no command, write, effect or runnable task."""
        participants, kernel = self._participants, self._kernel
        before = (participants.version, kernel.record_count)
        if kernel.ledger.outbox:
            await self._executors.settled(run_only=True)
        await self._actor.command(nothing)
        for _ in range(_QUIET_TURNS):
            await asyncio.sleep(0)
            if (participants.version, kernel.record_count) != before or participants.is_thinking:
                return False
        return not self._actor.is_paused

    async def _step(self, dt_ns: int, *, is_tick: bool) -> None:
        try:
            await self._actor.step(dt_ns, is_tick=is_tick)
        except ValueError:
            if not self._actor.is_paused:  # a pause between the test and the step is harmless
                raise

    async def _decide(self) -> None:
        """Decide the batches submitted at this simulated time."""
        self._rounds += 1
        if self._rounds > self._rounds_max and self._next_ns() is not None:
            raise TimeStalledError(
                f"simulated time stopped at {self._now_s:g} s: {self._rounds_max} groups were "
                f"decided at this time and {_join_names(self._participants.submitters())} still "
                "submit, while other tasks wait for a later time; a policy must sleep between turns"
            )
        self._participants.reset()
        await self._step(0, is_tick=False)

    async def _go_to(self, due_ns: int) -> None:
        """Advance time to a due time, or to the next tick before it."""
        self._rounds = 0
        now_ns, tick_ns = self._clock.now_ns(), self._tick_ns
        is_tick = False
        if tick_ns is not None:
            at_ns = (now_ns // tick_ns + 1) * tick_ns
            is_tick, due_ns = at_ns <= due_ns, min(at_ns, due_ns)
        await self._step(max(0, due_ns - now_ns), is_tick=is_tick)
        self._participants.wake()

    def _next_ns(self) -> int | None:
        """Return the next due time; ticks do not count, because no task waits for them."""
        dues = (self._participants.next_ns, self._kernel.ledger.next_due_ns)
        return min((due for due in dues if due is not None), default=None)

    @property
    def _now_s(self) -> float:
        return self._clock.now_ns() / SECOND_NS


def _join_names(names: list[str]) -> str:
    return ", ".join(repr(name) for name in names) or "an unnamed task"
