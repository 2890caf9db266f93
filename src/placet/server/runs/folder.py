"""The logs in a folder, with their heads and counts, in memory until a file changes.

A file is known by its name in the folder, and by no path: a name with a separator is no key, and a
symbolic link is left out. The list of the files costs a look at each; of a file that is new or has
changed, the mark at its beginning is read. Heads and counts are read in the background, in turn.
"""

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock, Thread
from time import time
from typing import Final, NamedTuple

from placet.actors.ports import EventLog
from placet.scenarios import end_note, failure_note
from placet.scenarios.end_note import end_by_condition
from placet.scenarios.failure_note import failure_of
from placet.schemas.errors import PlacetError, StoreError
from placet.schemas.log.pack import PACK_MAGIC
from placet.schemas.names import path_part_fault
from placet.server.runs.summary import RunCount, RunHead, RunTotals, head_of
from placet.stores.append_rules import NoWorldError
from placet.stores.files import opened_regular
from placet.stores.reading import log_to_read
from placet.stores.sqlite.heartbeat import Heartbeat
from placet.stores.sqlite.layout import APPLICATION_ID
from placet.sweeps.study import LOGS, MANIFEST

FILES_MAX: Final = 10_000
"""Logs of a folder that are listed."""

_HEADS_AT_ONCE: Final = 50
"""Heads that a request reads; the others are read in the background."""

_CHUNK_RECORDS: Final = 2_000
_SQLITE: Final = b"SQLite format 3\0"
_PAGE_BYTES: Final = 4_096
_MARK: Final = slice(68, 72)  # of the application, in the header of a SQLite file
_TABLES: Final = (b"CREATE TABLE meta (", b"CREATE TABLE groups (")
_ENDING: Final = ".db"
_NOTES: Final = (failure_note.ENDING, end_note.ENDING)
_SILENT_S: Final = 10.0
"""A writer on another machine is taken for dead after so long without a beat, seconds."""

_FAULTS: Final = (PlacetError, OSError, ValueError)


class _Stamp(NamedTuple):
    """The identity of a log's files; another stamp means other content."""

    inode: int
    size: int
    mtime_ns: int
    wal_size: int
    wal_mtime_ns: int
    note_mtime_ns: int


@dataclass(slots=True)
class RunFile:
    """A log in the folder.

    Attributes:
        name: Its name in the folder.
        stamp: Identity of the file when it was last looked at.
        is_log: It is a log or a pack, and listed.
        is_pack: It is a pack, which no process writes.
        is_head_read: `head` and `error` are those of the stamp.
        head: The head; None of an empty or damaged log, or before it is read.
        count: The agents and intents, as far as they were counted.
        counts: The counts at the end that the log had last; None before the first.
        is_counted: They are those of the stamp, or there will be none.
        failure: The exception that ended its run; empty if none is noted.
        ended_by: The condition `until` that ended its run; empty if none is noted.
        error: Why the log cannot be read; empty if it can be.
    """

    name: str
    stamp: _Stamp
    is_log: bool = False
    is_pack: bool = False
    is_head_read: bool = False
    head: RunHead | None = None
    count: RunCount = field(default_factory=RunCount)
    counts: RunTotals | None = None
    is_counted: bool = False
    failure: str = ""
    ended_by: str = ""
    error: str = ""

    @property
    def size(self) -> int:
        """Bytes of the log."""
        return self.stamp.size + self.stamp.wal_size

    @property
    def modified_s(self) -> float:
        """Time of the last write, seconds since 1970."""
        return max(self.stamp.mtime_ns, self.stamp.wal_mtime_ns) / 1e9


class RunFolder:
    """The logs of a folder.

    Args:
        folder: The folder.
        open_log: Opens the log of a path for reading.

    Attributes:
        folder: The folder, its links resolved.
        open_log: Opens the log of a path for reading.
        left_out: Number of logs that are not listed: by their names, or beyond `FILES_MAX`.
    """

    def __init__(self, folder: Path, open_log: Callable[[str], EventLog] = log_to_read) -> None:
        self.folder = folder.resolve()
        self.open_log = open_log
        self._files: dict[str, RunFile] = {}
        self._lock = Lock()
        self._is_closed = Event()
        self._thread: Thread | None = None
        self.left_out = 0

    def files(self) -> list[RunFile]:
        """Return the logs, by name, as far as they are read; the rest is read after. Blocking.

        Raises:
            StoreError: The folder cannot be read.
        """
        with self._lock:
            self._scan()
            files = [one for _, one in sorted(self._files.items()) if one.is_log]
            unread = [one for one in files if not one.is_head_read]
            unread.sort(key=lambda one: one.modified_s, reverse=True)
            for one in unread[:_HEADS_AT_ONCE]:
                self._read_head(one)
            if any(not one.is_counted for one in files):
                self._start()
        return files

    def names(self) -> list[str]:
        """Return the names of the logs. Blocking.

        Raises:
            StoreError: The folder cannot be read.
        """
        with self._lock:
            self._scan()
            return sorted(name for name, one in self._files.items() if one.is_log)

    def find(self, name: str) -> RunFile | None:
        """Return a log by its name in the folder; None if the folder has none. Blocking."""
        with self._lock:
            known = self._files.get(name)
            path = self.folder / name if known is not None else None
            if path is None or path.is_symlink() or not path.is_file():
                self._scan()
            found = self._files.get(name)
        return found if found is not None and found.is_log else None

    def open(self, name: str) -> EventLog | None:
        """Return a log for reading, by its name in the folder; None if the folder has none.

        Raises:
            StoreError: It cannot be read.
        """
        return None if self.find(name) is None else self.open_log(str(self.folder / name))

    def is_written(self, one: RunFile) -> bool | None:
        """Return whether a process writes a log; None if one wrote it and ended without closing it.

        Does not wait. The writer on another machine is judged by the age of its last beat.
        """
        if one.is_pack:
            return False
        beat = Heartbeat(self.folder / one.name)
        writer = beat.read()
        if writer is None:
            return None if one.stamp.wal_size else False
        is_alive = writer.is_alive()
        if is_alive is None:
            with suppress(OSError):
                is_alive = time() - beat.path.stat().st_mtime < _SILENT_S
        return True if is_alive else None

    def close(self) -> None:
        """End the reading in the background, and wait for it."""
        self._is_closed.set()
        self.wait()

    def wait(self, seconds_max: float | None = None) -> None:
        """Wait until the logs of the last look are read, or for so long."""
        thread = self._thread
        if thread is not None:
            thread.join(seconds_max)

    def _scan(self) -> None:
        """Look at each file; drop the head and the counts of a file that is gone or replaced."""
        found: dict[str, RunFile] = {}
        self.left_out = 0
        try:
            for name, stamp in _stamps(self.folder):
                before = self._files.get(name)
                one = (
                    before
                    if before and before.stamp == stamp
                    else self._changed(before, name, stamp)
                )
                if one.is_log and (path_part_fault(name) or len(found) >= FILES_MAX):
                    self.left_out += 1
                else:
                    found[name] = one
        except OSError as error:
            raise StoreError(
                f"cannot list {self.folder}: {error.strerror or error}", store=str(self.folder)
            ) from error
        self._files = found

    def _changed(self, before: RunFile | None, name: str, stamp: _Stamp) -> RunFile:
        """Return the entry of a new or changed file; the count of a log that has grown is kept."""
        is_log, is_pack = _kind_of(self.folder / name)
        one = RunFile(name, stamp, is_log, is_pack)
        has_grown = before is not None and before.stamp.inode == stamp.inode and not is_pack
        if before is not None and has_grown and stamp.size >= before.stamp.size:
            one.count, one.counts, one.head = before.count, before.counts, before.head
        return one

    def _read_head(self, one: RunFile) -> None:
        one.is_head_read = True
        try:
            with closing(self.open_log(str(self.folder / one.name))) as log:
                one.head, one.error = head_of(log, one.count.forks), ""
                failure = failure_of(log)
                one.failure = "" if failure is None else failure.message
                end = end_by_condition(log, None if one.head is None else one.head.ticks)
                one.ended_by = "" if end is None else end.until
            if one.head is None:
                one.is_counted = True
        except NoWorldError:  # an empty file, which a killed process may have left
            one.head, one.error, one.is_counted = None, "", True
        except _FAULTS as error:
            one.error, one.is_counted = str(error), True

    def _start(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._thread = Thread(target=self._read_all, name="placet-runs", daemon=True)
            self._thread.start()

    def _read_all(self) -> None:
        """Read the heads, then count the logs, until all is read.

        The newest first; a log that has grown comes last, because a live run grows all the time.
        """
        while not self._is_closed.is_set():
            with self._lock:
                files = [one for one in self._files.values() if one.is_log and not one.is_counted]
            unread = [one for one in files if not one.is_head_read]
            if not files:
                return
            one = max(unread or files, key=lambda each: (each.counts is None, each.modified_s))
            if unread:
                self._read_head(one)
            else:
                self._count(one)

    def _count(self, one: RunFile) -> None:
        path = self.folder / one.name
        try:
            with closing(self.open_log(str(path))) as log:
                if not one.count.is_of(log):  # another log of the same name
                    one.count = RunCount()
                while not self._is_closed.is_set():
                    if one.count.read_on(log, _CHUNK_RECORDS):
                        if one.count.forks:
                            one.head = head_of(log, one.count.forks)
                        one.counts, one.is_counted = one.count.counts, True
                        return
        except _FAULTS as error:
            one.error, one.is_counted = str(error), True


def folder_of_logs(folder: Path) -> RunFolder:
    """Return the runs of a folder; of the folder of a study, those of the logs that it kept.

    Raises:
        StoreError: The folder cannot be read.
    """
    is_study = (folder / MANIFEST).is_file() and (folder / LOGS).is_dir()
    runs = RunFolder(folder / LOGS if is_study else folder)
    runs.names()
    return runs


def _stamps(folder: Path) -> Iterator[tuple[str, _Stamp]]:
    """Yield the regular files of a folder, links left out, with their stamps."""
    with os.scandir(folder) as entries:
        found = {entry.name: entry for entry in entries}
    for name, entry in found.items():
        with suppress(FileNotFoundError):  # a file that is removed meanwhile
            about = entry.stat(follow_symlinks=False)
            if stat.S_ISREG(about.st_mode):
                wal = _beside(found, f"{name}-wal")
                notes = (_beside(found, name + ending)[1] for ending in _NOTES)
                at = about.st_ino, about.st_size, about.st_mtime_ns
                yield name, _Stamp(*at, *wal, max(notes))


def _beside(found: "Mapping[str, os.DirEntry[str]]", name: str) -> tuple[int, int]:
    """Return the size and the time of a file beside a log; 0 and 0 if there is none."""
    entry = found.get(name)
    if entry is None:
        return 0, 0
    about = entry.stat(follow_symlinks=False)
    return about.st_size, about.st_mtime_ns


def _kind_of(path: Path) -> tuple[bool, bool]:
    """Return whether a file is a log or a pack by its first page, and whether it is a pack.

    An empty file or one of unreadable bytes is taken for a damaged log if it ends in `.db`. So is a
    database that has the tables of a log without its mark.
    """
    try:
        with opened_regular(path) as file:
            page = file.read(_PAGE_BYTES)
    except OSError:
        return path.name.endswith(_ENDING), False
    if page.startswith(PACK_MAGIC):
        return True, True
    if not page.startswith(_SQLITE):
        return path.name.endswith(_ENDING), False
    is_marked = page[_MARK] == APPLICATION_ID.to_bytes(4, "big")
    return is_marked or all(table in page for table in _TABLES), False
