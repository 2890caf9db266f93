"""Runs the effects of one kind after their batches are durable, and settles each exactly once.

At most `concurrency` run at a time; the rest wait in the outbox, whose depth the gate judges. The
outcome goes back through the orchestrator's control lane and is a record: a replay reads it there
and never runs the effect again.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

import anyio

from placet.actors.counters import Counters
from placet.actors.ports import Clock, EffectHandler
from placet.schemas.effect import Effect, EffectKey, Settlement
from placet.schemas.errors import ClosedError, StoreError
from placet.schemas.limits import SECOND_NS

Settle = Callable[[Settlement], Awaitable[bool]]
ExecutorFault = Callable[[str, BaseException], None]


class Executor:
    """The executor of one kind of effect.

    Args:
        kind: Which effects it runs.
        handler: Runs one effect and returns its output as plain JSON.
        settle: Takes an outcome in; returns once it is durable.
        clock: Measures.
        counters: Counts effects by outcome.
        concurrency: How many run at a time.
        seconds_max: How long one may take.
        on_fault: Told of what the handler raised.
    """

    def __init__(
        self,
        kind: str,
        handler: EffectHandler,
        settle: Settle,
        clock: Clock,
        counters: Counters,
        *,
        concurrency: int,
        seconds_max: float,
        on_fault: ExecutorFault,
    ) -> None:
        self.kind = kind
        self._handler = handler
        self._settle = settle
        self._clock = clock
        self._counters = counters
        self._concurrency = concurrency
        self._seconds_max = seconds_max
        self._on_fault = on_fault
        self._waiting: deque[Effect] = deque()
        self._taken: set[EffectKey] = set()
        self._running = 0
        self._wake = anyio.Event()
        self._ended = anyio.Event()
        self._is_closed = False

    def take(self, effect: Effect) -> None:
        """Take an effect to run; harmless if it was taken before. The outbox bounds the queue."""
        if effect.key not in self._taken:
            self._taken.add(effect.key)
            self._waiting.append(effect)
            self._wake.set()

    async def finish(self) -> None:
        """Start no more, and wait until those that run have settled. The rest stays in the log."""
        self._is_closed = True
        self._wake.set()
        while self._running:
            self._ended = anyio.Event()
            await self._ended.wait()

    async def run(self) -> None:
        """Run what is taken, until `finish`."""
        async with anyio.create_task_group() as group:
            while not self._is_closed:
                while self._waiting and self._running < self._concurrency:
                    self._running += 1
                    group.start_soon(self._execute, self._waiting.popleft())
                self._wake = anyio.Event()
                if not self._is_closed:
                    await self._wake.wait()

    async def _execute(self, effect: Effect) -> None:
        started_ns = self._clock.monotonic_ns()
        try:
            settlement = await self._attempt(effect)
            await self._settle(settlement)
        except (ClosedError, StoreError):
            return  # the world has stopped; the effect is open in the log, to be taken up again
        finally:
            self._running -= 1
            self._taken.discard(effect.key)
            self._wake.set()
            self._ended.set()
        outcome = "settled" if settlement.succeeded else "failed"
        seconds = (self._clock.monotonic_ns() - started_ns) / SECOND_NS
        self._counters.effect(self.kind, outcome, seconds)

    async def _attempt(self, effect: Effect) -> Settlement:
        try:
            with anyio.move_on_after(self._seconds_max):
                output = await self._handler(effect)
                return Settlement(effect.key, succeeded=True, output=output)
        except Exception as error:  # noqa: BLE001  # the executor boundary: a failure is an outcome
            return self._failed(effect, error)
        except asyncio.CancelledError as error:
            if _is_canceled():
                raise
            return self._failed(effect, error)  # the handler's own, of something that it awaited
        reason = f"the handler took longer than {self._seconds_max:g} s"
        return Settlement(effect.key, succeeded=False, output=reason)

    def _failed(self, effect: Effect, error: BaseException) -> Settlement:
        self._on_fault(f"executor {self.kind}", error)
        reason = f"{type(error).__name__}: {error}"
        return Settlement(effect.key, succeeded=False, output=reason)


def _is_canceled() -> bool:
    """Tell whether this very task is being canceled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
