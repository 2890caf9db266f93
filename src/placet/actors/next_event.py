"""`next_event`: simulated time jumps to whatever is due next, once nobody has anything to do.

Three things are done by turns. While somebody thinks, nothing. When nobody does, what they posted
is decided as one group, in an order that does not ask who was first. When nothing is posted, time
goes to the next moment that somebody sleeps until, a batch is scheduled for, or a tick falls on.
So a run is a function of the policies and the seed, however long each thought took.

A moment is bounded: by rounds, and by the machine's time. Who holds it up is named.

    Source: next-event time advance of discrete-event simulation (Law, "Simulation Modeling and
    Analysis", 2015, 1.3); trio's autojump clock for "nobody has anything to do".
"""

import asyncio
from collections.abc import Callable
from typing import Final

from placet.actors.effects.dispatcher import Executors
from placet.actors.orchestrator import OrchestratorActor
from placet.actors.ports import Clock
from placet.actors.timers.participants import TimeParticipants
from placet.kernel.kernel import Kernel
from placet.schemas.errors import ClosedError, StoreError, TimeStalledError
from placet.schemas.limits import SECOND_NS

_QUIET_TURNS: Final = 16
"""So many turns of the event loop without a doing, and nobody has anything to do.

Who is known is waited for by name; this is for a program that is still setting up."""


class NextEvent:
    """Moves the time of one world.

    Args:
        kernel: Read for what is scheduled.
        actor: Decides, and moves the clock.
        executors: Effects that run are waited for.
        participants: Those who live in this time.
        clock: Says when it is.
        tick_ns: Let what moves by itself move, so often; None is never.
        rounds_max: How often what is posted is decided at one moment.
        seconds_max: How long one thought may hold up time, of the machine's.
        on_stall: Told when time has ended for one of these reasons.
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
        """Go on until the world is closed or fails, or time stalls."""
        try:
            while True:
                if self._actor.is_paused:
                    await self._participants.wait_changed()
                    continue
                await self._thought()
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

    async def _thought(self) -> None:
        """Wait until nobody thinks.

        Raises:
            TimeStalledError: Others wait for time, and it takes too long.
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
                    continue  # it is another thought by now, or none
                raise TimeStalledError(
                    f"simulated time stands at {self._now_s:g} s: for {self._seconds_max:g} s "
                    f"{_listed(participants.thinkers())} neither slept nor posted nor ended, while "
                    "others wait for later; a task that lives in this time waits by sleep_until"
                ) from None

    async def _is_quiet(self) -> bool:
        """See that nothing is under way: no command, no write, no effect, no task that goes on."""
        participants, kernel = self._participants, self._kernel
        before = (participants.version, kernel.record_count)
        if kernel.ledger.outbox:
            await self._executors.settled(run_only=True)
        await self._actor.command(_nothing)
        for _ in range(_QUIET_TURNS):
            await asyncio.sleep(0)
            if (participants.version, kernel.record_count) != before or participants.is_thinking:
                return False
        return not self._actor.is_paused

    async def _step(self, dt_ns: int, *, is_tick: bool) -> None:
        try:
            await self._actor.step(dt_ns, is_tick=is_tick)
        except ValueError:
            if not self._actor.is_paused:  # else it was paused just now, and no harm is done
                raise

    async def _decide(self) -> None:
        """Decide what was posted at this moment."""
        self._rounds += 1
        if self._rounds > self._rounds_max and self._next_ns() is not None:
            raise TimeStalledError(
                f"simulated time stands at {self._now_s:g} s: {self._rounds_max} rounds were "
                f"decided at this moment and {_listed(self._participants.posters())} still post, while "
                "others wait for later; a policy must sleep between two turns"
            )
        self._participants.reset()
        await self._step(0, is_tick=False)

    async def _go_to(self, due_ns: int) -> None:
        """Jump, by way of the next tick."""
        self._rounds = 0
        now_ns, tick_ns = self._clock.now_ns(), self._tick_ns
        is_tick = False
        if tick_ns is not None:
            at_ns = (now_ns // tick_ns + 1) * tick_ns
            is_tick, due_ns = at_ns <= due_ns, min(at_ns, due_ns)
        await self._step(max(0, due_ns - now_ns), is_tick=is_tick)
        self._participants.wake()

    def _next_ns(self) -> int | None:
        """Return what somebody waits for; ticks alone are waited for by nobody."""
        dues = (self._participants.next_ns, self._kernel.ledger.next_due_ns)
        return min((due for due in dues if due is not None), default=None)

    @property
    def _now_s(self) -> float:
        return self._clock.now_ns() / SECOND_NS


def _listed(names: list[str]) -> str:
    return ", ".join(repr(name) for name in names) or "somebody"


def _nothing(kernel: Kernel) -> None:
    """Command nothing: its answer says that everything before it is decided and durable."""
