"""The heartbeat of a log's writer: the file `town.db.writer` beside the log, while it is written.

The fence alone makes two writers safe. The heartbeat makes the second one polite: it is refused,
and learns which process writes the log. So a fault here loses nothing: a heartbeat that cannot be
written is left out, and the next opening then takes the fence as if there were no writer.

The file names the process, and its modification time is renewed once a second by one thread for
all logs of this process. An opener on the same machine asks the system whether that process
runs, so a writer that was killed causes no delay. For a process in another container, or on
another machine, it watches whether the file is renewed.
"""

import os
import socket
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from threading import Event, Lock, Thread
from time import monotonic, time
from typing import Final

import msgspec

from placet.stores.files import whole_file

BEAT_SECONDS: Final = 1.0
SILENCE_SECONDS: Final = 5.0
"""A writer that cannot be asked for is taken for dead after so long without a beat, seconds."""

SKEW_SECONDS_MAX: Final = 300.0
"""How far the clocks of this machine and of the file's server may differ, seconds."""

_LOOK_SECONDS: Final = 0.1
_DEAD_STATES: Final = "ZX"
_CAN_BEAT: Final = os.utime in os.supports_fd


class Writer(msgspec.Struct, frozen=True):
    """The process that writes a log.

    Attributes:
        pid: Process id.
        started: Start time of the process in the system's unit, which distinguishes it from a later
            process with the same id; empty if the system does not provide it.
        boot: Id of the machine's boot; empty if the system does not provide it.
        namespace: Process namespace of the container; empty if there is none.
        host: Name of the machine, or of the container.
        since: Time at which the process opened the log, UTC.
        inode: Inode of the heartbeat file, by which a copy of the file is recognized.
    """

    pid: int
    started: str
    boot: str
    namespace: str
    host: str
    since: str
    inode: int

    @property
    def is_own(self) -> bool:
        """The writer is this process."""
        return self.pid == os.getpid() and self.started == _started_at(self.pid)

    def __str__(self) -> str:
        if self.is_own:
            return f"this process ({self.pid} at {self.host})"
        return f"process {self.pid} at {self.host}"

    def is_alive(self) -> bool | None:
        """Return whether the process runs; None if this machine cannot determine it."""
        if self.boot != _boot():
            # Without a boot id there is no telling; another one at this host is an earlier boot.
            return False if self.boot and self.host == socket.gethostname() else None
        if not self.started or self.namespace != _namespace():
            return None
        return _started_at(self.pid) == self.started


_UNKNOWN: Final = Writer(0, "", "", "", "another machine", "a time that it does not say", 0)


class Heartbeat:
    """A file beside a log that names the log's writer, and whose time shows that it is alive.

    Args:
        log: Path of the log.
    """

    def __init__(self, log: Path) -> None:
        self.path = log.with_name(f"{log.name}.writer")
        self._descriptor: int | None = None
        self._pid = 0

    def read(self) -> Writer | None:
        """Return the writer named in the file; None if there is no file, or it is a copy."""
        try:
            with self.path.open("rb") as file:
                writer = msgspec.json.decode(file.read(), type=Writer)
                return writer if writer.inode == os.fstat(file.fileno()).st_ino else None
        except OSError:
            return None
        except msgspec.DecodeError:
            return _UNKNOWN

    def is_alive(self, writer: Writer) -> bool:
        """Return whether the writer that the file names is alive.

        Blocks for at most `SILENCE_SECONDS`, and only if the file was renewed within
        `SKEW_SECONDS_MAX` and its process cannot be looked up, as in another container or on
        another machine.
        """
        is_alive = writer.is_alive()
        return self._is_beating() if is_alive is None else is_alive

    def begin(self) -> None:
        """Create the file with this process as the writer, and renew it at intervals.

        Ignore faults.
        """
        self.end()
        if not _CAN_BEAT:  # without a heartbeat, a live writer would look dead
            return
        with suppress(OSError):
            try:
                with whole_file(self.path, is_lasting=False) as draft:
                    descriptor = os.open(draft, os.O_RDWR | os.O_CLOEXEC)
                    self._descriptor, self._pid = descriptor, os.getpid()
                    inode = os.fstat(descriptor).st_ino
                    os.write(descriptor, msgspec.json.encode(_this_process(inode)))
            except OSError:
                self.end()
                raise
            _PULSE.add(self._descriptor)

    def end(self) -> None:
        """Stop renewing the file, and remove it unless it names a later writer; may be repeated."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None or self._pid != os.getpid():  # a forked process is no writer
            return
        _PULSE.remove(descriptor)
        with suppress(OSError):
            mine, named = os.fstat(descriptor), self.path.stat()
            if (mine.st_dev, mine.st_ino) == (named.st_dev, named.st_ino):
                self.path.unlink()
        os.close(descriptor)

    def _is_beating(self) -> bool:
        """Watch whether the file is renewed, unless no clock may be so far behind as its time."""
        last = self._beat_at()
        if last is None or time() - last > SKEW_SECONDS_MAX:
            return False
        until = monotonic() + SILENCE_SECONDS
        while monotonic() < until:
            Event().wait(_LOOK_SECONDS)
            if self._beat_at() != last:
                return self._beat_at() is not None
        return False

    def _beat_at(self) -> float | None:
        try:
            return self.path.stat().st_mtime
        except OSError:
            return None


class _Pulse:
    """The thread that renews the heartbeats of this process, while there are any."""

    def __init__(self) -> None:
        self._descriptors: set[int] = set()
        self._lock = Lock()
        self._end: Event | None = None

    def add(self, descriptor: int) -> None:
        """Renew a file, by its descriptor, from now on."""
        with self._lock:
            self._descriptors.add(descriptor)
            if self._end is None:
                self._end = Event()
                run = partial(self._run, self._end)
                Thread(target=run, name="placet heartbeat", daemon=True).start()

    def remove(self, descriptor: int) -> None:
        """Renew a file no more; it may be closed then."""
        with self._lock:
            self._descriptors.discard(descriptor)
            if not self._descriptors and self._end is not None:
                self._end.set()
                self._end = None

    def _run(self, end: Event) -> None:
        while not end.wait(BEAT_SECONDS):
            with self._lock:  # so that no descriptor is closed, and used again, meanwhile
                for descriptor in self._descriptors:
                    with suppress(OSError):
                        os.utime(descriptor)


_PULSE = _Pulse()


def _forget_after_fork() -> None:
    """Begin anew in a forked process, which has no thread and writes no log of its parent's."""
    _PULSE.__init__()  # type: ignore[misc]  # its lock may be held by a thread that is not here


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)


def _this_process(inode: int) -> Writer:
    pid = os.getpid()
    since = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return Writer(pid, _started_at(pid), _boot(), _namespace(), socket.gethostname(), since, inode)


def _started_at(pid: int) -> str:
    """Return when a process began, in clock ticks since the boot; empty if it is dead."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    state, *fields = stat.rpartition(")")[2].split()  # its name may contain spaces and brackets
    return "" if state in _DEAD_STATES else fields[18]


@cache
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")  # noqa: PTH115  # no file stands behind it
    except OSError:
        return ""
