"""Asks the operating system whether any process has a SQLite file open.

Takes no lock, and changes no file.

A process with an open log holds a shared lock on its file. The query runs in a separate process: a
process that closes a file loses all its locks on it, and this one may have a world open.

Source: https://www.sqlite.org/lockingv3.html; the bytes are those of `PENDING_BYTE` in its `os.h`.
"""

import fcntl
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Final

_FIRST_BYTE: Final = 1 << 30
_BYTES: Final = 512
# The C library's `struct flock`; its fields stand in another order on the BSDs, and so on macOS.
_IS_LINUX: Final = sys.platform == "linux"
_FLOCK: Final = struct.Struct("@hhqqi" if _IS_LINUX else "@qqihh")
_SECONDS_MAX: Final = 30.0


def is_locked(path: Path) -> bool:
    """Return whether any process, including this one, holds a SQLite lock on a file.

    Raises:
        OSError: The file cannot be read, or the helper process failed; the message has its output.
    """
    # By its file, because importing it by its name would load the package.
    command = [sys.executable, "-I", "-S", __file__, str(path)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_SECONDS_MAX, check=False)
    except subprocess.TimeoutExpired:
        raise OSError(f"no answer within {_SECONDS_MAX:g} s") from None
    if done.returncode != 0:
        raise OSError(done.stderr.decode(errors="replace").strip().rpartition("\n")[2])
    return done.stdout == b"locked"


def _answer(path: Path) -> None:
    with path.open("rb") as file:
        sys.stdout.write("locked" if _is_locked(file.fileno()) else "free")


def _is_locked(descriptor: int) -> bool:
    start_type = (fcntl.F_WRLCK, os.SEEK_SET)
    question = (
        _FLOCK.pack(*start_type, _FIRST_BYTE, _BYTES, 0)
        if _IS_LINUX
        else _FLOCK.pack(_FIRST_BYTE, _BYTES, 0, *start_type)
    )
    answer = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, question))
    return bool(answer[0 if _IS_LINUX else 3] != fcntl.F_UNLCK)


if __name__ == "__main__":
    _answer(Path(sys.argv[1]))
