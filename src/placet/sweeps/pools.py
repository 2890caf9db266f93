"""Makes the executors of a sweep: pools of processes, this thread, or the caller's executor."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.context import BaseContext
from multiprocessing.forkserver import ensure_running
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from placet.scenarios.workers.starting import safe_path, without_main
from placet.sweeps.errors import LabError
from placet.sweeps.worker import close_writer, start_worker

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

PoolEnd: TypeAlias = Literal["finished", "broken", "interrupted"]
"""How the use of an executor ended."""

_WINDOW: Final = 256
"""Runs submitted at once to an executor of unknown size."""


def require_jobs(jobs: object) -> None:
    """Check a number of worker processes.

    Raises:
        LabError: It is no number from 1 on.
    """
    if type(jobs) is not int or jobs < 1:
        raise LabError(f"jobs must be at least 1, got {jobs!r}; expected an int")


class Pools(ABC):
    """Makes the executors of a sweep.

    Attributes:
        is_apart: Workers leave the study's folder to the sweep's process, even if they see it.
    """

    is_apart = False

    @abstractmethod
    def make(self, *, is_alone: bool) -> Executor:
        """Return a new executor; with one worker if a run must be alone in it.

        Raises:
            LabError: It cannot be made again.
        """

    @abstractmethod
    def window(self) -> int:
        """Return how many runs may be submitted at once."""

    def end(self, executor: Executor, how: PoolEnd) -> None:
        """End an executor that `make` returned; if interrupted, do not wait for its runs."""
        executor.shutdown(wait=how != "interrupted", cancel_futures=True)


class HerePools(Pools):
    """Runs in this process and thread, one after the other: for debuggers, and for short sweeps."""

    def make(self, *, is_alone: bool) -> Executor:
        """Return an executor that runs a call as it is submitted."""
        return _Here()

    def window(self) -> int:
        """Return how many runs may be submitted at once."""
        return 1

    def end(self, executor: Executor, how: PoolEnd) -> None:
        """Close the files of the study."""
        close_writer()


class _Here(Executor):
    """Runs every call at once, in this thread; an interrupt leaves `submit`."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:  # noqa: ANN401  # as its base
        """Run a call, and return its future, which is done."""
        future: Future[Any] = Future()
        try:
            future.set_result(function(*args, **kwargs))
        except Exception as error:  # noqa: BLE001  # it is the future's
            future.set_exception(error)
        return future


class OwnPools(Pools):
    """Pools of worker processes, which end with the process that made them.

    Args:
        jobs: Number of worker processes.
        with_main: Import the calling script in the workers, for functions in it.
    """

    def __init__(self, jobs: int, *, with_main: bool = False) -> None:
        require_jobs(jobs)
        self._jobs = jobs
        self._class = ProcessPoolExecutor if with_main else _PoolWithoutMain
        self._context = _process_context()
        self._stops: dict[int, Connection] = {}

    def make(self, *, is_alone: bool) -> Executor:
        """Return a new pool of processes."""
        stop, ours = self._context.Pipe(duplex=False)
        pool = self._class(
            1 if is_alone else self._jobs,
            mp_context=self._context,
            initializer=start_worker,
            initargs=(stop, str(Path.cwd()), dict(os.environ)),
        )
        self._stops[id(pool)] = ours
        return pool

    def window(self) -> int:
        """Return how many runs may be submitted at once."""
        return 8 * self._jobs + 8

    def end(self, executor: Executor, how: PoolEnd) -> None:
        """End a pool; if interrupted, its workers end in the middle of their runs."""
        ours = self._stops.pop(id(executor))
        if how == "interrupted":
            ours.close()
        executor.shutdown(wait=True, cancel_futures=True)
        ours.close()


class _PoolWithoutMain(ProcessPoolExecutor):
    """A pool whose processes do not import the calling script."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:  # noqa: ANN401  # as its base
        """Submit a call; this starts the processes."""
        with without_main():
            return super().submit(function, *args, **kwargs)


class GivenPools(Pools):
    """Uses the executor of the caller, or a function that makes executors.

    Args:
        executor: An executor, or a function without arguments that returns a new executor.
    """

    def __init__(self, executor: Executor | Callable[[], Executor]) -> None:
        self._given: Executor | None = executor if isinstance(executor, Executor) else None
        self._first = self._given
        self._factory = None if isinstance(executor, Executor) else executor

    def make(self, *, is_alone: bool) -> Executor:
        """Return the caller's executor first, then others like it.

        Raises:
            LabError: It is of a class that cannot be copied.
        """
        if self._factory is not None:
            made = self._factory()
            if not isinstance(made, Executor):
                raise LabError(
                    f"`executor` must return a concurrent.futures executor, got {made!r}"
                )
            return made
        if self._first is not None and not is_alone:
            first, self._first = self._first, None
            return first
        if type(self._given) is not ProcessPoolExecutor:
            raise LabError(
                f"the {type(self._given).__name__} broke, and cannot be made again; give "
                "`executor` a function that returns a new one"
            )
        given: Any = self._given  # which has no public names for its arguments
        return ProcessPoolExecutor(
            1 if is_alone else given._max_workers,  # noqa: SLF001  # see above
            mp_context=given._mp_context,  # noqa: SLF001  # see above
            initializer=given._initializer,  # noqa: SLF001  # see above
            initargs=given._initargs,  # noqa: SLF001  # see above
        )

    def window(self) -> int:
        """Return how many runs may be submitted at once."""
        return max(_WINDOW, 8 * getattr(self._given, "_max_workers", 1))

    def end(self, executor: Executor, how: PoolEnd) -> None:
        """End an executor that was made here, or is broken; the caller's stays open."""
        if executor is not self._given or how == "broken":
            super().end(executor, how)


def _process_context() -> BaseContext:
    """Return a context whose processes begin with this package imported, and no state of the sweep.

    Not by fork: a child of a process with threads may wait for ever on a lock.
    """
    if "forkserver" not in get_all_start_methods():
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload(["placet.sweeps.worker"])
    _start_fork_server()
    return context


def _start_fork_server() -> None:
    """Start the process from which workers are forked, and the tracker of its resources.

    Both import modules by name.
    """
    with safe_path():
        ensure_running()
