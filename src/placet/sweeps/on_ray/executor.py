"""Runs calls on Ray: one `Future` a call, as `concurrent.futures` has it.

Calls travel in groups, a Ray task each, and their answers come back one by one. So a group costs
one task, a finished call is known at once, and a worker's death names the call that it was at.
Nothing is repeated here: Ray's retries are off, and a dead call is the business of the sweep.
"""

import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from threading import Condition, Thread
from typing import Any, Final

import ray
from ray import cloudpickle, exceptions

from placet.scenarios.on_ray import code_check
from placet.schemas.codec import Json
from placet.sweeps.failures import CallFailed, ExecutorUnfit, RunLost, RunTimedOut, WorkerDied
from placet.sweeps.on_ray import group as group_module

cloudpickle.register_pickle_by_value(code_check)
cloudpickle.register_pickle_by_value(group_module)

_GROUP_S: Final = 1.0
"""Work of a group, seconds."""

_WAITING_GROUPS: Final = 1
"""Groups for each slot that wait, besides the one that runs."""

_CALLS_MAX: Final = 64
_FIRST_CALLS: Final = 4
"""Calls of a group before the mean time of a call is known."""

_COUNT_SLOTS_S: Final = 5.0
_LOOK_S: Final = 0.2
_FETCH_S: Final = 60.0
_NOTICE_S: Final = 60.0


@dataclass(eq=False, slots=True)
class _Group:
    """A group of calls.

    Attributes:
        calls: Future and pickled call of each.
        stream: Ray's stream of answers.
        answered: Number of answered calls; -1 while no worker has the group.
        since: Monotonic time of the latest answer.
        where: Its machine and process; empty while no worker has it.
    """

    calls: list[tuple[Future[Any], bytes]]
    stream: Any
    answered: int = -1
    since: float = 0.0
    where: str = ""


class RayExecutor(Executor):
    """An executor on the connected Ray.

    Args:
        expected: Code that a machine must have, as `run_group` takes it.
        timeout_s: Longest time of a call, seconds; None is unlimited.
        slots: Number of processors to use; None is all that the cluster has, also later ones.
        calls_max: Largest number of calls of a group; None is 64.
        on_notice: Called with a message when no group gets a slot for a minute.

    Attributes:
        slots: Number of processors that are used now.
    """

    def __init__(
        self,
        expected: Mapping[str, Any],
        *,
        timeout_s: float | None = None,
        slots: int | None = None,
        calls_max: int | None = None,
        on_notice: Callable[[str], None] = lambda _: None,
    ) -> None:
        options = {"num_returns": "streaming", "max_retries": 0, "num_cpus": 1}
        self._task: Any = ray.remote(**options)(group_module.run_group)
        self._expected = ray.put(expected)
        self._timeout_s, self._slots_fixed = timeout_s, slots
        self._calls_max, self._on_notice = calls_max or _CALLS_MAX, on_notice
        self._queue: deque[tuple[Future[Any], bytes]] = deque()
        self._groups: list[_Group] = []
        self._changed = Condition()
        self._ends: BaseException | None = None
        self._mean_s = 0.0
        self.slots, self._counted_at = slots or 0, float("-inf")
        self._idle_since = time.monotonic()
        self._count_slots()
        self._thread = Thread(target=self._serve, name="placet-ray", daemon=True)
        self._thread.start()

    def submit(  # type: ignore[override]  # a sweep calls with positions
        self, function: Callable[..., Any], /, *args: object
    ) -> Future[Any]:
        """Submit a call; its future raises an error of `placet.sweeps.failures`.

        Raises:
            ExecutorUnfit: A machine has other code, or Ray is gone.
        """
        future: Future[Any] = Future()
        call = cloudpickle.dumps((function, args))
        with self._changed:
            if self._ends is not None:
                raise self._ends
            self._queue.append((future, call))
            self._changed.notify()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the executor; with `cancel_futures`, the calls that workers are at end too."""
        with self._changed:
            self._ends = self._ends or RuntimeError("cannot schedule new futures after shutdown")
            if cancel_futures:
                self._abandon(RunLost("the sweep ended"))
            self._changed.notify()
        if wait:
            self._thread.join()

    def _serve(self) -> None:
        while True:
            with self._changed:
                while not (self._queue or self._groups or self._ends):
                    self._changed.wait()
                if self._ends and not (self._queue or self._groups):
                    return
                groups = list(self._groups)
            try:
                if self._queue:
                    self._send()
                self._receive(groups)
                self._notice_waiting()
            except Exception as error:  # noqa: BLE001  # Ray is gone: every call says so, none hangs
                with self._changed:
                    self._ends = ExecutorUnfit(f"Ray is gone: {_first_line(error)}")
                    self._abandon(self._ends)

    def _count_slots(self) -> None:
        """Count the slots of the cluster now and then: machines come and go."""
        if self._slots_fixed is None and time.monotonic() - self._counted_at > _COUNT_SLOTS_S:
            self.slots = int(ray.cluster_resources().get("CPU", 0))
            self._counted_at = time.monotonic()

    def _send(self) -> None:
        """Send groups while there is room for them."""
        self._count_slots()
        room = max(1, self.slots * (1 + _WAITING_GROUPS))
        with self._changed:
            while self._queue and len(self._groups) < room:
                calls: list[tuple[Future[Any], bytes]] = []
                size = self._group_size(room)
                while self._queue and len(calls) < size:
                    future, call = self._queue.popleft()
                    if future.running() or future.set_running_or_notify_cancel():
                        calls.append((future, call))
                if calls:
                    stream = self._task.remote(self._expected, [call for _, call in calls])
                    self._groups.append(_Group(calls, stream))

    def _group_size(self, room: int) -> int:
        """Return the number of calls that take a second; the last are spread over all slots."""
        share = -(-len(self._queue) // room)
        of_time = int(_GROUP_S / self._mean_s) if self._mean_s else _FIRST_CALLS
        return max(1, min(self._calls_max, share, of_time))

    def _receive(self, groups: list[_Group]) -> None:
        """Take the answers that have arrived; wait for the first of them a little."""
        streams = {group.stream: group for group in groups}
        if streams:
            ready, rest = ray.wait(list(streams), num_returns=1, timeout=_LOOK_S, fetch_local=False)
            if ready and rest:
                ready += ray.wait(rest, num_returns=len(rest), timeout=0, fetch_local=False)[0]
            for stream in ready:
                self._take(streams[stream])
        for group in groups:
            if self._is_late(group):
                ray.cancel(group.stream, force=True)
                error = f"the run took longer than {self._timeout_s:g} s on {group.where}"
                self._release(group, RunTimedOut(error))

    def _is_late(self, group: _Group) -> bool:
        return (
            self._timeout_s is not None
            and group in self._groups
            and group.answered >= 0
            and time.monotonic() - group.since > self._timeout_s
        )

    def _take(self, group: _Group) -> None:
        """Take the next answer of a group, or the error that ended it."""
        try:
            answer = ray.get(next(group.stream), timeout=_FETCH_S)
        except StopIteration:
            self._release(group, RunLost(f"its worker on {group.where} ended early"))
            return
        except (
            exceptions.NodeDiedError,
            exceptions.ObjectLostError,
            exceptions.GetTimeoutError,
        ) as error:
            self._release(group, RunLost(f"{group.where}: {_first_line(error)}"))
            return
        except exceptions.RayError as error:
            # Before its first call a worker that died is not to blame on a run.
            kind = WorkerDied if group.answered >= 0 else RunLost
            self._release(
                group, kind(f"{group.where}: {type(error).__name__}: {_first_line(error)}")
            )
            return
        before, group.since, group.answered = group.since, time.monotonic(), group.answered + 1
        if group.answered == 0:
            self._welcome(group, *answer)
        else:
            self._mean_s += (group.since - before - self._mean_s) / (20 if self._mean_s else 1)
            self._answer(group.calls[group.answered - 1][0], *answer)

    def _welcome(self, group: _Group, problem: str, pid: int, machine: str) -> None:
        """Note the machine of a group; end if it is unfit, because it would take most calls."""
        group.where = f"{machine}, process {pid}"
        if problem:
            with self._changed:
                self._ends = ExecutorUnfit(f"the Ray node {machine} cannot run this: {problem}")
                self._abandon(self._ends)

    def _answer(self, future: Future[Any], is_well: bool, value: Json) -> None:
        if future.done():
            return
        if is_well:
            future.set_result(value)
        else:
            future.set_exception(CallFailed(*value))

    def _release(self, group: _Group, error: BaseException) -> None:
        """Set the error of the call that a group was at; queue the calls behind it again, first."""
        with self._changed:
            if group not in self._groups:
                return
            self._groups.remove(group)
            calls = group.calls[max(group.answered, 0) :]
            self._queue.extendleft(reversed(calls[1:]))
        for future, _ in calls[:1]:
            future.set_exception(error)

    def _abandon(self, error: BaseException) -> None:
        """Forget all calls, under the lock."""
        calls = [call for group in self._groups for call in group.calls[max(group.answered, 0) :]]
        for group in self._groups:
            ray.cancel(group.stream, force=True)
        queue, self._queue, self._groups = self._queue, deque(), []
        for future, _ in calls:
            future.set_exception(error)
        for future, _ in queue:
            if not future.cancel():  # it was running, on a machine that is lost
                future.set_exception(error)

    def _notice_waiting(self) -> None:
        """Report that no group has had a slot for a minute, and again every minute."""
        now = time.monotonic()
        if not self._groups or any(group.answered >= 0 for group in self._groups):
            self._idle_since = now
        elif now - self._idle_since >= _NOTICE_S:
            self._idle_since = now
            self._on_notice(
                f"no node of Ray had a free slot for {_NOTICE_S:g} s; {len(self._queue)} runs and "
                f"{len(self._groups)} groups wait for {self.slots} slots"
            )


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
