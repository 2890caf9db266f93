"""The messages between a run and its workers."""

from dataclasses import dataclass, field
from typing import NamedTuple

from placet.kernel.columns.batch import ColumnBatch
from placet.scenarios.values import Member, ScenarioError
from placet.schemas.intent import Intent


class Share(NamedTuple):
    """The agents and populations whose policies one worker calls in a tick.

    Attributes:
        agents: The acting agents, in their order, each with its number in the run; an agent that
            is registered again has a new number.
        populations: Names of populations.
    """

    agents: tuple[tuple[int, Member], ...]
    populations: tuple[str, ...]


class ThinkRequest(NamedTuple):
    """A call of a worker.

    Attributes:
        since: Number of the cut to which the changes are applied.
        cut: Number of the cut that they lead to.
        tick: Number of completed ticks.
        share: The worker's share; None if it is that of the latest call.
        only: Place of the only agent or population to call, agents first; None calls all.
    """

    since: int
    cut: int
    tick: int
    share: Share | None
    only: int | None = None


class PolicyFault(NamedTuple):
    """A policy that failed.

    Attributes:
        error: Its error.
        trace: The traceback in the worker.
    """

    error: ScenarioError
    trace: str


@dataclass(slots=True)
class ThinkAnswer:
    """The answer to a request.

    Attributes:
        batches: By place in the share, the batch of each agent that proposes something.
        columns: By population, its batches.
        unmade: The policy of an agent that could not be made, by place; nothing was called then.
        faults: The policies that failed, by place.
        column_faults: The policies of populations that failed, by population.
        taking_s: CPU seconds of taking in the changes.
        thinking_s: CPU seconds of the policies of agents, with the making of their views.
    """

    batches: dict[int, list[Intent]] = field(default_factory=dict)
    columns: dict[str, list[ColumnBatch]] = field(default_factory=dict)
    unmade: dict[int, PolicyFault] = field(default_factory=dict)
    faults: dict[int, PolicyFault] = field(default_factory=dict)
    column_faults: dict[str, PolicyFault] = field(default_factory=dict)
    taking_s: float = 0.0
    thinking_s: float = 0.0


class WorkerTraceback(Exception):  # noqa: N818  # it shows a cause, and is not raised
    """The traceback of a policy's exception, as a worker printed it."""


def error_of(fault: PolicyFault) -> ScenarioError:
    """Return the error of a policy, with its traceback in the worker as its cause."""
    fault.error.__cause__ = WorkerTraceback(f"\n{fault.trace}")
    return fault.error
