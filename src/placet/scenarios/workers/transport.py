"""How a run reaches its workers: a call is a future, and a worker that is lost is restarted."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, Protocol

from placet.scenarios.values import ScenarioError
from placet.scenarios.workers.messages import ThinkRequest
from placet.schemas.errors import PlacetError

START_TIMEOUT_S = 120.0
"""Longest time in which a worker starts, imports the modules of the run, and makes its domains."""


_STARTS_MAX: Final = 3
"""Times that a worker is started which ends, or is late, before it has joined the run."""


class NotStarted(ScenarioError):  # noqa: N818  # the name states the fault
    """A worker ended, or was late, before it said whether it can work for the run."""


def start_again(start: Callable[[], None]) -> None:
    """Call a function that starts a worker, again if that ends before it has joined the run.

    Raises:
        ScenarioError: The worker cannot work for the run, or was not started after some tries.
    """
    for _ in range(_STARTS_MAX - 1):
        try:
            return start()
        except NotStarted:
            continue
    return start()


class WorkerLost(PlacetError):  # noqa: N818  # the name states the fault
    """A worker ended in the middle of a call."""


class Transport(Protocol):
    """Protocol of the processes of a run's workers."""

    def call(self, worker: int, request: ThinkRequest, changes: bytes) -> Future[bytes]:
        """Send a request; the future is the pickled answer, or raises `WorkerLost`.

        Calls of one worker are answered one after the other.
        """

    def restart(self, worker: int) -> None:
        """Kill a worker, if it runs, and start another in its place.

        Raises:
            ScenarioError: It cannot be started.
        """

    def where(self, worker: int) -> str:
        """Return the process of a worker, for messages."""

    def close(self) -> None:
        """End all workers, also in the middle of a call; harmless if called twice."""
