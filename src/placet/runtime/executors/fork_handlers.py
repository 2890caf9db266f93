"""Effect handlers in a forked world: each needs the host's explicit mark.

A fork repeats its parent's intents and may hold its parent's open effects. If it ran them with the
parent's handlers, mails would be sent twice. So in a fork each handler is passed as
`SimulatedHandler(handler)`, which stands in for the outside world, or as `LiveHandler(handler)`,
which acts on it.
"""

from typing import NamedTuple

from placet.actors.ports import AsyncEffectHandler
from placet.runtime.executors.handlers import AnyHandler, as_handler
from placet.schemas.codec import Json
from placet.schemas.effect import DoNotRetry, Effect


class SimulatedHandler(NamedTuple):
    """A mark on a handler that has no effect outside a forked world.

    The handler also receives the effects that were open in the parent world.
    """

    handler: AnyHandler


class LiveHandler(NamedTuple):
    """A mark on a handler that may act on the outside world although its world is a fork.

    It does not receive the effects that were open in the parent world: the parent runs them, and
    the fork settles them as failed.
    """

    handler: AnyHandler


def handler_in(
    forked_from: tuple[str, int] | None,
    kind: str,
    handler: AnyHandler | SimulatedHandler | LiveHandler,
    concurrency: int,
) -> AsyncEffectHandler:
    """Return the async function that runs effects of a kind in a world, which may be a fork.

    Args:
        forked_from: World and seq of the fork; None if this world is not a fork.
        kind: Kind of the effects, for the message.
        handler: Handler as the host registered it.
        concurrency: Number of attempts that run at a time.

    Raises:
        ValueError: The world is a fork and the handler is marked neither as `SimulatedHandler` nor
            as `LiveHandler`.
    """
    if isinstance(handler, SimulatedHandler):
        return as_handler(handler.handler, concurrency)
    if isinstance(handler, LiveHandler):
        run = as_handler(handler.handler, concurrency)
        return run if forked_from is None else _only_own(run, *forked_from)
    if forked_from is not None:
        raise ValueError(
            f"this world was forked from {forked_from[0]!r} at seq {forked_from[1]}, and its "
            f"effects are not run by accident: pass the executor of {kind!r} as "
            "SimulatedHandler(handler), or, if it must act on the outside world, as "
            "LiveHandler(handler)"
        )
    return as_handler(handler, concurrency)


def _only_own(run: AsyncEffectHandler, parent: str, seq: int) -> AsyncEffectHandler:
    async def run_own(effect: Effect) -> Json:
        # Effects up to this seq were requested in the parent, which runs them itself.
        if effect.key.seq <= seq:
            raise DoNotRetry(f"it is an effect of {parent!r}, from which this world was forked")
        return await run(effect)

    return run_own
