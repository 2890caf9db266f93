"""A run that its worker did not finish: how it is resumed from its log.

Refusals at the first stages leave no record, so the counts of a run are kept beside its log, in
`KEY.counts`, from the moment when taking it up is worth more than starting anew.
"""

import os
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from time import monotonic
from typing import Annotated, Final, Self, TypeAlias

import msgspec

from placet.scenarios.report import RunReport
from placet.scenarios.resume import find_run
from placet.scenarios.scenario import Scenario
from placet.schemas.documents import DocumentError, parse_json, typed
from placet.schemas.errors import PlacetError
from placet.schemas.limits import DOCUMENT_BYTES_MAX
from placet.stores.files import opened_private, opened_regular, quoted
from placet.stores.url import open_event_log

WORTH_S: Final = 5.0
"""A run that lasted less is started anew."""

_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]

_ENDINGS: Final = (".counts", ".db-wal", ".db-shm", ".db-journal", ".db")
"""The log last: a kill in between leaves no `-wal` without it, which no log can be made beside."""


class Counts(msgspec.Struct, frozen=True, array_like=True):
    """The counts of a run up to a tick; in a file, an array in this order."""

    ticks: _Count = 0
    submitted: _Count = 0
    admitted: _Count = 0
    refusals: Mapping[str, _Count] = {}
    rule_errors: _Count = 0

    def plus(self, ticks: int, report: RunReport) -> "Counts":
        """Return these counts and those since the run was started or resumed, at a tick."""
        return Counts(
            ticks,
            self.submitted + report.submitted,
            self.admitted + report.admitted,
            Counter(self.refusals) + report.refusals,
            self.rule_errors + report.rule_errors,
        )


class HalfRun:
    """The files of a run's log; in a `with` block, the counts are closed at its end.

    Args:
        log: Path of the log, which ends in `.db`.
    """

    def __init__(self, log: Path) -> None:
        self._log = log
        self._counts = log.with_suffix(".counts")
        self._began = monotonic()
        self._file: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def take_up(self, scenario: Scenario) -> Counts:
        """Return the counts of the run in the log; remove a log that cannot be taken up.

        It can if it is of this scenario, and its counts are those of its last tick.
        """
        counts = self._recorded()
        if counts is not None and self._ticks(scenario) == counts.ticks:
            self._began -= WORTH_S  # it is worth it from the first tick
            return counts
        self.remove()
        return Counts()

    def advance(self, counts: Counts) -> None:
        """Note the counts at a tick, once the run has lasted long enough."""
        if monotonic() - self._began < WORTH_S:
            return
        if self._file is None:
            self._file = opened_private(self._counts, os.O_WRONLY)
        os.pwrite(self._file, msgspec.json.encode(counts) + b"\n", 0)

    def end(self) -> None:
        """Remove the counts: the run is finished."""
        self._counts.unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove the log and what belongs to it."""
        for ending in _ENDINGS:
            self._log.with_suffix(ending).unlink(missing_ok=True)

    def _recorded(self) -> Counts | None:
        try:
            with opened_regular(self._counts) as file:
                line = file.readline(DOCUMENT_BYTES_MAX)
            return typed(parse_json(line), Counts) if line.endswith(b"\n") else None
        except (OSError, DocumentError):
            return None

    def _ticks(self, scenario: Scenario) -> int | None:
        """Return the completed ticks in the log; None if it is no log of the scenario."""
        try:
            with closing(open_event_log(f"sqlite:///{quoted(str(self._log))}")) as log:
                run = find_run(log)
        except PlacetError:
            return None
        return run.ticks if run is not None and run.scenario == scenario else None
