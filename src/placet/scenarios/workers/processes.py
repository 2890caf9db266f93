"""Workers as processes of this machine, with a pipe each.

A thread for each worker waits at its pipe, so that a stopped worker cannot block the run: neither
in a send nor in a receive. A worker ends with its run, also where that is killed.
"""

import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from queue import SimpleQueue
from typing import Final, TypeAlias

from placet.scenarios.values import ScenarioError
from placet.scenarios.workers.job import Job, problem_of
from placet.scenarios.workers.messages import ThinkRequest
from placet.scenarios.workers.pickling import dumps, loads
from placet.scenarios.workers.starting import safe_path, without_main
from placet.scenarios.workers.transport import (
    START_TIMEOUT_S,
    NotStarted,
    WorkerLost,
    start_again,
)
from placet.scenarios.workers.worker import Worker
from placet.stores.gc_tuning import tune_gc

_END_S: Final = 5.0

_Call: TypeAlias = "tuple[tuple[bytes, ...], Future[bytes]]"


class Processes:
    """The workers of a run as processes of this machine.

    Args:
        job: The run.
        count: Number of workers.

    Raises:
        ScenarioError: A worker cannot be started, or cannot work for the run.
    """

    def __init__(self, job: Job, count: int) -> None:
        self._name, self._job = job.scenario.name, dumps(job)
        self._all: list[_Process] = []
        try:
            self._all += [_Process(number, self._job) for number in range(count)]
            for process in self._all:
                self._require_started(process)
        except BaseException:
            self.close()
            raise

    def call(self, worker: int, request: ThinkRequest, changes: bytes) -> Future[bytes]:
        """Send a request; the future is the pickled answer, or raises `WorkerLost`."""
        return self._all[worker].call(dumps(request), changes)

    def restart(self, worker: int) -> None:
        """Kill a worker, if it runs, and start another in its place.

        Raises:
            ScenarioError: It cannot be started.
        """

        def start() -> None:
            self._all[worker].end()
            self._all[worker] = _Process(worker, self._job)
            self._require_started(self._all[worker])

        start_again(start)

    def where(self, worker: int) -> str:
        """Return the process of a worker, for messages."""
        return f"worker {worker + 1} (process {self.pid(worker)})"

    def pid(self, worker: int) -> int | None:
        """Return the id of the process of a worker."""
        return self._all[worker].pid

    def close(self) -> None:
        """End all workers, also in the middle of a call; harmless if called twice."""
        for process in self._all:
            process.end()
        self._all = []

    def _require_started(self, process: "_Process") -> None:
        kind: type[ScenarioError] = NotStarted
        try:
            problem = process.started.result(START_TIMEOUT_S).decode()
            kind = ScenarioError
        except TimeoutError:
            problem = f"it did not start in {START_TIMEOUT_S:g} s"
        except WorkerLost as error:
            problem = str(error)
        if problem:
            where = f"the worker process {process.pid}"
            raise kind(self._name, "workers", f"{where} cannot run this: {problem}")


class _Process:
    """One worker.

    Attributes:
        pid: Id of its process.
        started: Done when it has joined the run: its problem with it, empty if there is none.
    """

    def __init__(self, number: int, job: bytes) -> None:
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        name = f"placet-worker-{number + 1}"
        self._process = context.Process(target=_serve, args=(theirs,), name=name, daemon=True)
        with without_main(), safe_path(), _without_interrupts():
            self._process.start()
        theirs.close()
        self.pid = self._process.pid
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        # Not one of an executor: the end of a script would wait for it before a worker is ended.
        self._thread = threading.Thread(target=self._answer_calls, name=name, daemon=True)
        self._thread.start()
        self.started = self.call(job)

    def call(self, *parts: bytes) -> Future[bytes]:
        """Send the parts of a message; the future is the answer, or raises `WorkerLost`."""
        answer: Future[bytes] = Future()
        self._calls.put((parts, answer))
        return answer

    def end(self) -> None:
        """Kill the process, and release what belongs to it."""
        self._process.kill()
        self._process.join(_END_S)
        self._calls.put(None)
        # A process that the policy started may still hold the other end.
        with suppress(OSError), socket.socket(fileno=os.dup(self._pipe.fileno())) as ours:
            ours.shutdown(socket.SHUT_RDWR)
        self._thread.join(_END_S)
        self._pipe.close()

    def _answer_calls(self) -> None:
        while (call := self._calls.get()) is not None:
            parts, answer = call
            try:
                answer.set_result(self._exchange(parts))
            except WorkerLost as error:
                answer.set_exception(error)

    def _exchange(self, parts: tuple[bytes, ...]) -> bytes:
        try:
            for part in parts:
                self._pipe.send_bytes(part)
            return self._pipe.recv_bytes()
        except (EOFError, OSError) as error:
            self._process.join(_END_S)
            raise WorkerLost(f"it ended with exit code {self._process.exitcode}") from error


def _serve(pipe: Connection) -> None:
    """Work for a run until it closes the pipe, or ends; Ctrl-C is for the run."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    parent = parent_process()
    assert parent is not None, "a worker is started by a run"
    threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()
    tune_gc()
    with suppress(EOFError, OSError):  # the run has ended
        job: Job = loads(pipe.recv_bytes())
        problem = problem_of(job)
        pipe.send_bytes(problem.encode())
        if problem:
            return
        think = Worker(job).think
        while True:
            request = loads(pipe.recv_bytes())
            answer = think(request, pipe.recv_bytes())
            for stream in (sys.stdout, sys.stderr):  # the run may kill this process then
                with suppress(OSError, ValueError, AttributeError):
                    stream.flush()
            pipe.send_bytes(answer)


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Keep Ctrl-C from processes that are started meanwhile, until they take it back."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
