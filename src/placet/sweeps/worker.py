"""One run of a sweep, in whatever process, thread or machine the executor chose.

A worker process that outlives its sweep ends: it watches its parent. Ctrl-C is for the sweep's
process, which ends its workers.
"""

import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from pathlib import Path
from platform import node
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from types import FrameType
from typing import Any, Final, Literal, TypeAlias

from placet.kernel.state.tree import WorldState
from placet.plugins.domains import import_from_here
from placet.schemas.codec import Json, from_numpy
from placet.schemas.errors import StoreError
from placet.schemas.json_value import format_value
from placet.schemas.limits import OUTCOME_BITS_MAX
from placet.stores.gc_tuning import tune_gc
from placet.sweeps.columns import clash_of
from placet.sweeps.errors import LabError
from placet.sweeps.execution import execute
from placet.sweeps.formats import Row
from placet.sweeps.half_run import HalfRun
from placet.sweeps.outcome import HERE, find_outcome
from placet.sweeps.plan import scenario_of
from placet.sweeps.study import LOGS, MANIFEST, STREAMS, RowWriter, writing

Logs: TypeAlias = Literal["all", "failed", "none"]
"""Which runs keep their logs."""

LOG: Final = "log"
"""Key of the bytes of a log in a row on its way; they are no part of the row."""

NOWHERE: Final = ("", "", "")
"""The study of a run whose worker leaves writing to the sweep's process."""

_TRACEBACK_CHARS_MAX: Final = 4_000
_GRACE_S: Final = 5.0
"""Seconds after the timeout at which a worker that does not react ends itself."""

_REPEAT_S: Final = 1.0
"""Seconds between attempts to interrupt a run past its timeout that caught the one before."""


class OutcomeError(Exception):
    """An outcome function raised, or returned a value that no column can hold."""


class RunTimeout(BaseException):
    """The run took longer than its timeout; not an `Exception`, which code of a user may catch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTask:
    """A run to execute.

    Attributes:
        key: Key of the run.
        code: Digest of the code version.
        digest: Digest of the scenario.
        text: The scenario as JSON.
        seed: Seed of the run.
        attempt: Number of the attempt; above 0 if a failed run is run again.
        outcomes: Outcome functions, as `module:function`.
        study: Folder, identity and session of the study; `NOWHERE` if the worker writes nothing.
        logs: Which runs keep their logs.
        timeout_s: Longest time of a run, seconds; None is unlimited.
    """

    key: str
    code: str
    digest: str
    text: str
    seed: int
    attempt: int
    outcomes: tuple[str, ...]
    study: tuple[str, str, str]
    logs: Logs
    timeout_s: float | None


def run_task(task: RunTask) -> Row:
    """Execute a run, write its row where the study's folder is reachable, and return the row.

    Returns:
        The row: `key`, `code`, `scenario`, `seed`, `attempt`, `status` (`done`, `failed` or
        `timeout`), `error` and `traceback` or None, the counts and digest of the run, `outcomes` by
        name, `resumed_at`, `seconds` of real and `cpu_s` of processor time, and `is_written`. If
        it is not, also `log`: the bytes of the log, if it is kept, and `streams`: those of the
        collected rows.

    Raises:
        LabError: The study's folder cannot be written, or a module cannot be imported here.
        StoreError: The log of the run cannot be written.
    """
    _prepare_process()
    _require_modules(_named_specs(task.text, task.outcomes))
    writer = _writer(*task.study)
    if writer is None:
        return _run_apart(task)
    folder = Path(task.study[0])
    with writing(folder):
        writer.begin(task.key)
    log = None if task.logs == "none" else folder / LOGS / f"{task.key}.db"
    try:
        row = _row_of(task, log)
        if log is not None and task.logs == "failed" and row["error"] is None:
            HalfRun(log).remove()
        with writing(folder):
            row = writer.write(row)
    finally:
        writer.end()
    return row | {"is_written": True}


@lru_cache(maxsize=64)  # a worker runs a scenario under many seeds
def _named_specs(text: str, outcomes: tuple[str, ...]) -> frozenset[str]:
    """Return the names of the form `module:attribute` in a scenario and a sweep."""
    scenario = scenario_of(text, 0)
    collected = () if scenario.collect is None else scenario.collect.functions
    return frozenset(
        spec
        for spec in (scenario.domain, *scenario.policy_names, *collected, *outcomes)
        if ":" in spec and not spec.startswith(HERE)
    )


def _require_modules(specs: Iterable[str]) -> None:
    """Import the modules that a run names, which the sweep's process has imported.

    Where that fails, the process is at fault and not the run: all of its runs would fail.

    Raises:
        LabError: A module cannot be imported.
    """
    for module in sorted({spec.partition(":")[0] for spec in specs}):
        try:
            import_from_here(module)
        except ImportError as error:
            raise LabError(
                f"the worker process {os.getpid()} on {node()} cannot import the module "
                f"{module!r}, which the sweep's process could: {error}. Put it where the workers "
                "find it, as on their PYTHONPATH; finished runs are kept"
            ) from error


def _run_apart(task: RunTask) -> Row:
    """Execute a run where the study's folder is not; the log that is kept is in the row."""
    if task.logs == "none":
        return _row_of(task, None) | {"is_written": False}
    with TemporaryDirectory() as folder:
        log = Path(folder) / f"{task.key}.db"
        row = _row_of(task, log) | {"is_written": False}
        is_kept = task.logs == "all" or row["error"] is not None
        return row | {LOG: log.read_bytes()} if is_kept and log.exists() else row


def empty_row(task: RunTask, status: str, error: str) -> Row:
    """Return the row of a run that ended without a result."""
    return {
        "key": task.key,
        "code": task.code,
        "scenario": task.digest,
        "seed": task.seed,
        "attempt": task.attempt,
        "status": status,
        "error": error,
    }


def start_worker(stop: Connection, folder: str, environment: Mapping[str, str]) -> None:
    """Prepare a process of a sweep's own pool.

    Args:
        stop: The reading end of a pipe of which the sweep's process has the only other end: the
            worker ends when that is closed.
        folder: Current folder of the sweep's process; the server of processes may have another.
        environment: Its environment, likewise.
    """
    _prepare_process()
    os.chdir(folder)
    os.environ.update(environment)
    threading.Thread(target=_end_with, args=([stop],), daemon=True).start()
    tune_gc()


def _row_of(task: RunTask, log: Path | None) -> Row:
    """Return the row of a run: its results, or its error."""
    began, began_cpu = perf_counter(), process_time()
    limit = _TimeLimit(task.timeout_s)
    row = empty_row(task, "done", "")
    errors: list[OutcomeError] = []

    def ask(state: WorldState) -> None:
        row["outcomes"], found = outcomes_of(task.outcomes, state)
        errors.extend(found)

    try:
        with limit:
            scenario = scenario_of(task.text, task.seed)
            found, row[STREAMS] = execute(scenario, log, on_state=ask)
            row |= found
        row |= {"error": None, "traceback": None}
        if errors:
            traces = "".join("".join(traceback.format_exception(error)) for error in errors)
            row |= _failure("failed", "; ".join(map(str, errors)), traces)
    except (KeyboardInterrupt, GeneratorExit, StoreError):
        raise
    except BaseException as error:  # noqa: BLE001  # code of the user, also where it exits: a row
        trace = "".join(traceback.format_exception(error))
        row |= _failure("failed", f"{type(error).__name__}: {error}", trace)
    if limit.is_reached:
        limit.end()
        if limit.is_caught:
            row = empty_row(task, "timeout", "")
            if log is not None:
                HalfRun(log).end()
        row |= _failure("timeout", f"the run took longer than {task.timeout_s:g} s", "")
    return row | {
        "seconds": round(perf_counter() - began, 4),
        "cpu_s": round(process_time() - began_cpu, 4),
    }


def outcomes_of(
    names: Sequence[str], state: Mapping[str, Any]
) -> tuple[dict[str, Json], list[OutcomeError]]:
    """Return the values of outcome functions for a state by column, and the errors of others.

    A function that returns a mapping fills a column for each key; others fill one column, named
    as the function. The error of a function or of a value leaves the other columns as they are:
    the function raised, or the value is not plain or would overwrite a column.
    """
    columns: dict[str, Json] = {}
    errors: list[OutcomeError] = []
    for spec in names:
        try:
            values = _answer(spec, state)
        except OutcomeError as error:
            errors.append(error)
            continue
        for key, value in values.items():
            try:
                _require_free(columns, spec, key)
                columns[key] = _plain(spec, value)
            except OutcomeError as error:
                errors.append(error)
    return columns, errors


def _answer(spec: str, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of an outcome function by column.

    Raises:
        OutcomeError: It raised.
    """
    function: Callable[..., Any] = find_outcome(spec)
    try:
        answer = function(state)
        if isinstance(answer, Mapping):  # of the user too
            return {str(key): value for key, value in answer.items()}
    except (Exception, SystemExit) as error:
        raise OutcomeError(f"the outcome function {spec} raised {error!r}") from error
    return {spec.rpartition(":")[2]: answer}


def _require_free(columns: Mapping[str, Json], spec: str, column: str) -> None:
    other = "the column of another outcome" if column in columns else clash_of(column)
    if other is not None:
        raise OutcomeError(
            f"the outcome function {spec} returned a value for the column {column!r}, which would "
            f"overwrite {other}; name it differently"
        )


def _plain(spec: str, value: Any) -> Json:  # noqa: ANN401  # checked here
    plain: Any = from_numpy(value)
    if plain is None or type(plain) in {bool, float}:  # NaN and the infinities are numbers too
        return plain
    if type(plain) is str and plain == _writable(plain):
        return plain
    if type(plain) is int and plain.bit_length() <= OUTCOME_BITS_MAX:
        return plain
    raise OutcomeError(
        f"the outcome function {spec} returned {_shown(value)}; expected a number, True, False, "
        "text, None, or a mapping of names to these"
    )


def _writable(text: str) -> str:
    """Return a text that UTF-8 can encode; a lone surrogate becomes an escape."""
    return text.encode("utf-8", "backslashreplace").decode()


def _shown(value: Any) -> str:  # noqa: ANN401  # of the user
    is_vast = type(value) is int and value.bit_length() > OUTCOME_BITS_MAX
    return f"an integer of {value.bit_length()} bits" if is_vast else format_value(value)


def _failure(status: str, error: str, trace: str) -> dict[str, Json]:
    return {
        "status": status,
        "error": _writable(error),
        "traceback": _writable(trace[-_TRACEBACK_CHARS_MAX:]),
    }


_writers = threading.local()


def _writer(folder: str, identity: str, session: str) -> RowWriter | None:
    """Return the writer of this thread; None if the folder is not here, as on another machine.

    That of an earlier sweep is closed with its last reference.
    """
    if not folder:
        return None
    key = (folder, session, os.getpid())
    if getattr(_writers, "key", None) != key:
        path = Path(folder)
        try:
            is_here = identity.encode() in (path / MANIFEST).read_bytes()
        except OSError:
            is_here = False
        with writing(path):
            _writers.writer = RowWriter(path, session) if is_here else None
        _writers.key = key
    writer: RowWriter | None = _writers.writer
    return writer


def close_writer() -> None:
    """Close the files that this thread writes rows to, if it does."""
    writer: RowWriter | None = getattr(_writers, "writer", None)
    if writer is not None:
        writer.close()
    _writers.writer = _writers.key = None


_prepared_pid = 0


def _prepare_process() -> None:
    """Make a worker process end with its parent, and leave Ctrl-C to it."""
    global _prepared_pid  # noqa: PLW0603  # a fork copies it, so it names its process
    parent = parent_process()
    if _prepared_pid == os.getpid() or parent is None:
        return
    _prepared_pid = os.getpid()
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=([parent.sentinel],), daemon=True).start()


def _end_with(sentinels: Sequence[Any]) -> None:
    wait(sentinels)
    os._exit(1)


class _TimeLimit:
    """Raises `RunTimeout` in a `with` block that takes longer; ends the process if it continues.

    The block must run in the main thread of its process. Its code may catch the exception:
    the boundary of a rule takes it for an error of the rule. It is raised again after
    `_REPEAT_S`, and the run has reached its limit in any case.

    Args:
        seconds: Longest time of the block; None is unlimited.

    Attributes:
        is_caught: True iff code inside the block caught the exception, and went on or raised
            another: the log of the run may hold an error that another attempt would not meet.
    """

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._raised: list[RunTimeout] = []
        self._is_over = False
        self.is_caught = False

    @property
    def is_reached(self) -> bool:
        """True iff the block took longer."""
        return bool(self._raised)

    def __enter__(self) -> None:
        if self._seconds is None:
            return
        self._killer = threading.Timer(self._seconds + _GRACE_S, os._exit, (1,))
        self._killer.daemon = True
        self._before = signal.signal(signal.SIGALRM, self._expire)
        signal.setitimer(signal.ITIMER_REAL, self._seconds, _REPEAT_S)
        self._killer.start()

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self.end()
        self.is_caught = self.is_reached and self._raised != [error]

    def end(self) -> None:
        """Stop the clock; again if the limit was reached while the block was entered or left."""
        if self._seconds is None:
            return
        self._is_over = True
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._before)
        self._killer.cancel()

    def _expire(self, _number: int, _frame: FrameType | None) -> None:
        if not self._is_over:
            self._raised.append(RunTimeout())
            raise self._raised[-1]
