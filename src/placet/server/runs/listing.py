"""The rows of the list of runs: the status of each run, and the settings in which they differ.

The status of a run, the worst first:

    failed     an exception ended the run before the last tick, by the note beside its log; or the
               study of the log says that the run failed or took too long
    damaged    the log cannot be read
    killed     its process ended without closing the log, before the last tick
    stopped    the log was closed before the last tick, such as by a person
    running    a process writes the log
    empty      the log has no record
    closed     the log of a world that no scenario ran, and that no process writes
    ended      the condition `until` of the scenario ended the run, by the note beside its log
    finished   all ticks are completed
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Final, TypeAlias

from placet.schemas.codec import Json, to_json
from placet.server.runs.filters import Filtered, filter_of
from placet.server.runs.folder import RunFile, RunFolder
from placet.server.runs.lineage import EDITS_MAX, Ancestor
from placet.server.runs.notes import NotesError, RunNote, RunNotes, checked_note
from placet.server.runs.summary import RunHead
from placet.stores.files import is_draft
from placet.sweeps.errors import LabError
from placet.sweeps.study import LOGS, MANIFEST, RESULTS, Study

COLUMNS_MAX: Final = 8
"""Columns of settings."""

_CELL_CHARS_MAX: Final = 80
_Settings = Mapping[str, Json]
_NamesOfWorlds: TypeAlias = Mapping[str, Sequence[tuple[str, RunHead]]]


class RunList:
    """The list of the runs in a folder.

    Args:
        runs: The logs of the folder.
    """

    def __init__(self, runs: RunFolder) -> None:
        self._runs = runs
        self._notes = RunNotes(runs.folder)
        self._failures = _StudyFailures(runs.folder)

    def rows(self, query: str = "") -> dict[str, Json]:
        """Return the rows of the runs that a query admits, with the settings that differ. Blocking.

        `unread` logs are read in the background; a later answer has more of them.

        Raises:
            FilterError: The query is none.
            StoreError: The folder cannot be read.
        """
        files = self._runs.files()
        notes, problem = self._read_notes()
        failures = self._failures.read()
        listed = [_Listed(one, self._status(one, failures), notes.get(one.name)) for one in files]
        is_complete = all(one.is_head_read for one in files)
        names = _names_of_worlds(files)
        known = dict.fromkeys(key for one in listed for key in one.settings)
        admits = filter_of(query, list(known), is_complete=is_complete)
        shown = [one for one in listed if admits(one.filtered(failures))]
        columns = differing_keys([one.settings for one in shown])
        return {
            "folder": str(self._runs.folder),
            "runs": [one.as_dict(columns[:COLUMNS_MAX], failures, names) for one in shown],
            "total": len(listed),
            "unread": sum(one.counts is None and not one.is_counted for one in files),
            "columns": columns[:COLUMNS_MAX],
            "columns_left_out": columns[COLUMNS_MAX:],
            "left_out": self._runs.left_out,
            "tags": sorted({tag for one in listed for tag in one.note.tags}),
            "problem": problem,
        }

    def set_note(self, name: str, tags: list[str], note: str) -> RunNote:
        """Set the tags and the note of a run, and return them. Blocking.

        Raises:
            InvalidNoteError: A tag or the note cannot be kept.
            NotesError: The file of notes cannot be read or written.
        """
        checked = checked_note(tags, note)
        self._notes.write(name, checked)
        return checked

    def _read_notes(self) -> tuple[dict[str, RunNote], str]:
        try:
            return self._notes.read(), ""
        except NotesError as error:
            return {}, str(error)

    def _status(self, one: RunFile, failures: Mapping[str, str]) -> str:
        if one.name in failures:
            return "failed"
        if one.error:
            return "damaged"
        if one.head is None:
            return "empty" if one.is_head_read else ""
        if one.head.is_finished:
            return "finished"
        is_written = self._runs.is_written(one)
        if is_written:
            return "running"
        if one.failure:
            return "failed"
        if is_written is None:
            return "killed"
        if one.ended_by:
            return "ended"
        return "closed" if one.head.ticks_planned is None else "stopped"


class _Listed:
    """A log with its status and note."""

    def __init__(self, one: RunFile, status: str, note: RunNote | None) -> None:
        self.file = one
        self.status = status
        self.note = note or RunNote()
        self.settings: _Settings = {} if one.head is None else one.head.settings

    def _numbers(self) -> dict[str, int | None]:
        counts, head = self.file.counts, self.file.head
        ticks = None if head is None else head.ticks
        if ticks is None and counts is not None:
            ticks = counts.ticks
        return {
            "seed": None if head is None else head.seed,
            "ticks": ticks,
            "records": None if head is None else head.records,
            "agents": None if counts is None else counts.agents,
            "admitted": None if counts is None else counts.admitted,
            "refused": None if counts is None else counts.refused,
        }

    def filtered(self, failures: Mapping[str, str]) -> Filtered:
        """Return the part of the row that a query looks at."""
        head = self.file.head
        texts = {
            "name": [self.file.name],
            "scenario": [] if head is None else [head.scenario, head.world],
            "domain": [] if head is None else list(head.domains),
            "tag": self.note.tags,
            "note": [self.note.note],
            "status": [self.status],
            "error": [self._error(failures)],
            "parent": [] if head is None else [one.parent for one in head.lineage],
        }
        return Filtered(texts=texts, numbers=self._numbers(), settings=self.settings)

    def as_dict(
        self, columns: Iterable[str], failures: Mapping[str, str], names: "_NamesOfWorlds"
    ) -> dict[str, Json]:
        """Return the row as plain JSON, with the settings of these keys."""
        one, head = self.file, self.file.head
        lineage = () if head is None else head.lineage
        return {
            "run": one.name,
            "world": "" if head is None else head.world,
            "scenario": "" if head is None else head.scenario,
            "domains": [] if head is None else list(head.domains),
            "ticks_planned": None if head is None else head.ticks_planned,
            **self._numbers(),
            "is_partial": one.counts is not None and one.counts.is_partial,
            "settings": {key: shown(self.settings[key]) for key in columns if key in self.settings},
            "status": self.status,
            "ended_by": one.ended_by if self.status == "ended" else "",
            "error": self._error(failures),
            "modified_s": one.modified_s,
            "bytes": one.size,
            "tags": self.note.tags,
            "note": self.note.note,
            "lineage": [_lineage_json(each, names) for each in lineage],
        }

    def _error(self, failures: Mapping[str, str]) -> str:
        one = self.file
        noted = one.failure if self.status == "failed" else ""
        return failures.get(one.name) or one.error or noted


def _names_of_worlds(files: Iterable[RunFile]) -> "_NamesOfWorlds":
    """Return the logs of each world, in the order of their names."""
    names: dict[str, list[tuple[str, RunHead]]] = {}
    for one in files:
        if one.head is not None:
            names.setdefault(one.head.world, []).append((one.name, one.head))
    return names


def _lineage_json(ancestor: Ancestor, names: "_NamesOfWorlds") -> dict[str, Json]:
    """Return an ancestor as plain JSON; `run` is its log, None if the folder has none."""
    run = next(
        (
            name
            for name, head in names.get(ancestor.parent, ())
            if head.seed == ancestor.seed and head.settings == ancestor.settings
        ),
        None,
    )
    return {
        "parent": ancestor.parent,
        "run": run,
        "tick": ancestor.tick,
        "seq": ancestor.seq,
        "sim_time": ancestor.sim_time,
        "changes": {
            key: [shown(value) if value is not None else None for value in pair]
            for key, pair in islice(ancestor.changes.items(), COLUMNS_MAX)
        },
        "edits": list(ancestor.edits[:EDITS_MAX]),
        "left_out": max(0, len(ancestor.changes) - COLUMNS_MAX)
        + max(0, len(ancestor.edits) - EDITS_MAX),
    }


class _StudyFailures:
    """The failed runs of a study whose logs are in the folder.

    Args:
        folder: The folder of the logs.
    """

    def __init__(self, folder: Path) -> None:
        self._study = folder.parent if folder.name == LOGS else None
        self._stamp: tuple[tuple[str, int, int], ...] = ()
        self._failures: dict[str, str] = {}
        self._lock = Lock()

    def read(self) -> dict[str, str]:
        """Return the error of each failed run, by the name of its log; none where is no study."""
        study = self._study
        if study is None or not (study / MANIFEST).is_file():
            return {}
        with self._lock:
            try:
                stamp = tuple(
                    (path.name, about.st_size, about.st_mtime_ns)
                    for path in sorted((study / RESULTS).glob("*.jsonl"))
                    if not is_draft(path.name) and (about := path.stat())
                )
                if stamp != self._stamp:
                    rows = Study(study).read_rows().values()
                    failed = ((row["key"], row.get("error")) for row in rows)
                    self._failures = {f"{key}.db": error for key, error in failed if error}
                    self._stamp = stamp
            except (OSError, LabError):  # a damaged study has logs to look at nevertheless
                return {}
            return self._failures


def differing_keys(runs: Sequence[_Settings]) -> list[str]:
    """Return the dotted keys with several values among the runs that have them, in their order."""
    values: dict[str, set[str]] = {}
    for settings in runs:
        for key, value in settings.items():
            values.setdefault(key, set()).add(text_of(value))
    return [key for key, found in values.items() if len(found) > 1]


def text_of(value: Json) -> str:
    """Return a value of a setting as text; 1 and 1.0 have one."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, str) else to_json(value).decode()


def shown(value: Json) -> Json:
    """Return a value as the list shows it: a number, true or false as it is, else a short text."""
    if isinstance(value, bool | int | float):
        return value
    text = text_of(value)
    return text if len(text) <= _CELL_CHARS_MAX else f"{text[:_CELL_CHARS_MAX]}…"
