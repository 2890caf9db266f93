"""Long output on a terminal goes through a pager: `$PAGER`, else `less` if it is installed."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from shlex import split
from typing import Final

_LESS: Final = "FRX"
"""Options of `less`: end at once if all fits on the screen, show colors, leave the text there."""


@contextmanager
def paged() -> Iterator[None]:
    """Send the output of the block through a pager, if stdout is a terminal.

    A pager that the reader quits ends the block without an error.
    """
    command = _pager() if sys.stdout.isatty() else []
    if not command:
        yield
        return
    environment = {"LESS": _LESS, **os.environ}
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, text=True, errors="backslashreplace", env=environment
    )
    stdout = sys.stdout
    assert process.stdin is not None, "it was asked for as a pipe"
    sys.stdout = process.stdin  # what say() writes to
    try:
        with suppress(BrokenPipeError):  # the reader has seen enough
            yield
    finally:
        sys.stdout = stdout
        with suppress(BrokenPipeError):
            process.stdin.close()
        process.wait()


def _pager() -> list[str]:
    """Return the command of the pager; empty for none."""
    command = split(os.environ.get("PAGER", "less"))
    return command if command and shutil.which(command[0]) else []
