"""Opens Ray quietly, and closes it."""

import contextlib
import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TextIO

from placet.scenarios.on_ray.errors import RayUnusable
from placet.scenarios.on_ray.staging import Staged

_ENVIRONMENT: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",  # else, under `uv run`, workers would be started by uv
}
_CONNECT_S: Final = 10.0


def require_ray(address: str | None) -> None:
    """Check that Ray is installed, and that something listens at an address.

    Ray itself takes minutes to find out that nothing does.

    Raises:
        RayUnusable: It is not, or nothing does.
    """
    if (address or "").startswith("ray://"):
        raise RayUnusable(
            f"--ray-address {address}: Ray Client (ray://) streams no answers; start this on "
            "a machine of the cluster with --ray-address HOST:PORT, or by `ray job submit`"
        )
    os.environ.update({key: os.environ.get(key, value) for key, value in _ENVIRONMENT.items()})
    try:
        import ray  # noqa: F401, PLC0415  # an extra; after the environment is set
    except ImportError:
        raise RayUnusable("--on ray needs Ray: pip install '.[ray]' in a clone of placet") from None
    if address is not None:
        _require_listener(address)


def _require_listener(address: str) -> None:
    host, _, port = address.rpartition(":")
    if not (host and port.isdecimal()):
        raise RayUnusable(f"--ray-address must be HOST:PORT of the cluster's head, got {address!r}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_S).close()
    except (OSError, OverflowError, UnicodeError) as error:
        raise RayUnusable(
            f"cannot reach Ray at {address}: {error}; start its head there with "
            f"`ray start --head --port {port}`"
        ) from error


@contextlib.contextmanager
def connected(
    address: str | None, *, slots: int | None, staged: Staged, log: TextIO
) -> Iterator[None]:
    """Return a context in which Ray is connected.

    Args:
        address: `HOST:PORT` of a cluster's head; None starts a Ray on this machine alone.
        slots: Number of slots of that Ray.
        staged: The files for the workers.
        log: Gets the messages that Ray prints as it starts.

    Raises:
        RayUnusable: Ray cannot be started or reached.
    """
    require_ray(address)
    import ray  # noqa: PLC0415  # an extra

    own: dict[str, Any] = {} if address else {"num_cpus": slots, "include_dashboard": False}
    try:
        with TemporaryDirectory() as copies:  # `init` packs it; a kill later leaves nothing
            staged.write(Path(copies))
            with contextlib.redirect_stdout(log), _signals_kept():
                ray.init(
                    address or "local",
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                    runtime_env={"working_dir": copies},
                    **own,
                )
    except Exception as error:
        where = f"reach Ray at {address}" if address else "start Ray"
        raise RayUnusable(f"cannot {where}: {' '.join(str(error).split())}") from error
    try:
        yield
    finally:
        ray.shutdown()


@contextlib.contextmanager
def _signals_kept() -> Iterator[None]:
    """Keep the handlers of signals: Ray takes SIGTERM, and prints a C++ stack."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in handlers.items():
                signal.signal(number, handler)
