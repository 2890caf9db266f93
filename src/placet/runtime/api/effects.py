"""The face by which an open world executes effects."""

from collections.abc import Iterable
from functools import partial

from anyio import to_thread

from placet.actors.effects.executor import RetryPolicy
from placet.kernel.control.outbox import plain_output
from placet.kernel.domain import Domain
from placet.kernel.kernel import Kernel
from placet.runtime.executors.domain_executors import load_handlers
from placet.runtime.executors.fork_handlers import LiveHandler, SimulatedHandler, handler_in
from placet.runtime.executors.handlers import AnyHandler, AnyInDoubt, awaitable
from placet.runtime.world import WorldRuntime, in_thread_if
from placet.schemas.codec import Json
from placet.schemas.effect import (
    EFFECT_STATES,
    Backoff,
    Delivery,
    EffectKey,
    EffectState,
    EffectStatus,
    Settlement,
)
from placet.schemas.limits import EFFECT_ATTEMPTS_MAX, SECOND_NS
from placet.schemas.verdict import Verdict


class ExecutesEffects:
    """Executors and the outcomes of effects, for the holder of an open world."""

    __slots__ = ()

    @property
    def _open(self) -> WorldRuntime:
        """The world, if it is open."""
        raise NotImplementedError

    async def register_executor(
        self,
        kind: str,
        handler: AnyHandler | SimulatedHandler | LiveHandler,
        *,
        delivery: Delivery = "keyed",
        concurrency: int | None = None,
        attempts_max: int | None = None,
        seconds_max: float | None = None,
        backoff: Backoff | None = None,
        outbox_max: int | None = None,
        on_in_doubt: AnyInDoubt | None = None,
    ) -> None:
        """Run effects of a kind, including those that are open now.

        An effect runs at least once, with one key on all attempts, and is settled exactly once.
        `at_most_once` is the reverse: one attempt, whose start is in the log before it begins; if
        that attempt is cut off, its outcome is unknown and the effect is `in_doubt`.

        Args:
            kind: As the domain's kinds declare it.
            handler: Receives the effect and returns its output as plain JSON; an exception is a
                failed attempt. An async function runs in the event loop, a plain one in a thread,
                `InProcess(function)` in another process, `DbosWorkflow(workflow)` in durable steps.
                In a forked world, pass `SimulatedHandler(handler)` or `LiveHandler(handler)`.
            delivery: Whether a second attempt may repeat the effect outside: `pure`, `idempotent`,
                `keyed` (the callee knows the key), or, if it does harm, `at_most_once`.
            concurrency: How many run at a time.
            attempts_max: After so many that failed, an effect is settled as failed.
            seconds_max: How long one attempt may take.
            backoff: The pauses between attempts.
            outbox_max: How many may be unsettled before the gate answers `executor_busy`.
            on_in_doubt: Asked of each effect in doubt, now and later: gives its settlement, or
                None if it cannot tell either.

        Raises:
            ValueError: The kind has an executor already, an option is unsound, or the world is a
                fork and the handler comes without a word.
            ClosedError, StoreError: The world is closed, or has failed.
        """
        world = self._open
        limits, is_once = world.limits, delivery == "at_most_once"
        credits_max = limits.executor_concurrency_max if concurrency is None else concurrency
        attempts_default = 1 if is_once else EFFECT_ATTEMPTS_MAX
        retry_policy = RetryPolicy(
            delivery=delivery,
            concurrency=credits_max,
            attempts_max=attempts_default if attempts_max is None else attempts_max,
            seconds_max=limits.effect_seconds_max if seconds_max is None else seconds_max,
            outbox_max=limits.outbox_depth_max if outbox_max is None else outbox_max,
            backoff=backoff or Backoff(),
            on_in_doubt=None if on_in_doubt is None else awaitable(on_in_doubt, credits_max),
        )
        run = handler_in(world.forked_from, kind, handler, credits_max)
        await world.executors.register(kind, run, retry_policy)

    async def _register_brought(self, domains: Iterable[Domain]) -> None:
        """Register the executors that domains provide; effects that cannot run here are refused.

        The log may say otherwise: an executor of an earlier life is expected to come back.

        Raises:
            PlacetError: One of them cannot serve here, and says why.
        """
        actor, is_fork = self._open.actor, self._open.forked_from is not None
        for domain in domains:
            if not domain.executors:
                continue
            found = await to_thread.run_sync(partial(load_handlers, domain, is_fork=is_fork))
            for kind, handling in found.items():
                if handling is None:
                    await actor.command(partial(_without_executor, kind))
                    continue
                await self.register_executor(
                    kind,
                    SimulatedHandler(handling.handler) if is_fork else handling.handler,
                    delivery=handling.delivery,
                    attempts_max=handling.attempts_max,
                    seconds_max=handling.seconds_max,
                    on_in_doubt=handling.on_in_doubt,
                )

    async def unregister_executor(self, kind: str) -> None:
        """Refuse effects of a kind from now on, and let running attempts finish.

        Those that wait stay open until the kind has an executor again.

        Raises:
            ValueError: The kind has no executor.
            ClosedError, StoreError: The world is closed, or has failed.
        """
        await self._open.executors.unregister(kind)

    async def wait_effects(self, verdict: Verdict | None = None) -> None:
        """Wait until effects are settled, durably, or in doubt.

        One whose kind has no executor at present is waited for too: it is done once there is one.

        Args:
            verdict: Of the batch that asked for them, given again or not; None is all so far.

        Raises:
            ClosedError, StoreError: The world is closed, or fails, before they are.
        """
        world = self._open
        if verdict is None:
            await world.executors.settled()
            return
        seqs = {one.seq for one in verdict.results}
        await world.executors.settled(
            await world.actor.command(
                lambda kernel: [place for place in kernel.ledger.outbox if place[0] in seqs]
            )
        )

    async def effects(
        self, state: EffectState | None = None, *, kind: str | None = None
    ) -> list[EffectStatus]:
        """List the effects that are not settled, oldest first; or those that were given up.

        Args:
            state: `open`, `started`, `in_doubt`, or `dead`, which is read from the log: O(log).
                None is all that are not settled.
            kind: Only those.

        Raises:
            ValueError: There is no such state.
            ClosedError, StoreError: The world is closed, or has failed.
        """
        if state is not None and state not in EFFECT_STATES:
            raise ValueError(f"state must be one of {EFFECT_STATES}, got {state!r}")
        world = self._open
        if state == "dead":
            from placet.runtime.history.effects import dead_letters  # noqa: PLC0415  # few ask

            name = world.config.world
            act = partial(dead_letters, world.log, name)
            found = await in_thread_if(world.log.is_blocking, act)
        else:
            found = await world.executors.statuses()
        return [
            one
            for one in found
            if (state is None or one.state == state) and (kind is None or one.kind == kind)
        ]

    async def resolve_effect(self, key: EffectKey, *, succeeded: bool, output: Json = None) -> bool:
        """Settle an effect by hand: one that is in doubt, or that has no executor any more.

        Returns:
            False if it is settled already, or unknown.

        Raises:
            ValueError: The output is not plain JSON, or too large; the effect is as it was.
            ClosedError, StoreError: The world is closed, or has failed.
        """
        world = self._open
        settlement = Settlement(key, succeeded, plain_output(output, world.limits))
        now = world.clock.now_ns() / SECOND_NS
        return await world.actor.command(lambda kernel: kernel.settle(settlement, now))


def _without_executor(kind: str, kernel: Kernel) -> None:
    kernel.change_executor(kind, None)
