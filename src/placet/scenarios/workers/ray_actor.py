"""The actor that is a worker on Ray; it travels as code, to check a node before it imports placet.

So it imports nothing of placet but what travels too, and everything else inside of its functions.
"""

from collections.abc import Mapping
from typing import Any

from placet.scenarios.on_ray.code_check import problem_here


class RayWorker:
    """A worker on a node of Ray."""

    def __init__(self) -> None:
        self._worker: Any = None

    def join(self, expected: Mapping[str, Any], job: bytes) -> tuple[str, str]:
        """Prepare to work for a run.

        Args:
            expected: As in `problem_here`.
            job: The pickled `Job`.

        Returns:
            The problem of this node with the run, empty if there is none; and the process.
        """
        import os  # noqa: PLC0415  # see above

        import ray  # noqa: PLC0415  # see above

        node = ray.get_runtime_context().get_node_id()[:8]
        where = f"process {os.getpid()} on {ray.util.get_node_ip_address()} ({node})"
        problem = problem_here(expected)
        if problem:
            return problem, where
        from placet.scenarios.workers.job import problem_of  # noqa: PLC0415  # see above
        from placet.scenarios.workers.pickling import loads  # noqa: PLC0415  # see above
        from placet.scenarios.workers.worker import Worker  # noqa: PLC0415  # see above

        run = loads(job)
        problem = problem_of(run)
        if not problem:
            self._worker = Worker(run)
        return problem, where

    def think(self, request: bytes, changes: bytes) -> bytes:
        """Call the policies of the share, and return the pickled `ThinkAnswer`."""
        from placet.scenarios.workers.pickling import loads  # noqa: PLC0415  # see above

        answer: bytes = self._worker.think(loads(request), changes)
        return answer
