"""A terminal for the stderr of commands that run in this process."""

import os
import pty
import sys
from contextlib import contextmanager
from threading import Thread


@contextmanager
def terminal():
    """Make stderr a terminal; yield a list that has its output at the end."""
    ours, theirs = pty.openpty()
    shown: list[bytes] = []

    def drain():
        while True:
            try:
                data = os.read(ours, 65536)
            except OSError:  # nobody has the other end open
                return
            shown.append(data)

    reader = Thread(target=drain)
    stderr = sys.stderr
    sys.stderr = os.fdopen(theirs, "w", encoding="utf-8")
    reader.start()
    try:
        yield shown
    finally:
        sys.stderr.close()
        sys.stderr = stderr
        reader.join(10)
        os.close(ours)
