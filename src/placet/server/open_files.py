"""Shares the open files of the process among connections and worlds, before it runs out of them.

Without a free file descriptor a server cannot accept a connection, and a store not open its files.
So the number of connections and of worlds in files is bounded by the files that the process has.
"""

import errno
import os
from typing import Final

from placet.schemas.limits import HttpLimits

FILES_PER_WORLD: Final = 6
"""Open files of a world in a file: the database twice, its -wal, -shm and .writer; and one more
while it is opened, or writes a snapshot.
"""

_OTHER_FILES: Final = 128
"""Files of the process besides: the configured world, forks, pipes to processes, libraries."""


def share_open_files(limits: HttpLimits, worlds_max: int = 0) -> tuple[int, int]:
    """Allow the process as many files as it needs, or lower the bounds to the files that it has.

    Worlds have at most half of the files, and connections the rest.

    Args:
        limits: Bounds of the server.
        worlds_max: Number of worlds in files that the server may open beside the configured world.

    Returns:
        Number of connections that may be open, and of worlds in files beside the configured one.
    """
    wanted = limits.connections_max + worlds_max * FILES_PER_WORLD + _OTHER_FILES
    files = _allow(wanted) - _OTHER_FILES
    worlds_max = max(min(worlds_max, files // 2 // FILES_PER_WORLD), 0)
    connections_max = max(files - worlds_max * FILES_PER_WORLD, 1)
    return min(limits.connections_max, connections_max), worlds_max


def why_no_file() -> str | None:
    """Return the reason why the process cannot open a file now; None if it can."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        if error.errno in {errno.EMFILE, errno.ENFILE}:
            return f"the server has no free file descriptor ({error.strerror}): raise `ulimit -n`"
        raise
    return None


def _allow(wanted: int) -> int:
    """Raise the process's limit of open files to `wanted` if that is possible; return the limit."""
    try:
        import resource  # noqa: PLC0415  # there is none for Windows
    except ModuleNotFoundError:
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft
