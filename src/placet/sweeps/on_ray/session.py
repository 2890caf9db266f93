"""Opens Ray for one sweep, quietly, and closes it."""

import contextlib
import logging
import os
import signal
import socket
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from placet.stores.files import make_folder, opened_private
from placet.sweeps.errors import LabError
from placet.sweeps.on_ray.staging import Staged, stage
from placet.sweeps.plan import SweepPlan
from placet.sweeps.pools import Pools
from placet.sweeps.study import RAY_LOG, writing

_ENVIRONMENT: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",  # else, under `uv run`, workers would be started by uv
}
_CALLS_PER_SLOT: Final = 16
_CONNECT_S: Final = 10.0


def require_ray(address: str | None) -> None:
    """Check that Ray is installed, and that something listens at an address.

    Ray itself takes minutes to find out that nothing does.

    Raises:
        LabError: It is not, or nothing does.
    """
    if (address or "").startswith("ray://"):
        raise LabError(
            f"--ray-address {address}: Ray Client (ray://) streams no answers; start the sweep on "
            "a machine of the cluster with --ray-address HOST:PORT, or by `ray job submit`"
        )
    os.environ.update({key: os.environ.get(key, value) for key, value in _ENVIRONMENT.items()})
    try:
        import ray  # noqa: F401, PLC0415  # an extra; after the environment is set
    except ImportError:
        raise LabError("--on ray needs Ray: pip install 'placet[ray]'") from None
    if address is not None:
        _require_listener(address)


def _require_listener(address: str) -> None:
    host, _, port = address.rpartition(":")
    if not (host and port.isdecimal()):
        raise LabError(f"--ray-address must be HOST:PORT of the cluster's head, got {address!r}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_S).close()
    except (OSError, OverflowError, UnicodeError) as error:
        raise LabError(
            f"cannot reach Ray at {address}: {error}; start its head there with "
            f"`ray start --head --port {port}`"
        ) from error


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
    require_ray(address)
    import ray  # noqa: PLC0415  # an extra

    own: dict[str, Any] = {} if address else {"num_cpus": jobs, "include_dashboard": False}
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    with writing(folder):
        make_folder(folder)
        log = os.fdopen(opened_private(folder / RAY_LOG, os.O_WRONLY | os.O_APPEND), "a")
    # Ray prints about its workers on stdout, whatever `log_to_driver` says.
    with log, contextlib.redirect_stdout(log):
        try:
            with TemporaryDirectory() as copies:  # `init` packs it; a kill later leaves nothing
                staged.write(Path(copies))
                ray.init(
                    address or "local",
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                    runtime_env={"working_dir": copies},
                    **own,
                )
        except Exception as error:
            where = f"reach Ray at {address}" if address else "start Ray"
            raise LabError(f"cannot {where}: {' '.join(str(error).split())}") from error
        finally:
            for number, handler in handlers.items():  # Ray takes SIGTERM, and prints a C++ stack
                signal.signal(number, handler)
        try:
            yield
        finally:
            ray.shutdown()


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
