"""A real PostgreSQL server of the tests' own: in a temporary folder, on a socket in it, no port.

`TEST_POSTGRES_BIN` names the folder of the binaries; else the newest that Debian has installed,
or those on PATH. Where there are none the tests skip; with `TEST_POSTGRES_REQUIRED=1`, which
`.ci/run` sets, they fail.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any, Final, Self
from urllib.parse import quote, urlencode

import psycopg

_USER: Final = "placet"
_SECONDS_MAX: Final = 60
_MEMORY: Final = Path("/dev/shm")
_ROOM_BYTES_MIN: Final = 2 << 30
_NUMBERS: Final = count(1)
# A server that is stopped at once loses nothing that it gave to the system, whatever it is on.
_SETTINGS: Final = {
    "listen_addresses": "''",
    "max_connections": "100",
    "shared_buffers": "32MB",
    "full_page_writes": "off",
    "log_min_messages": "error",
    "max_wal_senders": "0",
    "wal_level": "minimal",
}


def binaries() -> Path | None:
    """Return the folder of the server's programs."""
    named = os.environ.get("TEST_POSTGRES_BIN")
    folders = [Path(named)] if named else []
    installed = Path("/usr/lib/postgresql").glob("*/bin")
    folders += sorted(installed, key=lambda path: int(re.sub(r"\D", "", path.parent.name)))[::-1]
    on_path = shutil.which("initdb")
    folders += [Path(on_path).parent] if on_path else []
    return next((folder for folder in folders if (folder / "postgres").exists()), None)


def is_required() -> bool:
    return os.environ.get("TEST_POSTGRES_REQUIRED") == "1"


class Server:
    """One PostgreSQL server. A context manager.

    Args:
        programs: The folder of its binaries.
        settings: Beside those of all tests.
        room: In which folder to make its own; None is one in memory.
        password: Of its one user; None lets everybody in.
    """

    def __init__(
        self,
        programs: Path,
        settings: Mapping[str, str] | None = None,
        *,
        room: Path | None = None,
        password: str | None = None,
    ) -> None:
        self.programs = programs
        self._settings = {**_SETTINGS, **(settings or {})}
        # Root may not run a server: it gives the folder away, and lets the other user run it.
        self._other: dict[str, Any] = {"user": _somebody()} if os.geteuid() == 0 else {}
        self.folder = Path(tempfile.mkdtemp(prefix="placet-pg-", dir=room or _room()))
        self._password = password
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            if self._other:
                shutil.chown(self.folder, **self._other)
            self._run("initdb", "-D", self.data, "-U", _USER, "-N", "-E", "UTF8", *self._lock())
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _lock(self) -> tuple[object, ...]:
        if self._password is None:
            return ("-A", "trust")
        file = self.folder / "password"
        file.write_text(self._password)
        file.chmod(0o644)  # the folder is the server's own
        return ("-A", "scram-sha-256", f"--pwfile={file}")

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = [f"-c{name}={value.strip(chr(39))}" for name, value in self._settings.items()]
        folder = ["-k", str(self.folder)]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self.programs / "postgres", "-D", self.data, *folder, *options],
                stdout=log,
                stderr=log,
                cwd="/",
                **self._other,
            )
        self._run("pg_isready", "-q", "-h", self.folder, "-U", _USER, until=True)

    def stop(self, how: str = "immediate") -> None:
        """Stop it: `immediate` is a crash, from which it recovers when it is started again."""
        process, self._process = self._process, None
        if process is not None:
            self._run("pg_ctl", "-D", self.data, "-m", how, "-W", "stop")
            process.wait(_SECONDS_MAX)

    def url(
        self, world: str | None = None, *, database: str = "postgres", **options: object
    ) -> str:
        """Name a world in it; None is a new one."""
        name = world or f"w{next(_NUMBERS)}"
        query = {"host": self.folder, "user": _USER, "world": name, **options}
        return f"postgresql:///{database}?{urlencode(query, safe='/', quote_via=quote)}"

    def connect(self, database: str = "postgres") -> psycopg.Connection[Any]:
        """Open a session of the superuser."""
        return psycopg.connect(
            host=str(self.folder),
            user=_USER,
            password=self._password,
            dbname=database,
            autocommit=True,
        )

    def end_sessions(self, role: str, world: str) -> int:
        """End the sessions that a role has in a world, as a network that fails would."""
        with self.connect() as connection:
            ended = connection.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                " WHERE application_name = %s",
                (f"placet {role} {world}",),
            )
            return len(ended.fetchall())

    def _run(self, program: str, *arguments: object, until: bool = False) -> None:
        command = [str(one) for one in (self.programs / program, *arguments)]
        said = ""
        for _ in range(600 if until else 1):
            done = subprocess.run(
                command,
                check=False,
                capture_output=True,
                cwd="/",
                timeout=_SECONDS_MAX,
                **self._other,
            )
            if done.returncode == 0:
                return
            said = done.stderr.decode()
            if until:
                Event().wait(0.05)
        raise AssertionError(f"{program} failed: {said}{self._last_words()}")

    def _last_words(self) -> str:
        log = self.folder / "log"
        return log.read_text()[-2_000:] if log.exists() else ""


def _room() -> Path | None:
    """Choose a folder in memory, where there is a large one: a killed process loses nothing."""
    if not _MEMORY.is_dir() or shutil.disk_usage(_MEMORY).free < _ROOM_BYTES_MIN:
        return None
    return _MEMORY


def _somebody() -> str:
    users = Path("/etc/passwd").read_text().split("\n")
    return "postgres" if any(line.startswith("postgres:") for line in users) else "nobody"
