"""A run in a process that the player has started, and steers by lines of its standard input."""

import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from threading import Lock, Thread
from typing import IO, Final

from placet.schemas.codec import Json, to_json

_LINES_KEPT: Final = 20
_LAST_LINES_S: Final = 0.2
"""How long a reader of a failure waits for its last lines; it may be in an event loop."""
_LAST_TICK_S: Final = 30.0
"""A run that is told to end completes its tick; one that takes longer is terminated."""


class RunProcess:
    """The process of a run; it ends after its tick when the player closes it, or has ended.

    Args:
        arguments: Arguments of `placet run`.
        first: The first line of its standard input; None for none.
    """

    def __init__(self, arguments: Sequence[str], first: Json = None) -> None:
        command = [sys.executable, "-P", "-m", "placet", "run", "--steered", "--no-verify"]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            [*command, "--json", *arguments],
            stdin=pipe,
            stdout=subprocess.DEVNULL,
            stderr=pipe,
            text=True,
        )
        self._sending = Lock()
        self._lines: deque[str] = deque(maxlen=_LINES_KEPT)
        self._reader = Thread(target=self._read, args=(self._process.stderr,), daemon=True)
        self._reader.start()
        if first is not None:
            self.send(first)

    def send(self, command: Json) -> None:
        """Send a line; a run that has ended reads none."""
        pipe = self._process.stdin
        assert pipe is not None
        with self._sending, suppress(BrokenPipeError, ValueError):
            pipe.write(to_json(command).decode() + "\n")
            pipe.flush()

    @property
    def is_running(self) -> bool:
        """Whether the run has not ended."""
        return self._process.poll() is None

    @property
    def problem(self) -> str:
        """The last message of a run that failed; empty if it has not failed."""
        if not self._process.poll():
            return ""
        self._reader.join(_LAST_LINES_S)
        return next((line for line in reversed(self._lines) if line.strip()), "") or (
            f"it ended with code {self._process.returncode}"
        )

    def close(self) -> None:
        """End the run after its tick, and wait for it."""
        with self._sending, suppress(BrokenPipeError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        try:
            self._process.wait(_LAST_TICK_S)
        except subprocess.TimeoutExpired:
            self._process.terminate()
            self._process.wait()

    def _read(self, lines: IO[str]) -> None:
        with lines:
            self._lines.extend(line.rstrip("\n") for line in lines)
