"""A terminal for the stderr of commands that run in this process."""

import os
import pty
import select
import sys
from contextlib import contextmanager
from threading import Event, Thread

POLL_SECONDS = 0.02


@contextmanager
def terminal():
    """Make stderr a terminal; yield a list that has its output at the end.

    The reader does not wait for the end of the terminal: a process that the command forked, such as
    the fork server of `multiprocessing`, may hold the other end open.
    """
    ours, theirs = pty.openpty()
    shown: list[bytes] = []
    is_over = Event()

    def drain():
        while True:
            was_over = is_over.is_set()
            if not select.select([ours], [], [], POLL_SECONDS)[0]:
                if was_over:
                    return
                continue
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
        is_over.set()
        reader.join()
        os.close(ours)
