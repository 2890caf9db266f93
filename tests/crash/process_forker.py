"""A warm process that forks lives: a child that may kill itself, or be killed, costs milliseconds.

Forking the test process itself would copy its threads' locks; starting python anew would pay the
imports each time. So a zygote imports once, has no thread, and forks when it is told to. A child
tells what it saw through a pipe, one JSON line at a time, before it does anything else. The end of
the pipe is the end of the child: the system closes it when the last thread is gone.
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

Told = dict[str, Any]
"""One line of a child: `what`, and what belongs to it."""


class Report:
    """The child's end of the pipe. What was told has left the process."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    def tell(self, what: str, **data: Any) -> None:
        line = json.dumps({"what": what, **data}).encode() + b"\n"
        while line:
            line = line[os.write(self._pipe, line) :]


class Life:
    """The parent's end: one forked child.

    Attributes:
        pid: Of the child.
        told: What it has told so far. A line that death cut short was not told.
    """

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._rest = b""
        self._heard = 0  # how many of the lines somebody has listened to
        self.told: list[Told] = []
        self.is_over = False
        first = next(self.listen(SILENCE_SECONDS_MAX), None)
        assert first is not None, "the child did not begin"
        self.pid: int = first["pid"]

    def listen_for(self, seconds: float) -> None:
        """Listen so long, or to the end."""
        until = monotonic() + seconds
        while not self.is_over and (left := until - monotonic()) > 0:
            for _ in self.listen(left):
                if monotonic() >= until:
                    break

    def listen(self, seconds_max: float) -> Iterator[Told]:
        """Give what is told until it is silent for so long, or over.

        Who breaks off leaves the rest to the next who listens: several lines may come at once.
        """
        while self._heard < len(self.told) or self._read(seconds_max):
            if self._heard < len(self.told):
                self._heard += 1
                yield self.told[self._heard - 1]

    def _read(self, seconds_max: float) -> bool:
        """Read on; False where it is silent for so long, or over."""
        if self.is_over or not select([self._pipe], [], [], seconds_max)[0]:
            return False
        data = os.read(self._pipe, 1 << 16)
        if not data:
            self.is_over = True
            os.close(self._pipe)
            return False
        *lines, self._rest = (self._rest + data).split(b"\n")
        self.told += [json.loads(line) for line in lines]
        return True

    def wait(self) -> list[Told]:
        """Wait for the end and give all that was told.

        Raises:
            AssertionError: It neither ended nor said anything for long, or it raised.
        """
        for _ in self.listen(SILENCE_SECONDS_MAX):
            pass
        if not self.is_over:
            self.kill()
            raise AssertionError(f"a life hangs; it told {self.told[-3:]}")
        raised = [line["trace"] for line in self.told if line["what"] == "raised"]
        assert not raised, f"a life raised:\n{raised[0]}"
        return self.told

    def wait_for(self, what: str) -> Told:
        """Wait until the child tells something of a name."""
        for line in self.listen(SILENCE_SECONDS_MAX):
            if line["what"] == what:
                return line
        raise AssertionError(f"no {what!r} was told, but {self.told[-3:]}")

    def kill(self) -> list[Told]:
        """Kill it, wait until it is gone, and give all that was told."""
        self.signal(signal.SIGKILL)
        for _ in self.listen(SILENCE_SECONDS_MAX):
            pass
        assert self.is_over, "a killed child does not go"
        return self.told

    def stop(self) -> None:
        """Stop it in its tracks, and hear all that it told before."""
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


class Zygote:
    """Forks children that run functions of the modules it has imported. A context manager.

    Args:
        modules: To import before forking.
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

    def fork(self, function: str, /, **arguments: Any) -> Life:
        """Run `module:function(report, **arguments)` in a child of its own."""
        request = json.dumps([function, arguments]).encode()
        assert len(request) < REQUEST_BYTES_MAX
        ours, theirs = os.pipe()
        socket.send_fds(self._socket, [request], [theirs])
        os.close(theirs)
        return Life(ours)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        self._process.wait(SILENCE_SECONDS_MAX)


def _child(pipe: int, request: bytes) -> None:
    report = Report(pipe)
    report.tell("began", pid=os.getpid())
    try:
        function, arguments = json.loads(request)
        pkgutil.resolve_name(function)(report, **arguments)
    except BaseException:  # noqa: BLE001  # told to the parent, whose test fails of it
        report.tell("raised", trace=traceback.format_exc())
    finally:
        os._exit(0)


def main(inherited: int, modules: Sequence[str]) -> None:
    """Import, then fork a child for each request, until the parent is gone."""
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
