"""A command at a pseudo-terminal, and the person before it."""

import os
import pty
import re
import select
import subprocess
import time

from tests.cli.command_line import PLACET

LATEST_SECONDS = 60
PROMPT = "\n> "
HELD = "apply it? [y]es [n]o [e]dit [l]ater: "
CTRL_D = "\x04"
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A command that has a terminal, and the person before it."""

    def __init__(self, *arguments: str, folder) -> None:
        ours, theirs = pty.openpty()
        self._fd, self.shown = ours, "\n"
        self._popen = subprocess.Popen(
            [*PLACET, *arguments],
            cwd=folder,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "TERM": "dumb"},
        )
        os.close(theirs)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._popen.kill()
        self._popen.wait()
        os.close(self._fd)

    def until(self, text: str) -> str:
        """Read until a text is shown, and return the output up to it."""
        latest = time.monotonic() + LATEST_SECONDS
        while text not in self.shown:
            assert self._read(latest - time.monotonic()), f"{text!r} is not in {self.shown!r}"
        before, _, self.shown = self.shown.partition(text)
        return before

    def wait(self) -> None:
        """Wait for output, a tenth of a second at most."""
        self._read(0.1)

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def say(self, text: str, prompt: str = PROMPT) -> None:
        """Wait for a prompt, and answer it."""
        self.until(prompt)
        self.type(f"{text}\n")

    def interrupt(self) -> None:
        """Press Ctrl-C, and a key: a signal just before the read is noticed with the next key."""
        self._popen.send_signal(2)
        self.type("\n")

    def terminate(self) -> None:
        """Send SIGTERM, as a service manager does, and a key."""
        self._popen.send_signal(15)
        self.type("\n")

    def end(self) -> int:
        latest = time.monotonic() + LATEST_SECONDS
        while self._read(latest - time.monotonic()):
            pass
        return self._popen.wait(LATEST_SECONDS)

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._fd], [], [], max(0.0, seconds))
        try:
            data = os.read(self._fd, 65_536) if ready else b""
        except OSError:  # the other side is closed
            return False
        self.shown += ESCAPES.sub("", data.decode()).replace("\r\n", "\n")
        return bool(data)
