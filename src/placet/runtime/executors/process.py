"""Handlers in separate processes: for functions that compute long, crash, or never return.

A process serves one attempt at a time and is kept for the next. One that dies is a failed attempt
of its effect and of no other; one that takes too long is killed.
"""

from collections.abc import Callable
from signal import SIG_IGN, SIGINT, signal

from anyio import BrokenWorkerProcess, CapacityLimiter

from placet.actors.ports import AsyncEffectHandler
from placet.schemas.codec import Json
from placet.schemas.effect import Effect, OutcomeUnknown


class InProcess:
    """Says of a handler that it runs in another process.

    Args:
        function: Runs one effect and returns its output. It must be importable by its name, and so
            must the classes of its exceptions.
    """

    def __init__(self, function: Callable[[Effect], Json]) -> None:
        self.function = function

    def handler(self, concurrency: int) -> AsyncEffectHandler:
        """Return the function that an executor calls.

        Args:
            concurrency: How many processes there are at most.
        """
        from anyio import to_process  # noqa: PLC0415  # pickle and subprocess, for few

        limiter = CapacityLimiter(concurrency)

        async def call(effect: Effect) -> Json:
            try:
                return await to_process.run_sync(
                    _contained, self.function, effect, cancellable=True, limiter=limiter
                )
            except BrokenWorkerProcess as error:
                raise OutcomeUnknown("the process that ran it has ended") from error

        return call


def _contained(function: Callable[[Effect], Json], effect: Effect) -> Json:
    """Run a function there; one that ends its process ends an attempt, and not the world."""
    # Ctrl-C goes to all processes of a terminal. What it means the world says, which ends this one;
    # here it would be an answer to the effect that comes next.
    signal(SIGINT, SIG_IGN)
    try:
        return function(effect)
    except (SystemExit, KeyboardInterrupt) as error:
        raise OutcomeUnknown(f"it ended its process: {error!r}") from None
