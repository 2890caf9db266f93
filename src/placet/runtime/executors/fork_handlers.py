"""Effect handlers in a forked world: only those that the fork was given.

A fork has its parent's intents before it, and perhaps its open effects. Were they handed to
whatever the parent's program registers, mails would go out twice. So in a fork a handler comes with
a word: `SimulatedHandler(handler)` stands for the outside world, and `LiveHandler(handler)` is it.
"""

from typing import NamedTuple

from placet.actors.ports import AsyncEffectHandler
from placet.runtime.executors.handlers import AnyHandler, as_handler
from placet.schemas.codec import Json
from placet.schemas.effect import DoNotRetry, Effect


class SimulatedHandler(NamedTuple):
    """A handler that touches nothing outside. Gets open effects of the parent's too."""

    handler: AnyHandler


class LiveHandler(NamedTuple):
    """A handler that acts on the outside world, and is meant to, in a fork.

    Effects that the parent left open are the parent's: here they are settled as failed.
    """

    handler: AnyHandler


def handler_in(
    forked_from: tuple[str, int] | None,
    kind: str,
    handler: AnyHandler | SimulatedHandler | LiveHandler,
    concurrency: int,
) -> AsyncEffectHandler:
    """Return the handler that runs effects of a kind.

    Args:
        forked_from: World and seq that this one was forked from; None where it was not.
        kind: For the message.
        handler: As the host gives it.
        concurrency: How many run at a time.

    Raises:
        ValueError: The world is a fork and the handler comes without a word.
    """
    if isinstance(handler, SimulatedHandler):
        return as_handler(handler.handler, concurrency)
    if isinstance(handler, LiveHandler):
        run = as_handler(handler.handler, concurrency)
        return run if forked_from is None else _only_own(run, *forked_from)
    if forked_from is not None:
        raise ValueError(
            f"this world was forked from {forked_from[0]!r} at seq {forked_from[1]}, and its effects "
            f"are not run by accident: pass the executor of {kind!r} as SimulatedHandler(handler), "
            "or, if it must act on the outside world, as LiveHandler(handler)"
        )
    return as_handler(handler, concurrency)


def _only_own(run: AsyncEffectHandler, parent: str, seq: int) -> AsyncEffectHandler:
    async def run_own(effect: Effect) -> Json:
        if effect.key.seq <= seq:
            raise DoNotRetry(f"it is an effect of {parent!r}, from which this world was forked")
        return await run(effect)

    return run_own
