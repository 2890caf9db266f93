"""The runs that one player shows: the run that it was started for, and those its page has started.

A started run is another process with another log, beside the log of the first run: a fork with
other settings, or the scenario again from its start. No run ends or changes another.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path
from threading import Lock
from time import monotonic, sleep
from typing import Final, Literal, NamedTuple

from placet.history.position import Position
from placet.scenarios.fork import fork_run, run_of
from placet.scenarios.scenario import Scenario, as_text
from placet.scenarios.settings import changed, settings_of
from placet.scenarios.values import ScenarioError
from placet.schemas.codec import Json
from placet.schemas.errors import AgentError, StoreError, ValidationError
from placet.schemas.limits import SEED_MAX, HttpLimits
from placet.schemas.names import path_part_fault
from placet.server.history.controls import Controls, SentControls
from placet.server.history.run_process import RunProcess
from placet.server.history.timelines import PlayedWorld, Source
from placet.server.http.problems import Problem
from placet.stores.reading import log_to_read
from placet.stores.snapshots.files import files_beside
from placet.stores.url import whereabouts_of
from placet.tables.parts import collected_beside

_BEGIN_S: Final = 60.0
"""Longest wait for the first record of a run; by then its process has imported its policies."""

_LOOK_S: Final = 0.05


class NewRun(NamedTuple):
    """A wish to start a run from another.

    Attributes:
        values: Dotted key of a setting -> its value; the others are those of the other run.
        name: Name of the run, and of its log.
        record: Fork after this record; None is the end of the log.
        is_again: Run from the start instead.
        seed: Seed of a run from the start; None is the other run's, "next" that plus one.
    """

    values: Mapping[str, Json]
    name: str
    record: int | None = None
    is_again: bool = False
    seed: int | Literal["next"] | None = None


@dataclass(frozen=True, slots=True)
class _Came:
    """Where a run came from: the other run, the tick of a fork, and the values before and after."""

    parent: str | None = None
    tick: int | None = None
    seed: int | None = None
    changes: Mapping[str, tuple[Json, Json]] | None = None


@dataclass(frozen=True, slots=True)
class _Run:
    source: Source
    steering: SentControls
    came: _Came = _Came()
    process: RunProcess | None = None

    def controls(self) -> Controls:
        """Return the permitted commands, and the origin of the run."""
        process, sent = self.process, self.steering
        is_running = process is None or process.is_running
        problem = "" if process is None else process.problem
        run = {**asdict(self.came), "running": is_running, "problem": problem}
        commands: Sequence[str] = sent.commands if is_running else ()
        return Controls(commands, is_running and sent.is_paused, sent.ticks_per_second, run)


class StartedRuns:
    """The runs of one player, by the name of their world.

    Args:
        name: Name of the first run.
        source: Its log, and its domains.
        steering: Its control.
        options: Options of `placet run` for the runs that are started.
        limits: Bounds of the server: `forks_per_token_max` runs run at the same time, and
            `worlds_per_token_max` are shown.
    """

    def __init__(
        self,
        name: str,
        source: Source,
        steering: SentControls,
        options: Sequence[str] = (),
        limits: HttpLimits | None = None,
    ) -> None:
        self._runs = {name: _Run(source, steering)}
        self._options = options
        self._limits = limits or HttpLimits()
        path = whereabouts_of(source.log)
        self._folder = Path.cwd() if path is None else path.absolute().parent
        self._naming = Lock()
        self._is_closed = False
        self._reserved: set[str] = set()

    @property
    def names(self) -> list[str]:
        """The names of the runs, in the order in which they were started."""
        return list(self._runs)

    def source(self, name: str) -> Source | None:
        """Return the log of a run; None if there is no such run."""
        run = self._runs.get(name)
        return None if run is None else run.source

    def is_used(self, name: str) -> bool:
        """Return whether a run has a name, or gets it now."""
        return name in self._runs or name in self._reserved

    def controls(self, name: str) -> Controls:
        """Return the permitted commands of a run, and its origin."""
        return self._runs[name].controls()

    def steering(self, name: str) -> SentControls:
        """Return the control of a run.

        Raises:
            Problem: It has ended.
        """
        run = self._runs[name]
        if run.process is not None and not run.process.is_running:
            raise Problem("conflict", f"the run {name!r} has ended")
        return run.steering

    def settings(self, name: str) -> dict[str, Json]:
        """Return the settings of a run, with its seed and its number of ticks. O(state)."""
        scenario = run_of(self._runs[name].source.log).scenario
        listed = [asdict(one) for one in settings_of(scenario)]
        return {"settings": listed, "seed": scenario.seed, "ticks": scenario.ticks}

    def start(
        self, played: PlayedWorld, parent: str, wish: NewRun, is_taken: Callable[[str], bool]
    ) -> dict[str, Json]:
        """Start a run from another, and return its name and where it begins. Blocking.

        Args:
            played: The time line of the other run.
            parent: Its name.
            wish: The run to start.
            is_taken: Returns whether a name belongs to something else.

        Raises:
            Problem: A setting or the name is refused, or too many runs are running.
            StoreError: The log of the other cannot be read, or the new one cannot be written.
        """
        with self._reserve(wish.name, is_taken):
            try:
                scenario = run_of(played.source.log).scenario
                run = self._again(parent, scenario, wish) if wish.is_again else None
                run = run or self._forked(played, parent, scenario, wish)
            except ScenarioError as error:
                raise Problem("request_invalid", error.problem, setting=error.key) from error
            except (AgentError, ValidationError, ValueError) as error:
                raise Problem("request_invalid", str(error), setting="") from error
            with self._naming:
                self._runs[wish.name] = run
                is_late = self._is_closed
        if is_late and run.process is not None:
            run.process.close()
        return {"world": wish.name, "tick": run.came.tick or 0, "store": run.source.store}

    def close(self) -> None:
        """End the runs that were started here, after their tick."""
        with self._naming:
            self._is_closed = True  # a run that is starting is closed by `start`
            processes = [run.process for run in self._runs.values() if run.process is not None]
        for process in processes:
            process.send({"command": "end"})
        for process in processes:
            process.close()

    @contextmanager
    def _reserve(self, name: str, is_taken: Callable[[str], bool]) -> Iterator[None]:
        """Reserve the name of a new run while it is started.

        Raises:
            Problem: The name is invalid or taken, or there are as many runs as there may be.
        """
        fault = path_part_fault(name)
        if fault:
            raise Problem("request_invalid", f"the name {fault}", setting="name")
        with self._naming:
            self._require_room()
            free = self._free(name, is_taken)
            if free != name:
                raise Problem(
                    "conflict",
                    f"there is a run or a log {name!r} already; {free!r} is free",
                    setting="name",
                    free=free,
                )
            self._reserved.add(name)
        try:
            yield
        finally:
            with self._naming:
                self._reserved.discard(name)

    def _require_room(self) -> None:
        running = sum(
            one.process is not None and one.process.is_running for one in self._runs.values()
        )
        for number, most, what in (
            (running + len(self._reserved), self._limits.forks_per_token_max, "are running"),
            (len(self._runs), self._limits.worlds_per_token_max, "are shown"),
        ):
            if number >= most:
                remedy = "end one of them" if what == "are running" else "start the player again"
                raise Problem(
                    "conflict", f"{most} started runs {what}, the most at a time; {remedy}"
                )

    def _free(self, name: str, is_taken: Callable[[str], bool]) -> str:
        """Return a name, with the least number after it that makes it free."""
        names = (name if number == 1 else f"{name} {number}" for number in count(1))
        return next(
            one
            for one in names
            if not (self.is_used(one) or is_taken(one) or _is_there(self._path(one)))
        )

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.db"

    def _forked(self, played: PlayedWorld, parent: str, scenario: Scenario, wish: NewRun) -> _Run:
        source = played.source
        forked = fork_run(
            source.log,
            str(self._path(wish.name)),
            wish.values,
            world=wish.name,
            at=Position(record=wish.record),
            domains=source.domains,
            files=played.snapshots,
        )
        came = _Came(parent, forked.ticks, None, _changes(scenario, wish.values))
        process = self._process(parent, scenario, ["--resume", str(self._path(wish.name))])
        return self._started(parent, wish.name, came, process, scenario)

    def _again(self, parent: str, scenario: Scenario, wish: NewRun) -> _Run:
        """Run the scenario from its start; wait until its log has begun.

        Raises:
            Problem: Its process has ended before.
        """
        seed = _seed_of(wish, scenario.seed)
        again = replace(changed(scenario, wish.values), seed=seed)
        path = self._path(wish.name)
        described = {"scenario": as_text(again), "store": str(path), "world": wish.name}
        process = self._process(parent, scenario, [], described)
        deadline = monotonic() + _BEGIN_S
        while not _has_records(path):
            if not process.is_running or monotonic() > deadline:
                process.close()
                why = process.problem or f"it has not begun after {_BEGIN_S:g} s"
                raise Problem("request_invalid", f"the run failed: {why}", setting="")
            sleep(_LOOK_S)
        came = _Came(parent, None, seed, _changes(scenario, wish.values))
        return self._started(parent, wish.name, came, process, scenario)

    def _process(
        self, parent: str, scenario: Scenario, arguments: Sequence[str], first: Json = None
    ) -> RunProcess:
        speed = self._runs[parent].steering.ticks_per_second
        if speed is not None and scenario.clock == "stepped":
            arguments = [*arguments, f"--ticks-per-second={speed}"]
        return RunProcess([*self._options, *arguments], first)

    def _started(
        self, parent: str, name: str, came: _Came, process: RunProcess, scenario: Scenario
    ) -> _Run:
        other, path = self._runs[parent], str(self._path(name))
        source = other.source._replace(log=log_to_read(path), store=path)
        steering = SentControls(
            process.send,
            other.steering.ticks_per_second,
            is_paced=scenario.clock == "stepped",
            ends=True,
        )
        return _Run(source, steering, came, process)


def _seed_of(wish: NewRun, seed: int) -> int:
    """Return the seed of a run from the start; `seed` is the other run's, of 64 bits.

    A page cannot count it: a number of JavaScript has 53 bits.
    """
    if wish.seed == "next":
        return seed + 1 if seed < SEED_MAX else 0
    return seed if wish.seed is None else wish.seed


def _changes(scenario: Scenario, values: Mapping[str, Json]) -> dict[str, tuple[Json, Json]]:
    before = {one.key: one.value for one in settings_of(scenario)}
    return {key: (before[key], value) for key, value in values.items()}


def _is_there(path: Path) -> bool:
    beside = (files_beside(path).folder, collected_beside(path))
    return path.exists() or any(folder.exists() for folder in beside)


def _has_records(path: Path) -> bool:
    try:
        return path.exists() and log_to_read(str(path)).count() > 0
    except StoreError:  # it is being created
        return False
