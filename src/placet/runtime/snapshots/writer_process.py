"""A short-lived process that writes a snapshot, so that the world's own process never pauses.

A fold needs no domain and no configuration: both are in the log. The process reads the log like any
reader, at low priority, prints the result as one JSON line, and ends.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from threading import Event, Lock
from typing import Final

from placet.runtime.gc_tuning import tune_gc
from placet.runtime.snapshots.files import snapshots_of
from placet.runtime.snapshots.writer import WrittenSnapshot, take_snapshot
from placet.runtime.stores.url import open_event_log
from placet.schemas.codec import from_json, to_json
from placet.schemas.errors import PlacetError, StoreError

_NICENESS: Final = 5
# Not `-m`: the package imports this module, which would be run a second time.
_PROGRAM: Final = (
    "import sys; from placet.runtime.snapshots.writer_process import main; sys.exit(main())"
)
_ERROR_CHARACTERS: Final = 2_000


class SnapshotProcess:
    """The parent's side.

    Args:
        url: Of the log.
        kept: How many snapshots to keep.
        seconds_max: When to give up on the process.
        environment: Variables needed besides the URL, such as secrets that must not be visible.
    """

    def __init__(
        self, url: str, kept: int, seconds_max: float, environment: Mapping[str, str] | None = None
    ) -> None:
        self._url = url
        self._environment = environment or {}
        self._kept = kept
        self._seconds_max = seconds_max
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = Event()

    def run(self) -> WrittenSnapshot | None:
        """Take one snapshot and wait for it; None if `stop` came between. Call it in a thread.

        Raises:
            StoreError: The process failed, or took too long; its last words are in the message.
        """
        arguments = (self._url, str(self._kept), str(os.getpid()))
        command = [sys.executable, "-c", _PROGRAM, *arguments]
        with self._lock:
            if self._stopped.is_set():
                return None
            process = self._process = self._begun(command)
        with process:
            try:
                out, err = process.communicate(timeout=self._seconds_max)
            except subprocess.TimeoutExpired:
                process.kill()
                raise self._failed(f"it took longer than {self._seconds_max:g} s") from None
        if self._stopped.is_set():
            return None
        if process.returncode != 0:
            said = err.decode(errors="replace").strip()[-_ERROR_CHARACTERS:]
            raise self._failed(f"it ended with code {process.returncode} and said: {said}")
        return WrittenSnapshot(**from_json(out))

    def stop(self) -> None:
        """End the process, if there is one, and start no more. Nothing is lost by it."""
        with self._lock:
            self._stopped.set()
            if self._process is not None:
                self._process.kill()

    def _begun(self, command: list[str]) -> "subprocess.Popen[bytes]":
        pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
        try:
            environment = {**os.environ, **self._environment}
            return subprocess.Popen(
                command, stdin=nothing, stdout=pipe, stderr=pipe, env=environment
            )
        except OSError as error:
            raise self._failed(f"it cannot be started: {error}") from error

    def _failed(self, why: str) -> StoreError:
        return StoreError(f"the process that takes snapshots failed: {why}", store=self._url)


def main() -> int:
    """Take one snapshot: the child's side. Its arguments are URL, snapshots to keep, parent."""
    url, kept, parent = sys.argv[1:]
    os.nice(_NICENESS)
    tune_gc()
    log = open_event_log(url)
    files = snapshots_of(log)
    assert files is not None, (
        "only a log that another process can read has one to take its snapshots"
    )
    try:
        # Where the parent is gone, another one may have begun, with a process of its own.
        taken = take_snapshot(
            log, files, kept=int(kept), is_wanted=lambda: os.getppid() == int(parent)
        )
    except PlacetError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(to_json(asdict(taken)).decode() + "\n")
    return 0
