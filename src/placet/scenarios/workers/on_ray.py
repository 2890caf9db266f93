"""Workers as actors of Ray, one a slot. Ray's restarts and retries are off: the run replaces them.

Modules of the current folder travel. A node is checked before it works: its versions, and the bytes
of placet and of the installed packages of the policies.
"""

import io
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from functools import partial
from typing import Any, Final

import ray
from ray import cloudpickle, exceptions

from placet.scenarios.on_ray import code_check
from placet.scenarios.on_ray.errors import RayUnusable
from placet.scenarios.on_ray.modules import modules_of
from placet.scenarios.on_ray.session import connected
from placet.scenarios.on_ray.staging import stage_modules
from placet.scenarios.thinking import Workers
from placet.scenarios.values import ScenarioError
from placet.scenarios.workers import ray_actor
from placet.scenarios.workers.job import Job
from placet.scenarios.workers.messages import ThinkRequest
from placet.scenarios.workers.pickling import dumps
from placet.scenarios.workers.transport import (
    START_TIMEOUT_S,
    NotStarted,
    WorkerLost,
    start_again,
)

cloudpickle.register_pickle_by_value(code_check)
cloudpickle.register_pickle_by_value(ray_actor)

_SHARED_BYTES: Final = 65_536
"""Changes of this size are put once into Ray's store of objects, and not sent to each worker."""

by_value: Final[Callable[[object], bytes]] = cloudpickle.dumps


class RayWorkers:
    """The workers of a run on Ray.

    Args:
        job: The run.
        workers: Their number and their place.
        targets: Domains, policies and their classes, whose modules travel.

    Raises:
        ScenarioError: Ray cannot be used, has too few slots, or a node cannot work for the run.
    """

    def __init__(self, job: Job, workers: Workers, targets: Sequence[object]) -> None:
        self._name, self._opened = job.scenario.name, ExitStack()
        self._job = dumps(job)
        self._actors: list[Any] = []
        self._where = [""] * workers.count
        self._shared: tuple[bytes, Any] = b"", None
        try:
            staged = stage_modules(modules_of(targets, ()))
            self._expected = staged.expected
            slots = None if workers.address else workers.count
            log = io.StringIO()
            self._opened.enter_context(
                connected(workers.address, slots=slots, staged=staged, log=log)
            )
            self._require_slots(workers)
            options = {"max_restarts": 0, "max_task_retries": 0, "num_cpus": 1}
            self._class: Any = ray.remote(num_gpus=workers.gpus, **options)(ray_actor.RayWorker)
            self._actors = [self._class.remote() for _ in range(workers.count)]
            joining = [self._join(worker) for worker in range(workers.count)]
            for worker, answer in enumerate(joining):
                self._require_joined(worker, answer)
        except RayUnusable as error:
            self.close()
            raise ScenarioError(self._name, "workers", str(error)) from error
        except BaseException:
            self.close()
            raise

    def call(self, worker: int, request: ThinkRequest, changes: bytes) -> Future[bytes]:
        """Send a request; the future is the pickled answer, or raises `WorkerLost`."""
        sent: Any = changes
        if len(changes) >= _SHARED_BYTES:
            if self._shared[0] is not changes:
                self._shared = changes, ray.put(changes)
            sent = self._shared[1]
        answer: Future[bytes] = Future()
        calling = self._actors[worker].think.remote(dumps(request), sent).future()
        calling.add_done_callback(partial(_settle, answer))
        return answer

    def restart(self, worker: int) -> None:
        """Kill a worker, if it runs, and start another in its place.

        Raises:
            ScenarioError: It cannot be started.
        """

        def start() -> None:
            ray.kill(self._actors[worker], no_restart=True)
            self._actors[worker] = self._class.remote()
            self._require_joined(worker, self._join(worker))

        start_again(start)

    def where(self, worker: int) -> str:
        """Return the process of a worker, for messages."""
        return f"worker {worker + 1} ({self._where[worker]})"

    def close(self) -> None:
        """End all workers, and the Ray that was started for them; harmless if called twice."""
        for actor in self._actors:
            ray.kill(actor, no_restart=True)
        self._actors = []
        self._opened.close()

    def _join(self, worker: int) -> Any:  # noqa: ANN401  # of Ray
        return self._actors[worker].join.remote(self._expected, self._job)

    def _require_joined(self, worker: int, joining: Any) -> None:  # noqa: ANN401  # of Ray
        kind: type[ScenarioError] = NotStarted
        try:
            problem, where = ray.get(joining, timeout=START_TIMEOUT_S)
            kind = ScenarioError
        except exceptions.GetTimeoutError:
            kind = ScenarioError  # one more wait would be as long
            problem, where = f"no node had a free slot for {START_TIMEOUT_S:g} s", f"{worker + 1}"
        except exceptions.RayError as error:
            problem, where = _line(error), f"{worker + 1}"
        if problem:
            text = f"the worker {where} of Ray cannot run this: {problem}"
            raise kind(self._name, "workers", text)
        self._where[worker] = where

    def _require_slots(self, workers: Workers) -> None:
        found = ray.cluster_resources()
        for noun, needed, key in (
            ("slots", workers.count, "CPU"),
            ("GPUs", workers.count * workers.gpus, "GPU"),
        ):
            if needed > found.get(key, 0):
                problem = (
                    f"{workers.count} workers need {needed:g} {noun}, and Ray has "
                    f"{found.get(key, 0):g}; use fewer workers, or add nodes"
                )
                raise ScenarioError(self._name, "workers", problem)


def _settle(answer: Future[bytes], calling: Future[bytes]) -> None:
    """Pass on the outcome of a call; every fault of Ray is that of a lost worker."""
    error = calling.exception()
    if error is None:
        answer.set_result(calling.result())
    elif not isinstance(error, exceptions.RayError):
        answer.set_exception(error)
    else:
        answer.set_exception(WorkerLost(f"{type(error).__name__}: {_line(error)}"))


def _line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
