"""`run_scenarios`: runs every scenario under every seed, and returns a row for each run."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from multiprocessing import current_process
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, TypeAlias, cast, get_args

from placet.scenarios.scenario import Scenario, full_key, leaves_of
from placet.schemas.keywords import explain_keywords
from placet.schemas.limits import SWEEP_TIMEOUT_S_MAX
from placet.schemas.name_suggestions import did_you_mean
from placet.sweeps.errors import LabError
from placet.sweeps.loop import OnProgress, SweepLoop
from placet.sweeps.outcome import Outcome, spec_of, specs_here
from placet.sweeps.plan import SweepPlan, plan_sweep
from placet.sweeps.pools import GivenPools, HerePools, OwnPools, Pools, require_jobs
from placet.sweeps.results import Results, results_of
from placet.sweeps.study import Study
from placet.sweeps.worker import NOWHERE, Logs, RunTask

Where: TypeAlias = Literal["here", "ray"]


@explain_keywords
def run_scenarios(
    scenarios: Scenario | Iterable[Scenario],
    *,
    replications: int | None = None,
    seeds: Iterable[int] | None = None,
    outcome: "str | Callable[..., object] | Sequence[str | Callable[..., object]]" = (),
    executor: Executor | Callable[[], Executor] | None = None,
    jobs: int | None = None,
    to: str | Path | None = None,
    logs: Logs = "none",
    retry: bool = False,
    anyway: bool = False,
    timeout_s: float | None = None,
    columns: Iterable[str] = (),
    on: Where = "here",
    ray_address: str | None = None,
    ship: Iterable[str | Path] = (),
    on_progress: OnProgress = lambda _: None,
    on_notice: Callable[[str], None] = lambda _: None,
) -> Results:
    """Run every scenario under every seed, and return a row for each run.

    With an `executor` of processes, or with outcome functions in the calling script, call it under
    `if __name__ == "__main__":`, because the worker processes import the script.

    Args:
        scenarios: The scenarios, as `Scenario.load("town").product(max_step=[1, 2])` returns.
        replications: Number of runs of each scenario, with the seeds 1, 2, ... The same seeds for
            all scenarios: agents that a setting does not touch draw alike in them.
        seeds: Seeds instead of `replications`. With neither, a scenario runs once with its own.
        outcome: Functions of the final state (`collection -> entity -> field -> value`, the
            read-only `WorldState` that `until` and collected functions get) that return a number,
            text, True, False or None, or a mapping of names to these; or their names as
            `module:function`. Each fills columns of the results.
        executor: A `concurrent.futures` executor, which stays open, or a function that returns a
            new executor. None: `jobs` worker processes.
        jobs: Number of worker processes instead of an `executor`. 1 is this process alone: a
            debugger works, and an outcome may be any function; with a timeout it is a worker
            process. None is a worker process, and on Ray all slots.
        to: Folder of the study. Runs that are finished in it are not repeated. None: no folder is
            kept.
        logs: Which runs keep their logs in the folder. With `all` and `failed`, a run that was
            killed after 5 s or more is resumed from its log; not on Ray.
        retry: Run those alone whose row is an error.
        anyway: Go on although the study was made by other code; the rows get a column `code`.
        timeout_s: Longest time of a run, seconds. Not for threads.
        columns: Keys of the scenarios to show although all scenarios have one value.
        on: `ray`: run on Ray (extra `ray`) instead of an `executor`.
        ray_address: `HOST:PORT` of a cluster's head; None starts a Ray of this sweep alone.
        ship: Files and folders below the current folder that the scenarios read on Ray.
        on_progress: Called with a `SweepProgress` after every run, and every half second.
        on_notice: Called with a message when Ray had no free slot for a minute.

    Raises:
        LabError: The arguments contradict each other, the folder is no study, is written by another
            sweep or cannot be written, or no worker can begin a run. Finished runs are kept.
        ScenarioError: A domain or a policy does not exist, or rejects its settings.
    """
    _require_no_worker()
    listed = [scenarios] if isinstance(scenarios, Scenario) else scenarios
    outcomes = [outcome] if isinstance(outcome, str) or callable(outcome) else outcome
    _require_iterable("scenarios", listed, 'Scenario.load("town").product(max_step=[1, 2])')
    _require_iterable("outcome", outcomes, "a function, or a list of functions")
    if seeds is not None:
        _require_iterable("seeds", seeds, "a list or a range, such as range(1, 21)")
    _require_place(executor, jobs, on)
    _require_timeout(timeout_s, executor)
    _require_one_of("logs", logs, get_args(Logs))
    if to is None and logs != "none":
        raise LabError("logs are kept in the folder of a study; name one with `to`")
    functions = cast("Sequence[Outcome | str]", outcomes)
    is_here = on == "here" and executor is None and jobs == 1 and timeout_s is None
    specs = specs_here(functions, is_kept=to is not None) if is_here else map(spec_of, functions)
    plan = plan_sweep(listed, replications=replications, seeds=seeds, outcomes=[*specs])
    shown = _require_keys(plan, columns)
    with ExitStack() as stack:
        folder = stack.enter_context(_folder(to))
        if on == "ray":
            from placet.sweeps.on_ray import session as ray  # noqa: PLC0415  # an extra

            staged = ray.staged_for(plan, ray_address, map(Path, ship))
            Study(folder)  # refuse a folder of something else before Ray starts
            stack.enter_context(
                ray.ray_session(ray_address, jobs=jobs, staged=staged, folder=folder)
            )
            pools: Pools = ray.RayPools(staged, jobs=jobs, timeout_s=timeout_s, on_notice=on_notice)
        else:
            pools = _pools_here(plan, executor, jobs, is_here=is_here)
        study = stack.enter_context(Study(folder).locked())
        if not anyway:
            study.require_same_code(plan)
        study.add_plan(plan)
        is_apart = pools.is_apart
        tasks = tasks_of(
            plan, study, logs=logs, retry=retry, timeout_s=timeout_s, is_apart=is_apart
        )
        SweepLoop(study, tasks, pools, total=len(plan.runs()), on_progress=on_progress).run()
        return results_of(study, plan.keys(), shown)


def _pools_here(
    plan: SweepPlan,
    executor: Executor | Callable[[], Executor] | None,
    jobs: int | None,
    *,
    is_here: bool,
) -> Pools:
    """Return the pools of this machine: the caller's, this process, or worker processes."""
    if executor is not None:
        return GivenPools(executor)
    if is_here:
        return HerePools()
    has_main = any(spec.startswith("__main__:") for spec in plan.outcomes)
    return OwnPools(jobs or 1, with_main=has_main)


def _require_keys(plan: SweepPlan, columns: Iterable[str]) -> tuple[str, ...]:
    """Return the columns to show, each of which is a key of a scenario.

    Raises:
        LabError: One is not; the message names the nearest key.
    """
    keys = {key for planned in plan.scenarios for key in leaves_of(planned.scenario)}
    shown = tuple(columns)
    for column in shown:
        if full_key(column) not in keys:
            hint = did_you_mean(column, sorted(keys))
            raise LabError(f"columns: no scenario has a value at {column!r}; {hint}")
    return shown


def _require_place(executor: object, jobs: int | None, on: str) -> None:
    """Check the executor, the number of processes and Ray; an executor is given alone."""
    _require_one_of("on", on, get_args(Where))
    if on == "ray" and executor is not None:
        raise LabError('give `executor` or `on="ray"`, not both')
    if not (executor is None or isinstance(executor, Executor) or callable(executor)):
        raise LabError(
            "`executor` must be a concurrent.futures executor, or a function that returns one, got "
            f"{executor!r}"
        )
    if jobs is not None:
        require_jobs(jobs)
        if executor is not None:
            raise LabError("give `executor` or `jobs`, not both")


def _require_one_of(name: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise LabError(f"{name} must be one of {', '.join(map(repr, known))}, got {value!r}")


def _require_iterable(name: str, value: object, example: str) -> None:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise LabError(f"`{name}` must be {example}, got {value!r}")


def _require_timeout(timeout_s: float | None, executor: object) -> None:
    """Check the timeout: above 0 and at most a year; NaN is neither. A thread cannot be ended."""
    is_number = isinstance(timeout_s, int | float)
    if timeout_s is not None and not (is_number and 0 < timeout_s <= SWEEP_TIMEOUT_S_MAX):
        raise LabError(
            f"timeout_s must be a number of seconds above 0 and at most {SWEEP_TIMEOUT_S_MAX}, "
            f"got {timeout_s!r}"
        )
    if timeout_s is not None and isinstance(executor, ThreadPoolExecutor):
        raise LabError("a run in a thread cannot be ended: leave out timeout_s, or use processes")


def _require_no_worker() -> None:
    """Refuse to sweep while a worker process imports the script that calls this.

    Raises:
        LabError: This is such a process.
    """
    if getattr(current_process(), "_inheriting", False):  # set by multiprocessing meanwhile
        raise LabError(
            "a worker process imports this script, which sweeps at its top level: put the call of "
            'run_scenarios under `if __name__ == "__main__":`'
        )


def tasks_of(
    plan: SweepPlan,
    study: Study,
    *,
    logs: Logs,
    retry: bool,
    timeout_s: float | None,
    is_apart: bool,
) -> list[RunTask]:
    """Return the runs to execute: those without a row, or to retry, those whose row is an error."""
    place = (str(study.folder.absolute()), study.identity, study.session)
    failed_with_any_code = _failed_with_any_code(study) if retry else set()
    attempts = _attempts(study)

    def is_due(key: str, run: tuple[str, int]) -> bool:
        row = study.rows.get(key)
        if row is None:
            return not retry or run in failed_with_any_code
        return retry and row["error"] is not None

    return [
        RunTask(
            key=key,
            code=planned.code.digest,
            digest=planned.digest,
            text=planned.text,
            seed=seed,
            attempt=attempts.get((planned.digest, seed), 0),
            outcomes=plan.outcomes,
            study=NOWHERE if is_apart else place,
            logs=logs,
            timeout_s=None if is_apart else timeout_s,
        )
        for key, (planned, seed) in plan.runs().items()
        if is_due(key, (planned.digest, seed))
    ]


def _attempts(study: Study) -> dict[tuple[str, int], int]:
    """Return the number of the next attempt of each run that has a row, with whatever code."""
    attempts: dict[tuple[str, int], int] = {}
    for row in study.rows.values():
        run = (row["scenario"], row["seed"])
        attempts[run] = max(attempts.get(run, 0), row["attempt"] + 1)
    return attempts


def _failed_with_any_code(study: Study) -> set[tuple[str, int]]:
    """Return the runs, as digest of the scenario and seed, of which every row is an error."""
    rows = [((row["scenario"], row["seed"]), row["error"]) for row in study.rows.values()]
    return {run for run, _ in rows} - {run for run, error in rows if error is None}


@contextmanager
def _folder(to: str | Path | None) -> Iterator[Path]:
    if to is not None:
        yield Path(to)
        return
    with TemporaryDirectory(prefix="placet-sweep-") as folder:
        yield Path(folder)
