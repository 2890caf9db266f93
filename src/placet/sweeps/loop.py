"""The loop of a sweep: submits runs, collects rows, and handles the death of workers.

A worker's death breaks a pool of processes, and with it everything that was submitted. The loop
makes another pool. A run that was under way at two deaths is run alone; if its worker then dies
twice, its row says `died`. Three pools in a row in which no run began end the sweep.
"""

from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Final, TypeAlias

from placet.schemas.errors import PlacetError, StoreError
from placet.stores.files import write_whole
from placet.sweeps.errors import LabError
from placet.sweeps.failures import CallFailed, ExecutorUnfit, RunLost, RunTimedOut, WorkerDied
from placet.sweeps.formats import Row
from placet.sweeps.pools import PoolEnd, Pools
from placet.sweeps.study import LOGS, RowWriter, Study, writing
from placet.sweeps.worker import LOG, RunTask, empty_row, run_task

_SUSPECT_AT: Final = 2
"""Deaths of a pool while a run was under way, after which it is run alone."""

_DIED_AT: Final = 2
"""Deaths of a worker that was at this run and no other, after which it is marked."""

_FRUITLESS_MAX: Final = 3
_LOOK_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class SweepProgress:
    """The progress of a sweep.

    Attributes:
        total: Number of runs.
        had: Runs that were finished before.
        done: Runs finished now.
        failed: Those of them whose row is an error.
        seconds: Seconds since the sweep began.
    """

    total: int
    had: int
    done: int
    failed: int
    seconds: float

    @property
    def finished(self) -> int:
        """Number of all finished runs."""
        return self.had + self.done


OnProgress: TypeAlias = Callable[[SweepProgress], None]


class SweepLoop:
    """Runs the tasks of a sweep that are not finished.

    Args:
        study: The study, locked by this process.
        tasks: The runs to execute.
        pools: Makes the executors.
        total: Number of runs of the whole sweep, for `on_progress`.
        on_progress: Called after every finished run, and now and then while there is none.
    """

    def __init__(
        self,
        study: Study,
        tasks: list[RunTask],
        pools: Pools,
        *,
        total: int,
        on_progress: OnProgress = lambda _: None,
    ) -> None:
        self._study, self._pools, self._on_progress = study, pools, on_progress
        self._waiting = deque(tasks)
        self._suspects: deque[RunTask] = deque()
        self._under_way: Counter[str] = Counter()
        self._deaths: Counter[str] = Counter()
        self._fruitless = 0
        self._total, self._had = total, total - len(tasks)
        self._done = self._failed = 0
        self._began = monotonic()
        self._writer: RowWriter | None = None

    def run(self) -> None:
        """Execute all runs.

        Raises:
            LabError: The study cannot be written, or no worker can begin a run.
            StoreError: A log cannot be written.
        """
        try:
            while self._waiting or self._suspects:
                self._report()
                if self._waiting:
                    self._use_pool(self._waiting, is_alone=False)
                else:
                    self._use_pool(deque([self._suspects.popleft()]), is_alone=True)
        finally:
            if self._writer is not None:
                self._writer.close()

    def _use_pool(self, tasks: deque[RunTask], *, is_alone: bool) -> None:
        executor = self._pools.make(is_alone=is_alone)
        pass_ = _PoolPass(executor, self._pools, tasks, self._finish)
        end: PoolEnd = "interrupted"
        try:
            broken = pass_.run(self._report)
            end = "finished" if broken is None else "broken"
        finally:
            pass_.cancel()
            self._pools.end(executor, end)
        if broken is not None:
            self._recover(pass_, broken, is_alone=is_alone)
        elif pass_.finished:
            self._fruitless = 0
        for task in pass_.blamed:
            self._blame(task)

    def _recover(self, pass_: "_PoolPass", broken: BaseException, *, is_alone: bool) -> None:
        """Decide about every run that was submitted to a pool that broke."""
        began = self._study.running()
        self._study.clear_running()
        recorded = self._study.read_rows()
        is_fruitless = not began and not pass_.finished
        self._fruitless = self._fruitless + 1 if is_fruitless else 0
        for task in reversed(pass_.unfinished.values()):
            row = recorded.get(task.key)
            if row is not None and row["attempt"] == task.attempt:
                self._finish(task, row | {"is_written": True})
            elif task.key not in began:
                (self._suspects if is_alone else self._waiting).appendleft(task)
            elif is_alone:
                self._blame(task)
            else:
                self._under_way[task.key] += 1
                is_suspect = self._under_way[task.key] >= _SUSPECT_AT
                (self._suspects if is_suspect else self._waiting).appendleft(task)
        if self._fruitless >= _FRUITLESS_MAX:
            raise LabError(
                f"{_FRUITLESS_MAX} pools of workers ended before any run began ({broken}); "
                "finished runs are kept. Does the calling script call this only under "
                '`if __name__ == "__main__":`, and does the initializer of the executor work? '
                "The workers' messages are above"
            )

    def _blame(self, task: RunTask) -> None:
        """Count the death of a worker that was at this run alone."""
        self._deaths[task.key] += 1
        if self._deaths[task.key] < _DIED_AT:
            self._suspects.append(task)
            return
        deaths = self._deaths[task.key] + self._under_way[task.key]
        error = f"its worker process died, {deaths} times; run alone, it died {_DIED_AT} times"
        self._finish(task, empty_row(task, "died", error) | {"is_written": False})

    def _finish(self, task: RunTask, row: Row) -> None:
        """Count a finished run; write its row unless its worker did."""
        log = row.pop(LOG, None)
        if not row.pop("is_written"):
            with writing(self._study.folder):
                if log is not None:
                    write_whole(self._study.folder / LOGS / f"{task.key}.db", log)
                if self._writer is None:
                    self._writer = RowWriter(self._study.folder, self._study.session)
                row = self._writer.write(row)
        self._study.rows[task.key] = row
        self._done += 1
        self._failed += row["error"] is not None
        self._report()

    def _report(self) -> None:
        seconds = monotonic() - self._began
        self._on_progress(SweepProgress(self._total, self._had, self._done, self._failed, seconds))


class _PoolPass:
    """The submission of runs to one executor, until all are finished or it breaks.

    Attributes:
        finished: Number of runs that were finished.
        unfinished: Submitted runs without a row, by future; complete when `run` has returned.
        blamed: Runs whose worker died while it was at them.
    """

    def __init__(
        self,
        executor: Executor,
        pools: Pools,
        tasks: deque[RunTask],
        on_row: Callable[[RunTask, Row], None],
    ) -> None:
        self._executor, self._pools, self._tasks, self._on_row = executor, pools, tasks, on_row
        self._ended: SimpleQueue[Future[Row]] = SimpleQueue()
        self.unfinished: dict[Future[Row], RunTask] = {}
        self.finished = 0
        self.blamed: list[RunTask] = []

    def run(self, on_wait: Callable[[], None]) -> BaseException | None:
        """Execute all runs; return the error if the executor broke, else None."""
        while self._tasks or self.unfinished:
            broken = self._submit()
            if broken is None:
                try:
                    broken = self._take(self._ended.get(timeout=_LOOK_S))
                except Empty:
                    on_wait()
            if broken is not None:
                self._collect_finished()
                return broken
        return None

    def cancel(self) -> None:
        """Cancel the runs that no worker has yet."""
        for future in self.unfinished:
            future.cancel()

    def _submit(self) -> BaseException | None:
        window = self._pools.window()
        while self._tasks and len(self.unfinished) < window:
            try:
                future = self._executor.submit(run_task, self._tasks[0])
            except ExecutorUnfit as error:
                raise LabError(f"{error}; finished runs are kept") from error
            except BrokenExecutor as error:
                return error
            self.unfinished[future] = self._tasks.popleft()
            future.add_done_callback(self._ended.put)
        return None

    def _take(self, future: Future[Row]) -> BaseException | None:
        """Handle a future that is done; return the error if the executor broke.

        Raises:
            LabError: The run could not be executed for a reason that is not its own.
        """
        task = self.unfinished[future]
        try:
            row = future.result()
        except ExecutorUnfit as error:
            raise LabError(f"{error}; finished runs are kept") from error
        except WorkerDied:
            self.blamed.append(task)
        except RunLost:
            self._tasks.appendleft(task)
        except RunTimedOut as error:
            row = empty_row(task, "timeout", str(error)) | {"is_written": False}
            self._finish(future, row)
            return None
        except (BrokenExecutor, CancelledError) as error:
            return error
        except StoreError as error:
            raise LabError(f"{error}. Finished runs are kept; then start it again") from error
        except PlacetError:
            raise
        except Exception as error:
            trace = f"\n{error.trace}" if isinstance(error, CallFailed) else ""
            raise LabError(
                f"a worker cannot execute a run: {type(error).__name__}: {error}{trace}; finished "
                "runs are kept"
            ) from error
        else:
            self._finish(future, row)
            return None
        del self.unfinished[future]
        return None

    def _collect_finished(self) -> None:
        """Take the rows that arrived before the executor broke."""
        for future in list(self.unfinished):
            if future.done() and not future.cancelled() and future.exception() is None:
                self._finish(future, future.result())

    def _finish(self, future: Future[Row], row: Row) -> None:
        task = self.unfinished.pop(future)
        self.finished += 1
        self._on_row(task, row)
