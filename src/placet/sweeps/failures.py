"""Errors of an executor that name the run at fault, where others have `BrokenExecutor` alone."""

from concurrent.futures import BrokenExecutor

from placet.schemas.portable_error import PortableError


class WorkerDied(BrokenExecutor):
    """The worker ended while it was at this run and no other."""


class RunLost(BrokenExecutor):
    """The run or its answer was lost with its machine; the run is not to blame."""


class RunTimedOut(BrokenExecutor):
    """The run took longer than its timeout, and its worker was ended."""


class ExecutorUnfit(BrokenExecutor):
    """No run can be executed: a machine has other code, or the service behind it is gone."""


class CallFailed(PortableError):  # noqa: N818  # as the others
    """A call raised an error on its worker, whose class may be missing here.

    Args:
        name: Class of the error.
        message: Its text.
        trace: Its traceback.
    """

    def __init__(self, name: str, message: str, trace: str) -> None:
        super().__init__(f"{name}: {message}")
        self.trace = trace
