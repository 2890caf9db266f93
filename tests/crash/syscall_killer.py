"""Kills a process before its n-th system call that changes a file. Linux on x86-64.

A forked child is traced by `ptrace`, with all its threads, so that also the calls of SQLite and of
Arrow are counted. A kill between two calls leaves the same files as one before the second.
"""

import ctypes
import os
import platform
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Final

IS_SUPPORTED: Final = sys.platform == "linux" and platform.machine() == "x86_64"

_TRACEME, _PEEKUSER, _SYSCALL, _SETOPTIONS = 0, 3, 24, 0x4200
_O_TRACESYSGOOD, _O_TRACECLONE, _O_EXITKILL = 1, 8, 0x100000
_SYSCALL_STOP = signal.SIGTRAP | 0x80
_WALL = 0x40000000
_ORIG_RAX, _RDX, _RSI = (8 * register for register in (15, 12, 13))
_OPEN, _OPENAT = 2, 257
_CHANGING: Final = frozenset(
    # write pwrite64 writev fsync fdatasync truncate ftruncate rename mkdir rmdir creat link unlink
    {1, 18, 20, 74, 75, 76, 77, 82, 83, 84, 85, 86, 87}
    # chmod fchmod mkdirat unlinkat renameat linkat fchmodat fallocate pwritev renameat2
    | {90, 91, 258, 263, 264, 265, 268, 285, 296, 316}
)
_libc: Final = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.restype = ctypes.c_long
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def changes_of(function: Callable[[], None]) -> int:
    """Run a function in a child process, and count its system calls that change a file."""
    return sum(1 for _ in _changes(_traced(function)))


def is_over_before(call: int, function: Callable[[], None]) -> bool:
    """Run a function in a child process that is killed before its `call`-th change of a file.

    Returns:
        Whether the function ended before that many.

    Raises:
        AssertionError: The function raised.
    """
    child = _traced(function)
    for number, _ in enumerate(_changes(child), 1):
        if number == call:
            os.kill(child, signal.SIGKILL)
            _reap(child)
            return False
    return True


def _traced(function: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        _run_traced(function)
    os.waitpid(child, 0)
    _ptrace(_SETOPTIONS, child, _O_TRACESYSGOOD | _O_TRACECLONE | _O_EXITKILL)
    _ptrace(_SYSCALL, child, 0)
    return child


def _run_traced(function: Callable[[], None]) -> None:
    status = 1
    try:
        _libc.ptrace(_TRACEME, 0, None, None)
        os.kill(os.getpid(), signal.SIGSTOP)
        function()
        status = 0
    except BaseException as error:  # noqa: BLE001  # the parent raises for it
        sys.stderr.write(f"{error!r}\n")
    finally:
        os._exit(status)


def _changes(child: int) -> Iterator[None]:
    """Yield at the entry of each system call that changes a file, until the child has ended."""
    inside: set[int] = set()
    while True:
        thread, status = os.waitpid(-1, _WALL)
        if os.WIFEXITED(status) or os.WIFSIGNALED(status):
            if thread == child:
                assert os.WIFEXITED(status), f"the child ended by signal {os.WTERMSIG(status)}"
                assert os.WEXITSTATUS(status) == 0, "the child raised; see stderr"
                return
            continue
        passed_on = os.WSTOPSIG(status)
        if passed_on == _SYSCALL_STOP:
            passed_on = 0
            inside ^= {thread}
            if thread in inside and _is_change(thread):
                yield
        elif passed_on in {signal.SIGTRAP, signal.SIGSTOP}:  # of a new thread
            passed_on = 0
        _ptrace(_SYSCALL, thread, passed_on)


def _is_change(thread: int) -> bool:
    number = _ptrace(_PEEKUSER, thread, 0, _ORIG_RAX)
    if number in {_OPEN, _OPENAT}:
        flags = _ptrace(_PEEKUSER, thread, 0, _RSI if number == _OPEN else _RDX)
        return bool(flags & (os.O_CREAT | os.O_TRUNC))
    return number in _CHANGING


def _reap(child: int) -> None:
    while True:
        try:
            thread, status = os.waitpid(-1, _WALL)
        except ChildProcessError:
            return
        if thread == child and (os.WIFEXITED(status) or os.WIFSIGNALED(status)):
            return


def _ptrace(request: int, pid: int, data: int, address: int = 0) -> int:
    value: int = _libc.ptrace(request, pid, address, data)
    return value
