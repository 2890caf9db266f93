"""Calls the policies of a stepped run at a tick: in this process, or on workers.

A runner calls its `Thinkers` once a tick. Proposals are a function of the state, so the process
that calls a policy shows in no record. `PoliciesHere` calls the policies in the caller's thread,
and `workers/` in other processes, which hold a copy of the state.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from threading import TIMEOUT_MAX
from time import thread_time
from typing import (
    TYPE_CHECKING,
    Final,
    Literal,
    NamedTuple,
    NoReturn,
    Protocol,
    TypeAlias,
    get_args,
)

from placet.kernel.columns.batch import ColumnBatch
from placet.kernel.kernel import Kernel
from placet.scenarios.policies import PolicyFactory
from placet.scenarios.population import Population
from placet.scenarios.scenario_agent import ScenarioAgent, propose_all
from placet.scenarios.slots import slots_here
from placet.scenarios.values import ScenarioError
from placet.schemas.intent import Intent
from placet.schemas.limits import WORKERS_MAX
from placet.schemas.view import View

if TYPE_CHECKING:
    from placet.scenarios.populations import Populations

WorkersOn: TypeAlias = Literal["here", "ray"]
"""Where workers are: processes of this machine, or of a Ray cluster."""

THINK_TIMEOUT_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class Workers:
    """The worker processes that call the policies of a stepped run.

    Their number changes neither digest nor log, and is in no file. Each holds a copy of the state,
    and imports the modules of the policies.

    Attributes:
        count: Number of workers, at least 1 and at most the slots.
        on: `here`, processes of this machine; or `ray`.
        address: `HOST:PORT` of a Ray cluster's head; None starts a local Ray for this run.
        gpus: GPUs that Ray reserves for each worker.
        timeout_s: Longest thinking of a worker in a tick, seconds; it is replaced then, and the
            policies of its agents are called again.
        slots: Number of processors that this process may use; None counts those of its
            affinity and its cgroup. On a Ray cluster the slots are those of its nodes.

    Raises:
        ScenarioError: A value is invalid.
    """

    count: int
    on: WorkersOn = "here"
    address: str | None = None
    gpus: float = 0.0
    timeout_s: float = THINK_TIMEOUT_S
    slots: int | None = None

    def __post_init__(self) -> None:
        for key, is_valid, expected in (
            ("count", _is_count(self.count), f"an int of 1 to {WORKERS_MAX}"),
            ("on", self.on in get_args(WorkersOn), "'here' or 'ray'"),
            ("gpus", _is_number(self.gpus) and self.gpus >= 0, "a number of at least 0"),
            ("timeout_s", self._is_timeout, f"seconds above 0, at most {TIMEOUT_MAX:.0f}"),
            ("slots", self.slots is None or _is_count(self.slots), "an int of at least 1"),
        ):
            if not is_valid:
                problem = f"expected {expected}, got {getattr(self, key)!r}"
                raise ScenarioError("workers", key, problem)
        for key, is_given in (("address", self.address is not None), ("gpus", self.gpus > 0)):
            if is_given and self.on != "ray":
                raise ScenarioError("workers", key, "it belongs to on='ray'")

    @property
    def _is_timeout(self) -> bool:
        return _is_number(self.timeout_s) and 0 < self.timeout_s <= TIMEOUT_MAX

    @classmethod
    def of(cls, workers: "Workers | int | None") -> "Workers | None":
        """Return the workers of a number; None if the policies are called without.

        Raises:
            ScenarioError: The number is invalid.
        """
        return workers if workers is None or isinstance(workers, cls) else cls(workers)  # type: ignore[arg-type]  # a caller may pass anything

    def require_fit(self, source: str, clock: str) -> None:
        """Check that a run can have these workers, before anything of it is begun.

        Raises:
            ScenarioError: Its clock does not wait for them, or this machine has too few slots.
        """
        if clock != "stepped":
            problem = f"they need clock = 'stepped', which waits for them; it is {clock!r}"
            raise ScenarioError(source, "workers", problem)
        slots = slots_here() if self.slots is None else self.slots
        if self.on == "here" and self.count > slots:
            problem = (
                f"{self.count} workers need as many processors, and this process was allotted "
                f"{slots} (affinity, cgroup); use at most {slots}"
            )
            raise ScenarioError(source, "workers", problem)


class TickProposals(NamedTuple):
    """The proposals of all policies in a tick.

    Attributes:
        batches: The agents that propose something, in their order, with their batches.
        columns: The batches of the populations, in their order.
        calls: Number of policies of agents that were called.
        thinking_s: CPU seconds of their policies, with the making of their views.
    """

    batches: list[tuple[ScenarioAgent, list[Intent]]]
    columns: list[ColumnBatch]
    calls: int
    thinking_s: float


class Thinkers(Protocol):
    """Protocol of the callers of a run's policies."""

    def propose(self, kernel: Kernel, tick: int) -> TickProposals:
        """Call the policies of the acting agents and of the populations, at the present state.

        Args:
            kernel: The kernel of the run; its state is durable.
            tick: Number of completed ticks.

        Raises:
            PolicyError: Policies failed: the error of the first, with the number of the others.
        """

    def close(self) -> None:
        """End the processes that were started; harmless if called twice."""


class PoliciesHere:
    """Calls the policies in the caller's thread.

    Args:
        population: The agents of the run.
        populations: Its populations; None if there are none.
        view: Returns the view of an agent at the present state.
    """

    def __init__(
        self,
        population: Population,
        populations: "Populations | None",
        view: Callable[[str], View],
    ) -> None:
        self._population, self._populations, self._view = population, populations, view

    def propose(self, kernel: Kernel, tick: int) -> TickProposals:
        """Call the policies; the views are of one cut, because nothing changes meanwhile."""
        agents = self._population.acting(kernel)
        began = thread_time()
        batches = propose_all(agents, (self._view(agent.agent_id) for agent in agents), tick)
        thinking_s = thread_time() - began
        columns = [] if self._populations is None else self._populations.batches(kernel)
        return TickProposals(batches, columns, len(agents), thinking_s)

    def close(self) -> None:
        """Do nothing: no process was started."""


def elsewhere(policies: Mapping[str, PolicyFactory]) -> dict[str, PolicyFactory]:
    """Return the factories of a run whose policies are made on workers: they make none here."""
    return dict.fromkeys(policies, lambda *_: _MADE_ELSEWHERE)


class _Elsewhere:
    """The policy of an agent, which a worker has."""

    def propose(self, view: View) -> NoReturn:
        """Raise, because it is never called."""
        raise AssertionError("the policy is on a worker")


_MADE_ELSEWHERE: Final = _Elsewhere()


def _is_count(value: object) -> bool:
    return type(value) is int and 1 <= value <= WORKERS_MAX


def _is_number(value: object) -> bool:
    return type(value) in {int, float} and isfinite(value)  # type: ignore[arg-type]  # a number here
