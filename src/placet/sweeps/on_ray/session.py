"""Opens Ray for one sweep, quietly, and closes it."""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from pathlib import Path
from typing import Final

from placet.scenarios.on_ray.errors import RayUnusable
from placet.scenarios.on_ray.session import connected, require_ray
from placet.scenarios.on_ray.staging import Staged
from placet.stores.files import make_folder, opened_private
from placet.sweeps.errors import LabError
from placet.sweeps.on_ray.staging import stage
from placet.sweeps.plan import SweepPlan
from placet.sweeps.pools import Pools
from placet.sweeps.study import RAY_LOG, writing

_CALLS_PER_SLOT: Final = 16


@contextlib.contextmanager
def ray_session(
    address: str | None, *, jobs: int | None, staged: Staged, folder: Path
) -> Iterator[None]:
    """Return a context in which Ray is connected.

    Args:
        address: `HOST:PORT` of a cluster's head; None starts a Ray of this sweep alone.
        jobs: Number of slots of that own Ray.
        staged: The files for the workers.
        folder: The study's folder, which gets Ray's messages.

    Raises:
        LabError: Ray cannot be started or reached.
    """
    with writing(folder):
        make_folder(folder)
        log = os.fdopen(opened_private(folder / RAY_LOG, os.O_WRONLY | os.O_APPEND), "a")
    # Ray prints about its workers on stdout, whatever `log_to_driver` says.
    with (
        _as_lab_errors(),
        log,
        contextlib.redirect_stdout(log),
        connected(address, slots=jobs, staged=staged, log=log),
    ):
        yield


@contextlib.contextmanager
def _as_lab_errors() -> Iterator[None]:
    try:
        yield
    except RayUnusable as error:
        raise LabError(str(error)) from error


def staged_for(plan: SweepPlan, address: str | None, ship: Iterable[Path]) -> Staged:
    """Return what travels to the workers of a sweep on Ray.

    Raises:
        LabError: Ray cannot be used, or the runs cannot be executed there.
    """
    for spec in plan.outcomes:
        if spec.startswith("__main__:"):
            raise LabError(
                f"a worker of Ray cannot import {spec}: move the function into a module of the "
                "current folder, which goes along"
            )
    with _as_lab_errors():
        require_ray(address)
    return stage(plan, ship)


class RayPools(Pools):
    """Makes executors on the connected Ray.

    Args:
        staged: Code that the workers must have.
        jobs: Number of slots to use; None is all of the cluster.
        timeout_s: Longest time of a run, seconds; None is unlimited.
        on_notice: Called with a message when there is no free slot for a minute.
    """

    is_apart = True

    def __init__(
        self,
        staged: Staged,
        *,
        jobs: int | None,
        timeout_s: float | None,
        on_notice: Callable[[str], None],
    ) -> None:
        from placet.sweeps.on_ray.executor import RayExecutor  # noqa: PLC0415  # imports Ray

        self._class = RayExecutor
        self._staged, self._jobs, self._timeout_s = staged, jobs, timeout_s
        self._on_notice = on_notice
        self._executor: RayExecutor | None = None

    def make(self, *, is_alone: bool) -> Executor:
        """Return a new executor; of one slot and one call at a time if a run must be alone."""
        self._executor = self._class(
            self._staged.expected,
            timeout_s=self._timeout_s,
            slots=1 if is_alone else self._jobs,
            calls_max=1 if is_alone else None,
            on_notice=self._on_notice,
        )
        return self._executor

    def window(self) -> int:
        """Return how many runs may be submitted at once."""
        slots = 1 if self._executor is None else self._executor.slots
        return max(64, _CALLS_PER_SLOT * slots)
