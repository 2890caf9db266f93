"""Runs the effects of one kind after their batches are durable, and settles each exactly once.

An effect starts when one of `concurrency` credits is free. Until then it waits in the outbox, whose
depth the gate limits. A failed effect is retried after a pause, during which it holds no credit.
Outcomes are sent to the orchestrator as commands, several at a time, and are written to the log as
records: a replay reads them there and never runs an effect again.

An effect that runs at most once is marked in the log before it starts. A mark without a settlement,
from an attempt that was cut off now or in an earlier process, leaves the effect in doubt.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from math import isfinite
from typing import Final, NamedTuple, TypeAlias

import anyio
import msgspec

from placet.actors.metrics import Counters
from placet.actors.ports import AsyncEffectHandler, Clock
from placet.kernel.prng import random_unit
from placet.schemas.codec import Json
from placet.schemas.effect import (
    DELIVERIES,
    Backoff,
    Delivery,
    DoNotRetry,
    Effect,
    EffectKey,
    EffectMark,
    OutcomeUnknown,
    RetryAfter,
    Settlement,
)
from placet.schemas.errors import ClosedError, StoreError, describe_error
from placet.schemas.limits import SECOND_NS

Settle: TypeAlias = Callable[[Sequence[Settlement]], Awaitable[object]]
Mark: TypeAlias = Callable[[EffectKey, EffectMark, str], Awaitable[bool]]
ExecutorFault: TypeAlias = Callable[[str, BaseException], None]

_SETTLED_TOGETHER_MAX: Final = 32
"""Settlements of one command: they are recorded in one cycle, which must stay short."""

CUT_OFF: Final = "the world ended while it ran"


InDoubtHook: TypeAlias = Callable[[Effect], Awaitable[Settlement | None]]
"""Finds out the outcome of an effect: returns its settlement, or None if it stays unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How an executor runs its effects: attempts, limits, pauses, and delivery.

    Attributes:
        delivery: Whether a second attempt may repeat the effect in the outside world.
        concurrency: Number of attempts that may run at a time.
        attempts_max: Number of failed attempts after which an effect is given up.
        seconds_max: Time limit of one attempt, seconds.
        outbox_max: Number of unsettled effects at which the gate answers `executor_busy`.
        backoff: The pauses between attempts.
        on_in_doubt: Hook that finds out the outcome of an effect that is in doubt.

    Raises:
        ValueError: An attribute is out of range, or contradicts `delivery`.
    """

    delivery: Delivery
    concurrency: int
    attempts_max: int
    seconds_max: float
    outbox_max: int
    backoff: Backoff = field(default_factory=Backoff)
    on_in_doubt: InDoubtHook | None = None

    def __post_init__(self) -> None:
        if self.delivery not in DELIVERIES:
            raise ValueError(f"delivery must be one of {DELIVERIES}, got {self.delivery!r}")
        for name in ("concurrency", "attempts_max", "outbox_max"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise ValueError(f"{name} must be an int >= 1, got {value!r}")
        seconds = self.seconds_max
        if isinstance(seconds, bool) or not isinstance(seconds, int | float):
            raise ValueError(f"seconds_max must be a number, got {seconds!r}")
        if not (isfinite(seconds) and seconds > 0):
            raise ValueError(f"seconds_max must be finite and > 0, got {seconds!r}")
        if self.is_once and self.attempts_max > 1:
            raise ValueError(
                "an effect delivered at_most_once has one attempt; leave out attempts_max"
            )
        if self.on_in_doubt is not None and not self.is_once:
            raise ValueError(
                f"on_in_doubt needs delivery='at_most_once': an effect with {self.delivery} is "
                "retried, never in doubt"
            )

    @property
    def is_once(self) -> bool:
        """Whether there is exactly one attempt, whose outcome may stay unknown."""
        return self.delivery == "at_most_once"


class AttemptResult(NamedTuple):
    """The result of one call of an effect's handler.

    Attributes:
        succeeded: The handler returned without an error.
        output: The handler's return value, or the reason of the failure as text.
        is_final: Another attempt would fail too, so none is made.
        is_unknown: It is unknown whether the work was done.
        pause_s: Pause before the next attempt, if the handler named one; else None.
    """

    succeeded: bool
    output: Json
    is_final: bool = False
    is_unknown: bool = False
    pause_s: float | None = None


class Executor:
    """The executor of one kind of effect.

    Args:
        kind: The kind of effect that it runs.
        handler: Runs one effect and returns its output as plain JSON.
        retry_policy: Attempts, limits, pauses, and delivery.
        settle: Records settlements; returns once they are durable.
        mark: Records a mark of an effect; returns once it is durable. False: do not run the effect.
        clock: Measures durations and pauses.
        counters: Counts attempts and effects by outcome.
        seed: Seed of the random part of pauses.
        on_fault: Called with each exception of the handler.
        on_left: Called with the key of an effect that is settled, or that an operator must settle.
    """

    def __init__(
        self,
        kind: str,
        handler: AsyncEffectHandler,
        retry_policy: RetryPolicy,
        settle: Settle,
        mark: Mark,
        *,
        clock: Clock,
        counters: Counters,
        seed: int,
        on_fault: ExecutorFault,
        on_left: Callable[[EffectKey], None],
    ) -> None:
        self.kind = kind
        self.retry_policy = retry_policy
        self._handler = handler
        self._settle = settle
        self._mark = mark
        self._clock = clock
        self._counters = counters
        self._seed = seed
        self._on_fault = on_fault
        self._on_left = on_left
        # Each key of `_taken` is in exactly one place: queued, in a pause, in a running attempt, in
        # `_outcomes`, or left to an operator. So an effect never has two attempts at a time.
        self._taken: dict[EffectKey, str] = {}  # with the text of its last failed attempt
        self._waiting: deque[Effect] = deque()
        self._marks: dict[EffectKey, EffectMark] = {}  # of effects in `_waiting`
        # Effects whose start is recorded with their batch, and whose attempt has not begun. Each
        # holds a credit. Those in `_waiting` are at its front, so that they run first.
        self._started: set[EffectKey] = set()
        self._pauses: list[tuple[int, int, Effect]] = []  # a heap by due time
        self._numbers = count()
        self._outcomes: list[Settlement] = []
        self._running = 0  # tasks in `_work`; never more than `concurrency`, the credits
        self._wake = asyncio.Event()
        self._outcome_added = asyncio.Event()
        self._ended = asyncio.Event()
        self._is_closed = False
        self._is_lost = False

    # called by its owner

    @property
    def can_start(self) -> bool:
        """Whether a credit is free for an effect whose batch is not written yet.

        False unless the delivery is `at_most_once`: only then is the start of an effect recorded.
        """
        occupied = self._running + len(self._waiting) + len(self._started)
        is_free = occupied < self.retry_policy.concurrency
        return is_free and self.retry_policy.is_once and not self._is_closed

    def start(self, key: EffectKey) -> None:
        """Hold a credit for an effect whose start is recorded with its batch; see `can_start`."""
        self._started.add(key)

    def end(self) -> None:
        """Release the credits of effects whose batches were never written: the world has ended."""
        self._started.clear()
        self._wake.set()
        self._ended.set()

    def take(self, effect: Effect, mark: EffectMark | None = None) -> None:
        """Queue an effect to be run; do nothing if it is queued already.

        The outbox bounds the queue.

        Args:
            effect: The durable effect.
            mark: The effect's mark in the log: an effect that was started once is not started
                again.
        """
        if effect.key not in self._taken:
            self._taken[effect.key] = ""
            if mark is not None:
                self._marks[effect.key] = mark
            if effect.key in self._started:
                self._waiting.appendleft(effect)
            else:
                self._waiting.append(effect)
            self._wake.set()

    def has(self, key: EffectKey) -> bool:
        """Return whether an effect is queued or running here, so that no operator settles it."""
        return key in self._taken

    def why(self, key: EffectKey) -> str:
        """Return the text of the last failed attempt at an effect; empty if no attempt failed."""
        return self._taken.get(key, "")

    async def finish(self) -> None:
        """Stop the executor: run no more queued effects, and wait for the running ones to settle.

        Effects whose start is recorded with their batch are still run. All other queued effects,
        and effects that wait for another attempt, stay open in the log until the world is opened
        again.
        """
        self._is_closed = True
        self._wake.set()
        while self._started or self._running or self._outcomes:
            self._ended.clear()
            await self._ended.wait()

    async def run(self) -> None:
        """Run queued effects until `finish` is called."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._report)
            while self._started or not self._is_closed:
                self._requeue_due()
                for _ in range(
                    min(len(self._waiting), self.retry_policy.concurrency - self._running)
                ):
                    self._running += 1
                    group.start_soon(self._work)
                self._wake.clear()
                if self._pauses:
                    with anyio.move_on_after(self._pause_s()):
                        await self._wake.wait()
                else:
                    await self._wake.wait()
            self._outcome_added.set()

    # pauses between attempts

    def _requeue_due(self) -> None:
        """Queue the effects whose pause is over."""
        now_ns = self._clock.monotonic_ns()
        while self._pauses and self._pauses[0][0] <= now_ns:
            self._waiting.append(heappop(self._pauses)[2])

    def _pause_s(self) -> float:
        return max(0.0, (self._pauses[0][0] - self._clock.monotonic_ns()) / SECOND_NS)

    # attempts

    async def _work(self) -> None:
        """Run queued effects one after another, holding one credit, until none is queued."""
        try:
            while self._has_next:
                effect = self._waiting.popleft()
                match self._marks.pop(effect.key, None):
                    case None:
                        await self._execute(effect)
                    case "started":
                        await self._mark_in_doubt(effect, CUT_OFF)
                    case "in_doubt":
                        await self._resolve_doubt(effect)
                    case "dead":
                        self._release(effect)
                await asyncio.sleep(0)  # a handler that never awaits must not block the event loop
        except (ClosedError, StoreError):
            pass  # the world has stopped; the effect stays open in the log
        finally:
            self._running -= 1
            for event in (self._wake, self._outcome_added, self._ended):
                event.set()

    @property
    def _has_next(self) -> bool:
        """Whether an effect may be run now: after `finish`, one that was started with its batch."""
        if not self._waiting:
            return False
        return not self._is_closed or self._waiting[0].key in self._started

    async def _execute(self, effect: Effect) -> None:
        is_once, counters = self.retry_policy.is_once, self._counters
        if effect.key in self._started:
            self._started.discard(effect.key)
        elif is_once and not await self._mark(effect.key, "started", ""):
            self._release(effect)  # started or settled elsewhere
            return
        counters.count_effect(self.kind, "attempts")
        began_ns = self._clock.monotonic_ns()
        done = await attempt(self._handler, effect, self.retry_policy.seconds_max, self._on_error)
        seconds = (self._clock.monotonic_ns() - began_ns) / SECOND_NS
        if done.succeeded:
            counters.effect(self.kind, "settled", seconds)
            self._add_outcome(Settlement(effect.key, succeeded=True, output=done.output))
        elif is_once and done.is_unknown:
            counters.effect(self.kind, "in_doubt", seconds)
            await self._mark_in_doubt(effect, str(done.output))
        elif done.is_final or effect.attempt >= self.retry_policy.attempts_max:
            counters.effect(self.kind, "failed", seconds)
            self._give_up(effect, done)
        else:
            counters.effect(self.kind, "retried", seconds)
            self._schedule_retry(effect, done)

    def _add_outcome(self, settlement: Settlement) -> None:
        if not self._is_lost:
            self._outcomes.append(settlement)
            self._outcome_added.set()

    def _give_up(self, effect: Effect, done: AttemptResult) -> None:
        self._counters.count_effect(self.kind, "dead_letters")
        why = done.output
        if effect.attempt > 1:
            why = f"given up after {effect.attempt} attempts: {why}"
        self._add_outcome(Settlement(effect.key, succeeded=False, output=why))

    def _schedule_retry(self, effect: Effect, done: AttemptResult) -> None:
        self._counters.count_effect(self.kind, "retries")
        self._taken[effect.key] = f"attempt {effect.attempt}: {done.output}"
        pause_s = done.pause_s
        if pause_s is None:
            chance = random_unit(self._seed, 0, 0, effect.attempt, "back-off", str(effect.key))
            pause_s = self.retry_policy.backoff.pause_s(effect.attempt, chance)
        due_ns = self._clock.monotonic_ns() + round(pause_s * SECOND_NS)
        again = msgspec.structs.replace(effect, attempt=effect.attempt + 1)
        heappush(self._pauses, (due_ns, next(self._numbers), again))
        self._wake.set()

    # effects in doubt

    async def _mark_in_doubt(self, effect: Effect, why: str) -> None:
        """Record that the outcome of an effect is unknown, and call the hook that may know it."""
        if await self._mark(effect.key, "in_doubt", why):
            self._counters.count_effect(self.kind, "in_doubt")
            await self._resolve_doubt(effect)
        else:
            self._release(effect)

    async def _resolve_doubt(self, effect: Effect) -> None:
        """Call the hook; if it does not know either, the effect waits for an operator."""
        answer: object = None
        hook = self.retry_policy.on_in_doubt
        if hook is not None:
            done = await attempt(hook, effect, self.retry_policy.seconds_max, self._on_error)
            answer = done.output if done.succeeded else None
        if isinstance(answer, Settlement) and answer.key == effect.key:
            self._add_outcome(answer)
            return
        if answer is not None:
            wrong = TypeError(
                f"on_in_doubt must return the effect's Settlement or None, got {answer!r}"
            )
            self._on_error(wrong)
        self._release(effect)

    def _release(self, effect: Effect) -> None:
        self._taken.pop(effect.key, None)
        self._on_left(effect.key)

    def _on_error(self, error: BaseException) -> None:
        self._on_fault(f"executor {self.kind}", error)

    # outcomes

    async def _report(self) -> None:
        """Settle effects as they end; all outcomes present at once form one command."""
        while self._started or self._running or self._outcomes or not self._is_closed:
            if not self._outcomes:
                self._outcome_added.clear()
                await self._outcome_added.wait()
                continue
            together = self._outcomes[:_SETTLED_TOGETHER_MAX]
            try:
                await self._settle(together)
            except (ClosedError, StoreError):
                # The world has stopped; the effects stay open in the log.
                self._is_lost = self._is_closed = True
                self._outcomes.clear()
                self._ended.set()
                self._wake.set()
                return
            del self._outcomes[: len(together)]
            self._ended.set()
            for settlement in together:
                self._taken.pop(settlement.key, None)
                self._on_left(settlement.key)  # a dead letter waits for an operator


async def attempt(
    handler: AsyncEffectHandler,
    effect: Effect,
    seconds_max: float,
    on_error: Callable[[BaseException], None],
) -> AttemptResult:
    """Call a handler once; return its result, error or timeout as an `AttemptResult`.

    Args:
        handler: The handler.
        effect: The effect to run.
        seconds_max: Time limit, real seconds.
        on_error: Called with an exception of the handler.
    """
    try:
        with anyio.move_on_after(seconds_max):
            return AttemptResult(True, await handler(effect))
    except RetryAfter as error:
        return AttemptResult(False, describe_error(error), pause_s=error.seconds)
    except DoNotRetry as error:
        return AttemptResult(False, describe_error(error), is_final=True)
    except OutcomeUnknown as error:
        on_error(error)
        return AttemptResult(False, describe_error(error), is_unknown=True)
    except Exception as error:  # noqa: BLE001  # the executor boundary: a failure is an outcome
        on_error(error)
        return AttemptResult(False, describe_error(error))
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        if isinstance(error, asyncio.CancelledError) and is_canceled():
            raise
        # The handler's own exit, a panic of an extension, or the cancellation of a task that it
        # awaited. None of these may stop the world.
        on_error(error)
        return AttemptResult(False, describe_error(error), is_unknown=True)
    return AttemptResult(False, f"the handler took longer than {seconds_max:g} s", is_unknown=True)


def is_canceled() -> bool:
    """Return whether the current task is being canceled, as opposed to a task that it awaits."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
