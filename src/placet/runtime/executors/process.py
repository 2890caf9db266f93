"""Effect handlers in separate processes, for functions that compute long, crash, or never return.

A process runs one attempt at a time and is reused for the next. If it dies, only the attempt it ran
fails; if it exceeds the attempt's time limit, it is killed.
"""

from collections.abc import Callable
from signal import SIG_IGN, SIGINT, signal

from anyio import BrokenWorkerProcess, CapacityLimiter

from placet.actors.ports import AsyncEffectHandler
from placet.schemas.codec import Json
from placet.schemas.effect import Effect, OutcomeUnknown, unrecordable
from placet.schemas.errors import describe_error


class InProcess:
    """A mark on a handler that makes it run in a separate process.

    Args:
        function: Runs one effect and returns its output. The function and the classes of its
            exceptions must be importable by name.
    """

    def __init__(self, function: Callable[[Effect], Json]) -> None:
        self.function = function

    def handler(self, concurrency: int) -> AsyncEffectHandler:
        """Return an async function that runs one attempt at an effect in a process of the pool.

        Args:
            concurrency: Maximum number of processes.
        """
        from anyio import to_process  # noqa: PLC0415  # loads pickle, subprocess

        limiter = CapacityLimiter(concurrency)

        async def call(effect: Effect) -> Json:
            try:
                return await to_process.run_sync(
                    _run_in_worker, self.function, effect, cancellable=True, limiter=limiter
                )
            except BrokenWorkerProcess as error:
                raise OutcomeUnknown("the process that ran it has ended") from error

        return call


def _run_in_worker(function: Callable[[Effect], Json], effect: Effect) -> Json:
    """Run a function in the worker process; if it exits, only its attempt fails."""
    # Ctrl-C signals every process of the terminal. The world's process handles it and ends this
    # one; an interrupt raised here would fail whichever effect runs next.
    signal(SIGINT, SIG_IGN)
    try:
        return _portable(function(effect))
    except (SystemExit, KeyboardInterrupt) as error:
        raise OutcomeUnknown(f"it ended its process: {error!r}") from None


def _portable(output: Json) -> Json:
    """Return an output that can be sent to the world's process; its text where it cannot.

    The error of an output that cannot be pickled would count as a failed attempt, and the work,
    which is done, would be repeated.
    """
    import pickle  # noqa: PLC0415  # only the worker process needs it

    try:
        pickle.dumps(output)
    except Exception as error:  # noqa: BLE001  # the executor boundary: any object's own methods
        return unrecordable(output, f"output cannot leave its process: {describe_error(error)}")
    return output
