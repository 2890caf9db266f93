"""The time lines of a server, by the name of their world; each is opened when first asked for.

The pass over a long log runs in a thread, which ends at the log's end; the next request
starts it again if the log has grown.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Lock, Semaphore, Thread
from typing import TYPE_CHECKING, Final, NamedTuple

from placet.actors.ports import EventLog
from placet.history.timeline.frames import frames_of
from placet.history.timeline.ledgers import LEDGER_SEQS, ledgers_of, start_writing
from placet.history.timeline.map_notes import ModelSpaces
from placet.history.timeline.moments import NO_PORTRAYALS
from placet.history.timeline.story import Story
from placet.history.timeline.timeline import Timeline
from placet.kernel.log.verify import Maker
from placet.kernel.plugin.domain import Domain
from placet.kernel.plugin.rules_version import rules_in
from placet.runtime.telemetry.world_logger import WorldLogger
from placet.scenarios.portrayals import merged
from placet.scenarios.space_portrayals import portrayals_of_spaces
from placet.schemas.errors import PlacetError, StoreError
from placet.schemas.limits import HttpLimits
from placet.schemas.log.record import Header
from placet.schemas.names import path_part_fault
from placet.schemas.portrayal import Portrayals
from placet.server.history.controls import Controls
from placet.server.history.counted_log import counted
from placet.server.http.problems import Problem
from placet.stores.snapshots.files import SnapshotStore, snapshots_of
from placet.stores.snapshots.recovery import decode

if TYPE_CHECKING:
    from subprocess import Popen

_CHUNK_RECORDS: Final = 2_000
"""Records between two looks at whether the pass is still wanted."""

_STORIES_MAX: Final = 8
"""Stories of a world that are kept; the one that was asked for the longest ago is forgotten."""

_PASSES_MAX: Final = 1
"""Passes over logs at a time: each computes beside the event loop."""


class Source(NamedTuple):
    """A log, and the domains that explain it.

    Attributes:
        log: The log; it is only read.
        domains: The domains that decided it, or a function that recreates them from the log.
        store: The store as a user types it for other commands; None if no other process reads it.
        given: Names of the domains that such a command needs to be given, with --domain.
        portrayals: How the collections and tables are drawn, by name.
    """

    log: EventLog
    domains: Sequence[Domain] | Maker
    store: str | None = None
    given: Sequence[str] = ()
    portrayals: Portrayals = NO_PORTRAYALS


class PlayedWorld:
    """One world's time line, with the pass that keeps its index up to date.

    Args:
        source: The log, and its domains.
        passes: Bounds the passes in the background of all worlds.

    Attributes:
        source: The log, which counts its records as they are read, and its domains.
        log: The same log, uncounted.
        timeline: The time line.
        snapshots: The snapshots from which a replay begins; None for a log that has none.
        failure: The error that ended the pass; None for none.
    """

    def __init__(self, source: Source, passes: Semaphore) -> None:
        self.log = log = source.log
        self.source = source._replace(log=counted(log))
        self._passes = passes
        files = frames_of(log)
        self.timeline = Timeline(self.source.log, files, self._warn)
        ledgers = ledgers_of(log, None if files is None else files.folder)
        self._ledgers = ledgers
        self.snapshots: SnapshotStore | None = ledgers or snapshots_of(log)
        self._stories: dict[tuple[str, str], Story] = {}
        self._folding: Popen[bytes] | None = None
        self._folded_seq = 0
        self.failure: StoreError | None = None
        self._is_closed = Event()
        self._thread: Thread | None = None
        self.timeline.index.catch_up(records_max=0)

    @cached_property
    def spaces(self) -> ModelSpaces:
        """The grids of the domains; without those, the reason. It may import them."""
        domains = self.source.domains
        try:
            if callable(domains):
                _, data = next(self.log.read(self.log.start().record))
                header = decode(data, 0)
                if not isinstance(header, Header):
                    return ModelSpaces(problem="The log is compacted, and does not name the model")
                domains = domains(rules_in(header))
        except PlacetError as error:
            return ModelSpaces(problem=f"The model is not at hand: {str(error).rstrip('.')}")
        return ModelSpaces(portrayals_of_spaces(domains))

    @cached_property
    def portrayals(self) -> Portrayals:
        """How the collections and tables are drawn: as given, else by the grids of the model."""
        return merged(self.source.portrayals, self.spaces.portrayals)

    def catch_up(self) -> None:
        """Read the new records of the log: a few at once, more in the background, in turn.

        Raises:
            StoreError: The log cannot be read.
        """
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
        if self._thread is not None and self._thread.is_alive():
            return
        if self.timeline.index.catch_up(records_max=_CHUNK_RECORDS):
            self._fold_ledgers()
        elif self._passes.acquire(blocking=False):  # else a later request begins the pass
            self._thread = Thread(target=self._run, name="placet-frames", daemon=True)
            self._thread.start()

    def story(self, agent: str, request: str) -> Story:
        """Return the story of an agent or of one request of it, as far as it was read."""
        key = agent, request
        story = self._stories.pop(key, None) or Story(self.source.log, agent, request)
        self._stories[key] = story
        for forgotten in list(self._stories)[:-_STORIES_MAX]:
            self._stories.pop(forgotten, None)
        return story

    def close(self) -> None:
        """End the pass, and wait for it."""
        self._is_closed.set()
        if self._thread is not None:
            self._thread.join()
        if self._folding is not None:
            self._folding.kill()
            self._folding.wait()

    def _fold_ledgers(self) -> None:
        """Have snapshots made along the log, by a process, each time it has grown by enough."""
        if self._folding is not None and self._folding.poll() is None:
            return
        seq = self.timeline.index.seq
        if self._ledgers is not None and seq - self._folded_seq >= LEDGER_SEQS:
            self._folded_seq = seq
            self._folding = start_writing(self.log, self._ledgers.folder)

    def _warn(self, sentence: str) -> None:
        WorldLogger("console", "warning", self.source.log.url).warning(sentence)

    def _run(self) -> None:
        try:
            while not self._is_closed.is_set():
                if self.timeline.index.catch_up(records_max=_CHUNK_RECORDS):
                    return
        except StoreError as error:
            self.failure = error
        finally:
            self._passes.release()


class Timelines:
    """The time lines of the worlds of a server.

    Args:
        find: Returns the source of a world by its name; None if there is no such world.
        names: Returns the names of the open worlds.
        is_used: Returns whether a name belongs to a world, open or being created; no fork may have
            such a name.
        controls: Returns the control of a world by its name.
        is_live: This server has the worlds open, and also shows their present.
        limits: Bounds of the server; `forks_max` and `forks_per_token_max`.

    Attributes:
        is_live: This server has the worlds open, and also shows their present.
    """

    def __init__(
        self,
        find: Callable[[str], Source | None],
        names: Callable[[], list[str]],
        is_used: Callable[[str], bool],
        controls: Callable[[str], Controls],
        *,
        is_live: bool,
        limits: HttpLimits,
    ) -> None:
        self._controls = controls
        self.is_live = is_live
        self._find = find
        self._names = names
        self._is_used = is_used
        self._folder: TemporaryDirectory[str] | None = None
        self._lock = Lock()
        self._limits = limits
        self._passes = Semaphore(_PASSES_MAX)
        self._played: dict[str, PlayedWorld] = {}
        self._forks: dict[str, Source] = {}
        self._origins: dict[str, str] = {}
        self._owners: dict[str, str] = {}
        """The caller of each fork, finished or being created."""
        self._naming = Lock()
        self._paths = 0

    def of(self, name: str) -> PlayedWorld | None:
        """Return the time line of a world, up to date; None if there is no such world. Blocking.

        Raises:
            StoreError: Its log cannot be read.
        """
        source = self._forks.get(name) or self._find(name)
        if source is None:
            return None
        with self._lock:
            played = self._played.get(name)
            if played is None or played.log is not source.log:
                if played is not None:  # the world was opened again, with another handle
                    played.close()
                played = self._played[name] = PlayedWorld(source, self._passes)
        played.catch_up()
        return played

    def forget(self, name: str) -> None:
        """End the pass over a world's log, and drop its time line; it is made again when asked."""
        with self._lock:
            played = self._played.pop(name, None)
        if played is not None:
            played.close()

    @property
    def names(self) -> list[str]:
        """The names of the worlds, without the forks."""
        return self._names()

    def controls(self, name: str) -> Controls:
        """Return the control of a world; none of a fork, which no process runs."""
        return Controls() if name in self._forks else self._controls(name)

    def fork_path(self) -> Path:
        """Return an unused path for the log of a fork; it is removed when the server ends."""
        with self._lock:
            if self._folder is None:
                self._folder = TemporaryDirectory(prefix="placet-forks-")
            self._paths += 1
            return Path(self._folder.name, f"{self._paths}.db")

    @contextmanager
    def fork_name(self, parent: str, caller: str) -> Iterator[str]:
        """Reserve a name for a new fork, while it is made: the first `PARENT-fork-N` that is free.

        `PARENT` is replaced by `world` if the parent's name breaks the rule for names, as in an
        older log.

        Raises:
            Problem: There are as many forks as there may be, or as the caller may have.
        """
        with self._naming:
            self._check_count(caller)
            stem = "world" if path_part_fault(f"{parent}-fork-1") else parent
            names = (f"{stem}-fork-{n}" for n in count(1))
            name = next(n for n in names if n not in self._owners and not self._is_used(n))
            self._owners[name] = caller
        try:
            yield name
        finally:
            with self._naming:
                if name not in self._forks:
                    del self._owners[name]

    def _check_count(self, caller: str) -> None:
        owners, own_max = list(self._owners.values()), self._limits.forks_per_token_max
        for count_of, count_max, whose in (
            (len(owners), self._limits.forks_max, "one server plays"),
            (owners.count(caller), own_max, f"the tokens of {caller!r} have"),
        ):
            if count_of >= count_max:
                raise Problem(
                    "conflict",
                    f"there are {count_max} forks, the most that {whose}; restart the server to "
                    "remove them",
                )

    def is_fork(self, name: str) -> bool:
        """Return whether a name belongs to a fork, finished or being created."""
        with self._naming:
            return name in self._owners

    def add(self, name: str, source: Source, parent: str) -> None:
        """Add a fork of a world or of a fork; it is played until the server ends."""
        self._origins[name] = self.origin(parent)
        self._forks[name] = source

    def origin(self, name: str) -> str:
        """Return the world that a fork stems from; another name is its own."""
        return self._origins.get(name, name)

    @property
    def forks(self) -> list[str]:
        """The names of the forks, in the order in which they were added."""
        return list(self._forks)

    def close(self) -> None:
        """End all passes, and remove the forks."""
        for played in self._played.values():
            played.close()
        if self._folder is not None:
            self._folder.cleanup()
