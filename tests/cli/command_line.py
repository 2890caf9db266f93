"""The command line as the tests call it: in this process or in a separate one."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from placet.cli.app import run_command

PLACET = [sys.executable, "-m", "placet"]
TOWN = ("town", "--agents", "20", "--ticks", "5")


class Outcome(NamedTuple):
    """The exit code and output of a command."""

    code: int
    out: str
    err: str

    def json(self):
        """Read the one document that must be on stdout."""
        return json.loads(self.out)


class CommandLine:
    """Calls commands in an empty folder."""

    def __init__(self, capture, folder: Path) -> None:
        self._capture = capture
        self.folder = folder

    def __call__(self, *arguments: str) -> Outcome:
        self._capture.readouterr()
        code = run_command(arguments)
        out, err = self._capture.readouterr()
        return Outcome(code, out, err)


def run_process(*arguments, folder, stdin=b"", **environment) -> Outcome:
    """Run a command in a separate process."""
    done = subprocess.run(
        [*PLACET, *arguments],
        cwd=folder,
        input=stdin,
        capture_output=True,
        check=False,
        env={**os.environ, **environment},
    )
    return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())


class Process:
    """A command that runs beside the test, and the three streams the test holds."""

    def __init__(self, *arguments: str, folder: Path) -> None:
        pipe = subprocess.PIPE
        self._popen = subprocess.Popen(
            [*PLACET, *arguments],
            cwd=folder,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            env={**os.environ, "PYTHONFAULTHANDLER": "1"},  # for `stacks`
        )
        assert self._popen.stdin
        assert self._popen.stdout
        assert self._popen.stderr
        self.stdin, self.out, self.err = self._popen.stdin, self._popen.stdout, self._popen.stderr

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with self._popen:  # waits, and closes the streams
            self._popen.kill()

    @property
    def process_id(self) -> int:
        """Its number in the system."""
        return self._popen.pid

    def tell(self, *values) -> None:
        """Write values as JSON lines, and let them go."""
        self.stdin.write(as_lines(*values))
        self.stdin.flush()

    def send_signal(self, number: int) -> None:
        """Send it, as a shell does."""
        self._popen.send_signal(number)

    def wait(self) -> int:
        """Wait for the end and give the exit code."""
        return self._popen.wait()

    def stacks(self) -> str:
        """End a process that hangs, and return its stderr with the stacks of its threads."""
        self._popen.send_signal(signal.SIGABRT)
        return self.end().err

    def end(self) -> Outcome:
        """Wait for the end and read the remaining output."""
        out, err = self._popen.communicate()
        return Outcome(self._popen.returncode, out.decode(), err.decode())


def as_lines(*values) -> bytes:
    """Write values as JSON lines."""
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def move(agent_id="ann", number=0, to=(1.0, 2.0, 0.0), **more):
    """Make a Move as a client of the gate writes it."""
    return {
        "kind": "Move",
        "payload": {"to": list(to)},
        "agent_id": agent_id,
        "req_id": f"{agent_id}:{number}",
        "context_seq": 0,
        "priority": 10,
        "schema_version": "1.0.0",
        **more,
    }
