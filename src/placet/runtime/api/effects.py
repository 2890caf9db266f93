"""Executors and the outcomes of effects in an open world; `Orchestrator` has them as methods."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from anyio import to_thread

from placet.actors.effects.executor import RetryPolicy
from placet.kernel.control.outbox import plain_output
from placet.kernel.kernel import Kernel
from placet.kernel.plugin.domain import Domain
from placet.kernel.plugin.known_names import require_effect
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
from placet.schemas.limits import EFFECT_ATTEMPTS_MAX
from placet.schemas.verdict import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorOptions:
    """The options of `Orchestrator.register_executor`; None selects the world's default."""

    delivery: Delivery = "keyed"
    concurrency: int | None = None
    attempts_max: int | None = None
    seconds_max: float | None = None
    backoff: Backoff | None = None
    outbox_max: int | None = None
    on_in_doubt: AnyInDoubt | None = None


async def register_executor(
    world: WorldRuntime,
    kind: str,
    handler: AnyHandler | SimulatedHandler | LiveHandler,
    options: ExecutorOptions,
) -> None:
    """Start the executor of a kind of effect in a world; it also runs the effects open now.

    Raises:
        ValueError: No kind of intent declares the effect, or it has an executor already; an option
            is invalid; or the world is a fork and the handler is neither a `SimulatedHandler` nor
            a `LiveHandler`.
        ClosedError, StoreError: The world is closed, or has failed.
    """
    require_effect(world.kernel.registry, world.kernel.ledger, kind)
    limits, is_once = world.limits, options.delivery == "at_most_once"
    credits_max = options.concurrency
    if credits_max is None:
        credits_max = limits.executor_concurrency_max
    attempts_max = options.attempts_max
    if attempts_max is None:
        attempts_max = 1 if is_once else EFFECT_ATTEMPTS_MAX
    seconds_max, outbox_max = options.seconds_max, options.outbox_max
    hook = options.on_in_doubt
    retry_policy = RetryPolicy(
        delivery=options.delivery,
        concurrency=credits_max,
        attempts_max=attempts_max,
        seconds_max=limits.effect_seconds_max if seconds_max is None else seconds_max,
        outbox_max=limits.outbox_depth_max if outbox_max is None else outbox_max,
        backoff=options.backoff or Backoff(),
        on_in_doubt=None if hook is None else awaitable(hook, credits_max),
    )
    run = handler_in(world.forked_from, kind, handler, credits_max)
    await world.executors.register(kind, run, retry_policy)


async def register_domain_executors(world: WorldRuntime, domains: Iterable[Domain]) -> None:
    """Register the executors that domains provide.

    A kind without a handler gets no executor, so the gate refuses its effects; in a fork, so does a
    kind whose handler may act on the outside world. If the log has an executor of such a kind, from
    an earlier process, it is removed.

    Raises:
        PlacetError: An executor cannot run on this machine; the message says why.
    """
    is_fork = world.forked_from is not None
    for domain in domains:
        if not domain.executors:
            continue
        handlers = await to_thread.run_sync(partial(load_handlers, domain, is_fork=is_fork))
        for kind, handler in handlers.items():
            if handler is None:
                await world.actor.command(partial(_without_executor, kind))
                continue
            run = handler.handler
            options = ExecutorOptions(
                delivery=handler.delivery,
                concurrency=handler.concurrency,
                attempts_max=handler.attempts_max,
                seconds_max=handler.seconds_max,
                on_in_doubt=handler.on_in_doubt,
            )
            await register_executor(world, kind, SimulatedHandler(run) if is_fork else run, options)


def _without_executor(kind: str, kernel: Kernel) -> None:
    kernel.change_executor(kind, None)


async def wait_effects(world: WorldRuntime, verdict: Verdict | None) -> None:
    """Wait until the effects of a verdict are settled durably or in doubt.

    None as the verdict waits for all effects so far.
    """
    if verdict is None:
        await world.executors.settled()
        return
    seqs = {result.seq for result in verdict.results}
    await world.executors.settled(
        await world.actor.command(
            lambda kernel: [place for place in kernel.ledger.outbox if place[0] in seqs]
        )
    )


async def list_effects(
    world: WorldRuntime, state: EffectState | None, kind: str | None
) -> list[EffectStatus]:
    """Return the effects in a state; None is all effects that an operator or executor may settle.

    These are listed oldest first, among them the `dead` ones whose outcome `on_settle` refused.
    `state="dead"` lists after them the effects that were given up, read from the log: O(log).
    `state="failed"` lists effects that a handler or a person reported as not done, likewise.

    Args:
        world: The open world.
        state: One of `EFFECT_STATES`, or None.
        kind: Kind of effect; None is every kind.

    Raises:
        ValueError: There is no such state, or no kind of intent declares such an effect.
        ClosedError, StoreError: The world is closed, or has failed.
    """
    if state is not None and state not in EFFECT_STATES:
        raise ValueError(f"state must be one of {EFFECT_STATES}, got {state!r}")
    statuses = await world.executors.statuses()
    if state in {"dead", "failed"}:
        # Few programs ask, and each would pay for the import before its first batch.
        from placet.history.effects import dead_letters  # noqa: PLC0415

        read = partial(dead_letters, world.log, world.config.world)
        statuses += await in_thread_if(world.log.is_blocking, read)
    if kind is not None and all(status.kind != kind for status in statuses):
        require_effect(world.kernel.registry, world.kernel.ledger, kind)
    return [
        status
        for status in statuses
        if (state is None or status.state == state) and (kind is None or status.kind == kind)
    ]


async def resolve_effect(
    world: WorldRuntime, key: EffectKey, *, succeeded: bool, output: Json
) -> bool:
    """Settle an effect by hand; return False if it is settled already, or unknown.

    Raises:
        ValueError: The output is not plain JSON, or too large; the effect is unchanged.
        ValidationError: The effect is a dead letter, and `on_settle` raised again.
        ClosedError, StoreError: The world is closed, or has failed.
    """
    settlement = Settlement(key, succeeded, plain_output(output, world.limits))
    return await world.executors.resolve(settlement)
