"""The folder of a study: manifest, rows of finished runs, logs; it outlives any process.

    manifest.json      the plans: code versions, scenarios, seeds; replaced as a whole
    results/*.jsonl    a row of JSON for each finished run, one file a writer
    collected/*        collected rows of runs, an Arrow stream each
    logs/KEY.db        logs of runs, where they are kept
    ray.log            what Ray printed, of a sweep on Ray
    running/*          the run that each worker is at
    lock               lock of the sweep's process, and the name of its session
    workers            lock shared by the workers that are at a run

A line without its end is a row that was not written whole: its run is not finished.
"""

import fcntl
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from re import compile as pattern
from typing import Any, Final
from uuid import uuid4
from weakref import finalize

from placet.scenarios.scenario import Scenario, from_text
from placet.schemas.codec import Json
from placet.schemas.documents import parse_json
from placet.schemas.limits import SWEEP_MANIFEST_BYTES_MAX
from placet.stores.files import is_draft, make_folder, opened_private, write_whole
from placet.stores.postgres.address import shown_url
from placet.sweeps.errors import LabError
from placet.sweeps.formats import FORMAT, Row, read_manifest, read_rows
from placet.sweeps.plan import SweepPlan, scenario_digest

MANIFEST: Final = "manifest.json"
RESULTS: Final = "results"
LOGS: Final = "logs"
RAY_LOG: Final = "ray.log"
COLLECTED: Final = "collected"
STREAMS: Final = "streams"
"""Key of the collected rows in a row on its way; the row says where they lie instead."""

_URL: Final = pattern(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_RUNNING: Final = "running"
_LOCK: Final = "lock"
_WORKERS: Final = "workers"
_ORPHANS_S: Final = 30.0
"""Longest wait for workers of a killed sweep: they end as soon as they notice it."""


_locks_here: Final[set[int]] = set()
"""Descriptors of the locks that this process holds."""


def _close_copied_locks() -> None:
    """Close the copies of locks in a forked process, which would hold them until its end."""
    for lock in _locks_here:
        os.close(lock)
    _locks_here.clear()


os.register_at_fork(after_in_child=_close_copied_locks)


class StudyCodeError(LabError):
    """The study was made by other code; the message names the files or versions."""


class Study:
    """A study's folder, opened to read; `locked` opens it to write.

    Args:
        folder: The folder. It may be missing or empty before `locked`.

    Raises:
        LabError: The folder holds something else.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if _URL.match(str(folder)):  # also `x:/y`: a path shortens `x://y` to it
            raise LabError(
                f"a study is a folder, got the URL {shown_url(str(folder))}: no rows and no logs "
                "of a sweep are kept in a database; name a path"
            )
        self.manifest: dict[str, Any] = self._read_manifest()
        self.rows: dict[str, Row] = {}
        self.session = ""

    @property
    def identity(self) -> str:
        """Random name of the study, by which a worker knows that it sees the same folder."""
        return str(self.manifest["id"])

    @contextmanager
    def locked(self) -> Iterator["Study"]:
        """Return a context in which no other sweep writes the study.

        Raises:
            LabError: Another sweep runs in the folder, or the folder cannot be written.
        """
        with writing(self.folder):
            make_folder(self.folder)
            for name in (RESULTS, LOGS, COLLECTED, _RUNNING):
                make_folder(self.folder / name)
            lock = opened_private(self.folder / _LOCK, os.O_RDWR)
        _locks_here.add(lock)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LabError(
                    f"another sweep runs in {self.folder}; wait for its end, or name another folder"
                ) from None
            self._begin_session(lock)
            self.manifest = self._read_manifest()
            self.read_rows()
            yield self
        finally:
            _locks_here.discard(lock)
            fcntl.flock(lock, fcntl.LOCK_UN)  # a copy in another process would keep it
            os.close(lock)

    def read_rows(self) -> dict[str, Row]:
        """Read the rows of all finished runs, by key; of several, the latest attempt. O(rows).

        Raises:
            LabError: A file cannot be read, or a line is no row.
        """
        rows: dict[str, Row] = {}
        for path in sorted((self.folder / RESULTS).glob("*.jsonl")):
            for row in read_rows(path):
                before = rows.get(row["key"])
                if before is None or before["attempt"] <= row["attempt"]:
                    rows[row["key"]] = row
        self.rows = rows
        return rows

    def remove_replaced(self) -> None:
        """Remove from `rows` the failed rows of runs that were run again with other code. O(rows).

        A failed row is replaced by a row without an error, or by that of a later attempt.
        """
        best: dict[tuple[str, int], tuple[bool, int]] = {}
        for row in self.rows.values():
            run = (row["scenario"], row["seed"])
            best[run] = max(best.get(run, (False, 0)), _rank(row))
        self.rows = {
            key: row
            for key, row in self.rows.items()
            if row["error"] is None or _rank(row) == best[row["scenario"], row["seed"]]
        }

    def scenario(self, digest: str) -> Scenario:
        """Return a scenario of the manifest; its seed is 0.

        Raises:
            LabError: Its values are not those of the digest.
            ScenarioError: It is no scenario of this release.
        """
        path = self.folder / MANIFEST
        text = json.dumps(self.manifest["scenarios"][digest]["values"])
        if scenario_digest(text) != digest:
            raise LabError(
                f"the study's {path} is damaged: the values of the scenario {digest} have another "
                "digest. Restore the file from a copy, or name another folder"
            )
        return from_text(str(path), text)

    def running(self) -> set[str]:
        """Return the keys of the runs that workers began and did not finish."""
        marks = (path.read_text(errors="replace") for path in (self.folder / _RUNNING).iterdir())
        return {key for key in marks if key}

    def clear_running(self) -> None:
        """Forget what workers were at; they have ended.

        Raises:
            LabError: A mark cannot be removed.
        """
        with writing(self.folder):
            for mark in (self.folder / _RUNNING).iterdir():
                mark.unlink(missing_ok=True)

    def require_same_code(self, plan: SweepPlan) -> None:
        """Check that the code of a plan is that of the study.

        Raises:
            StudyCodeError: A version or a file differs.
        """
        parts = list(self.manifest["parts"].values())
        for planned in plan.scenarios:
            scenario = self.manifest["scenarios"].get(planned.digest, {"code": {}})
            rules = [fingerprint for _, fingerprint in scenario["code"].values()]
            changes = planned.code.changes_since(parts, rules)
            if changes:
                raise StudyCodeError(
                    f"{self.folder} is a study of other code: {'; '.join(changes)}. Restore it, "
                    "name another folder, or continue with --anyway (anyway=True), which marks the "
                    "rows in a column `code`"
                )

    def add_plan(self, plan: SweepPlan) -> None:
        """Record the code, the scenarios and the seeds of a plan in the manifest.

        Raises:
            LabError: The manifest is too large, or cannot be written.
        """
        manifest = self.manifest
        for planned in plan.scenarios:
            code = planned.code
            manifest["parts"][code.parts_digest] = dict(code.parts)
            scenario = {"values": parse_json(planned.text), "code": {}}
            scenario = manifest["scenarios"].setdefault(planned.digest, scenario)
            scenario["code"][code.digest] = [code.parts_digest, code.rules]
        entry = {
            "scenarios": [[planned.digest, planned.code.digest] for planned in plan.scenarios],
            "seeds": None if plan.seeds is None else list(plan.seeds),
            "own_seeds": [planned.scenario.seed for planned in plan.scenarios],
        }
        if entry not in manifest["plans"]:
            manifest["plans"].append(entry)
        text = json.dumps(manifest, indent=1).encode()
        if len(text) > SWEEP_MANIFEST_BYTES_MAX:
            raise LabError(
                f"the scenarios of a study have at most {SWEEP_MANIFEST_BYTES_MAX} bytes, got "
                f"{len(text)}: make several sweeps of them, each into another folder"
            )
        with writing(self.folder):
            write_whole(self.folder / MANIFEST, text)

    def _read_manifest(self) -> dict[str, Any]:
        try:
            return read_manifest(self.folder / MANIFEST)
        except (FileNotFoundError, NotADirectoryError):
            self._require_no_other_use()
            return {"format": FORMAT, "id": uuid4().hex, "parts": {}, "scenarios": {}, "plans": []}

    def _require_no_other_use(self) -> None:
        """Refuse a folder with files of something else, and a path that is no folder."""
        try:
            names = {path.name for path in self.folder.iterdir() if not is_draft(path.name)}
        except FileNotFoundError:
            return
        except OSError as error:
            raise LabError(f"{self.folder} cannot be the folder of a study: {error}") from None
        own = {RESULTS, LOGS, COLLECTED, RAY_LOG, _RUNNING, _LOCK, _WORKERS, f"{MANIFEST}.new"}
        foreign = sorted(names - own)
        if foreign:
            raise LabError(
                f"{self.folder} is no study: it has no {MANIFEST}, and holds {foreign[0]!r}; name "
                "a new or an empty folder"
            )

    def _begin_session(self, lock: int) -> None:
        """Wait until no worker of an earlier sweep is at a run, then forbid it to begin another."""
        with (
            writing(self.folder),
            os.fdopen(opened_private(self.folder / _WORKERS, os.O_RDWR), "wb") as workers,
        ):
            deadline = time.monotonic() + _ORPHANS_S
            while True:
                try:
                    fcntl.flock(workers, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise LabError(
                            f"workers of an earlier sweep are still running in {self.folder}, "
                            f"{_ORPHANS_S:g} s after it ended; end them and try again"
                        ) from None
                    time.sleep(0.02)
            self.session = uuid4().hex
            os.ftruncate(lock, 0)
            os.pwrite(lock, self.session.encode(), 0)
            self.clear_running()


def _rank(row: Row) -> tuple[bool, int]:
    """Return the rank of a row among those of its run: done before failed, then the later one."""
    return row["error"] is None, row["attempt"]


class RowWriter:
    """Appends rows to a new file in a study, and marks the run that is under way.

    Its files are closed by `close`, or with the last reference, as that of a thread that ended.

    Args:
        folder: Folder of the study.
        session: Session of the sweep whose runs these are.

    Raises:
        OSError: The folder cannot be written.
    """

    def __init__(self, folder: Path, session: str) -> None:
        self._folder, self._session = folder, session
        name = f"{os.getpid()}-{uuid4().hex[:8]}"
        self._name = name
        self._files: dict[str, int] = {}
        self._open: list[int] = []
        self._finalizer = finalize(self, _close_all, self._open)
        self._workers = self._opened(folder / _WORKERS, os.O_RDWR)
        self._mark = self._opened(folder / _RUNNING / name, os.O_WRONLY | os.O_EXCL)

    def begin(self, key: str) -> None:
        """Mark a run as under way.

        Raises:
            LabError: The sweep of this writer has ended, and its runs are no longer wanted.
        """
        fcntl.flock(self._workers, fcntl.LOCK_SH)
        if (self._folder / _LOCK).read_bytes() != self._session.encode():
            fcntl.flock(self._workers, fcntl.LOCK_UN)
            raise LabError(f"the sweep in {self._folder} that this run is of has ended")
        os.pwrite(self._mark, key.encode(), 0)

    def end(self) -> None:
        """Mark that no run is under way."""
        os.ftruncate(self._mark, 0)
        fcntl.flock(self._workers, fcntl.LOCK_UN)

    def write(self, row: Mapping[str, Json]) -> Row:
        """Append a row, whole or not at all, after its collected rows; return it as written.

        Raises:
            OSError: The disk is full, or failed.
        """
        whole = dict(row)
        streams = whole.pop(STREAMS, {})
        if streams:
            whole[COLLECTED] = {
                table: [name, self._append(f"{COLLECTED}/{name}", data), len(data)]
                for table, data in streams.items()
                for name in [f"{self._name}.{table}.arrows"]
            }
        line = json.dumps(whole, separators=(",", ":")).encode() + b"\n"
        self._append(f"{RESULTS}/{self._name}.jsonl", line)
        return whole

    def _append(self, name: str, data: bytes) -> int:
        """Append to a file, whole or not at all; return the offset."""
        if name not in self._files:
            path = self._folder / name
            self._files[name] = self._opened(path, os.O_WRONLY | os.O_APPEND)
        file = self._files[name]
        size = os.fstat(file).st_size
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(file, left) :]
        except OSError:
            os.ftruncate(file, size)
            raise
        return size

    def close(self) -> None:
        """Close the files."""
        self._finalizer()

    def _opened(self, path: Path, flags: int) -> int:
        number = opened_private(path, flags)
        self._open.append(number)
        return number


def _close_all(numbers: Iterable[int]) -> None:
    for number in numbers:
        os.close(number)


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Convert an `OSError` inside a `with` block to a `LabError` about a study's folder.

    Raises:
        LabError: The block raised an `OSError`.
    """
    try:
        yield
    except OSError as error:
        raise LabError(
            f"cannot write the study {folder}: {error}; finished runs are kept. Make room or "
            "make it writable, then run the same command again"
        ) from error
