"""Run continuations in worker processes: the share of other seeds under which an outcome occurs."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Final, TypeAlias

from placet.lab.turning.continuation import Continuation, RunSource, TickState
from placet.lab.turning.points import Point
from placet.schemas.errors import PlacetError
from placet.sweeps.errors import LabError
from placet.sweeps.outcome import Outcome, decided, find_outcome, spec_of
from placet.sweeps.pools import OwnPools

_STATES_WAITING_MAX: Final = 3
"""States in the executor's queue: enough to keep it busy, few enough for memory."""

_Waiting: TypeAlias = list[tuple[int, list[Future[list[bool]]]]]
"""The tick of each state in the executor's queue, and its tasks."""


class ContinuationWorkers(AbstractContextManager["ContinuationWorkers"]):
    """Continues states under other seeds, here or in other processes.

    Args:
        run: The source of continuations.
        outcome: The outcome function, or `module:function`.
        seeds: The other seeds.
        until: Tick at which the outcome is read.
        jobs: Number of processes; 1 is this process alone.
        on_progress: Called with the number of continuations that ended, after some of them.
        executor: Executor to use instead of `jobs` processes; it stays open.

    Raises:
        LabError: `jobs` is below 1, or another process cannot import the outcome function.
    """

    def __init__(
        self,
        run: RunSource,
        outcome: Outcome | str,
        *,
        seeds: Sequence[int],
        until: int,
        jobs: int = 1,
        on_progress: Callable[[int], None] = lambda _: None,
        executor: Executor | None = None,
    ) -> None:
        self._run, self._until, self._seeds = run, until, seeds
        self._jobs, self._on_progress = jobs, on_progress
        self._executor = executor
        self._pools = OwnPools(jobs)
        self._own: Executor | None = None
        self._is_local = executor is None and jobs == 1
        self._outcome = outcome if self._is_local else spec_of(outcome)
        if executor is None and jobs > 1:
            self._executor = self._own = self._pools.make(is_alone=False)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the processes; after an error in the middle of their continuations."""
        if self._own is not None:
            self._pools.end(self._own, "finished" if kind is None else "interrupted")

    def point(self, state: TickState) -> Point:
        """Return P(outcome | state).

        Raises:
            LabError: A continuation failed, or a worker process died.
        """
        (point,) = self.points([state])
        return point

    def points(self, states: Iterable[TickState]) -> Iterator[Point]:
        """Yield P(outcome | state) of each state, in order.

        Raises:
            LabError: A continuation failed, or a worker process died.
        """
        if self._executor is None:
            for state in states:
                answers = _continued(self._run, self._outcome, state, self._seeds, self._until)
                yield Point(state.tick, self._count(answers), len(self._seeds))
            return
        waiting: _Waiting = []
        try:
            for state in states:
                waiting.append((state.tick, self._submitted(self._executor, state)))
                if len(waiting) > _STATES_WAITING_MAX:
                    yield self._first(waiting)
            while waiting:
                yield self._first(waiting)
        except BrokenProcessPool as error:
            raise LabError(
                "a worker process died while it continued the run: it was killed, it ran out of "
                'memory, or the calling script lacks `if __name__ == "__main__":`'
            ) from error
        finally:
            for _, futures in waiting:
                for future in futures:
                    future.cancel()

    def _submitted(self, executor: Executor, state: TickState) -> list[Future[list[bool]]]:
        parts = [self._seeds[k :: self._jobs] for k in range(self._jobs)]
        return [
            executor.submit(_continued, self._run, self._outcome, state, seeds, self._until)
            for seeds in parts
            if seeds
        ]

    def _first(self, waiting: _Waiting) -> Point:
        tick, futures = waiting[0]
        hits = sum(self._count(future.result()) for future in futures)
        del waiting[0]
        return Point(tick, hits, len(self._seeds))

    def _count(self, answers: Sequence[bool]) -> int:
        self._on_progress(len(answers))
        return sum(answers)


def _continued(
    run: RunSource, outcome: Outcome | str, state: TickState, seeds: Sequence[int], until: int
) -> list[bool]:
    """Return whether the outcome occurs, for each seed; this runs in a worker process.

    Raises:
        LabError: A continuation failed. Other errors are not raised: not all of them can be sent
            to another process.
    """
    function = find_outcome(outcome) if isinstance(outcome, str) else outcome
    answers = []
    for seed in seeds:
        try:
            world = Continuation(run, state, seed)
            world.run(until)
            answers.append(decided(function, world.kernel.state))
        except PlacetError as error:
            raise LabError(f"continued from tick {state.tick} with seed {seed}: {error}") from None
    return answers
