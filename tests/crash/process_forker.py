"""A warm process that forks children, so that a child which is killed costs only milliseconds.

Forking the test process itself would copy its threads' locks; starting Python anew would pay the
imports each time. So the forker imports once, has no thread, and forks on request. A child sends
messages through a pipe, one JSON line at a time, before its next step. The end of the pipe is
the end of the child: the system closes it when the last thread is gone.
"""

import gc
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from select import select
from time import monotonic
from typing import Any, Self

ROOT = Path(__file__).parents[2]
REQUEST_BYTES_MAX = 65_536
SILENCE_SECONDS_MAX = 60.0

Message = dict[str, Any]
"""One line of a child: `what`, and what belongs to it."""


class Report:
    """The child's end of the pipe. A sent message has left the process."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    def send(self, what: str, **data: Any) -> None:
        line = json.dumps({"what": what, **data}).encode() + b"\n"
        while line:
            line = line[os.write(self._pipe, line) :]


class ChildProcess:
    """The parent's end: one forked child.

    Attributes:
        pid: Process id of the child.
        messages: The messages received so far, without one that the kill cut short.
    """

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._rest = b""
        self._delivered = 0  # how many of the lines somebody has listened to
        self.messages: list[Message] = []
        self.is_over = False
        first = next(self.listen(SILENCE_SECONDS_MAX), None)
        assert first is not None, "the child did not begin"
        self.pid: int = first["pid"]

    def listen_for(self, seconds: float) -> None:
        """Receive messages for some seconds, or until the child ends."""
        until = monotonic() + seconds
        while not self.is_over and (left := until - monotonic()) > 0:
            for _ in self.listen(left):
                if monotonic() >= until:
                    break

    def listen(self, seconds_max: float) -> Iterator[Message]:
        """Yield messages until the child is silent for so long, or has ended.

        Several messages may arrive at once; those not consumed are yielded by the next call.
        """
        while self._delivered < len(self.messages) or self._read(seconds_max):
            if self._delivered < len(self.messages):
                self._delivered += 1
                yield self.messages[self._delivered - 1]

    def _read(self, seconds_max: float) -> bool:
        """Read more; False if the child is silent for so long, or has ended."""
        if self.is_over or not select([self._pipe], [], [], seconds_max)[0]:
            return False
        data = os.read(self._pipe, 1 << 16)
        if not data:
            self.is_over = True
            os.close(self._pipe)
            return False
        *lines, self._rest = (self._rest + data).split(b"\n")
        self.messages += [json.loads(line) for line in lines]
        return True

    def wait(self) -> list[Message]:
        """Wait for the end and return all messages.

        Raises:
            AssertionError: The child hangs, or raised.
        """
        for _ in self.listen(SILENCE_SECONDS_MAX):
            pass
        if not self.is_over:
            self.kill()
            raise AssertionError(f"a child hangs; its last messages are {self.messages[-3:]}")
        raised = [line["trace"] for line in self.messages if line["what"] == "raised"]
        assert not raised, f"a child raised:\n{raised[0]}"
        return self.messages

    def wait_for(self, what: str) -> Message:
        """Wait for a message of a name."""
        for line in self.listen(SILENCE_SECONDS_MAX):
            if line["what"] == what:
                return line
        raise AssertionError(f"no message {what!r} was received, but {self.messages[-3:]}")

    def kill(self) -> list[Message]:
        """Kill the child, wait for its end, and return all messages."""
        self.signal(signal.SIGKILL)
        for _ in self.listen(SILENCE_SECONDS_MAX):
            pass
        assert self.is_over, "a killed child does not go"
        return self.messages

    def stop(self) -> None:
        """Stop the child with SIGSTOP, and receive everything it sent before."""
        self.signal(signal.SIGSTOP)
        state, latest = "", monotonic() + SILENCE_SECONDS_MAX
        while not state.startswith("T"):
            assert monotonic() < latest, f"a stopped child is {state!r}"
            asked = ["ps", "-o", "state=", "-p", str(self.pid)]
            state = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
        for _ in self.listen(0):
            pass

    def signal(self, number: int) -> None:
        if not self.is_over:
            os.kill(self.pid, number)


class ProcessForker:
    """Forks children that run functions of the modules it has imported. A context manager.

    Args:
        modules: Modules to import before forking.
    """

    def __init__(self, modules: Sequence[str]) -> None:
        self._socket, theirs = socket.socketpair()
        # A killed child writes no coverage, and tracing would only slow it down.
        environment = {k: v for k, v in os.environ.items() if not k.startswith("COVERAGE_PROCESS")}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.process_forker", str(theirs.fileno()), *modules],
            cwd=ROOT,
            env=environment,
            pass_fds=[theirs.fileno()],
        )
        theirs.close()

    def fork(self, function: str, /, **arguments: Any) -> ChildProcess:
        """Run `module:function(report, **arguments)` in a child process."""
        request = json.dumps([function, arguments]).encode()
        assert len(request) < REQUEST_BYTES_MAX
        ours, theirs = os.pipe()
        socket.send_fds(self._socket, [request], [theirs])
        os.close(theirs)
        return ChildProcess(ours)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        self._process.wait(SILENCE_SECONDS_MAX)


def _child(pipe: int, request: bytes) -> None:
    report = Report(pipe)
    report.send("began", pid=os.getpid())
    try:
        function, arguments = json.loads(request)
        pkgutil.resolve_name(function)(report, **arguments)
    except BaseException:  # noqa: BLE001  # messages to the parent, whose test fails of it
        report.send("raised", trace=traceback.format_exc())
    finally:
        os._exit(0)


def main(inherited: int, modules: Sequence[str]) -> None:
    """Import the modules, then fork a child for each request, until the parent is gone."""
    for module in modules:
        pkgutil.resolve_name(module)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombies: the pipe says when a child is gone
    gc.freeze()
    with socket.socket(fileno=inherited) as parent:
        while True:
            request, pipes, _, _ = socket.recv_fds(parent, REQUEST_BYTES_MAX, 1)
            if not request:
                return
            (pipe,) = pipes
            if os.fork() == 0:
                parent.detach()
                os.close(inherited)
                _child(pipe, request)
            os.close(pipe)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
