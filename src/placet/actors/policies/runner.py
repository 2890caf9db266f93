"""Runs policies under a supervisor: start, pause while suspended, resume, end, and report status.

A policy runs for one generation of its agent. While the agent is suspended, the policy is stopped
and its current call is lost; after a resume it starts again. A policy that keeps failing spends its
restart budget: then the agent is suspended, and resuming it renews the budget.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from functools import partial
from typing import NamedTuple, Protocol

import anyio

from placet.actors.policies.agent import AgentActor, AgentStatistics
from placet.actors.supervisor import Supervisor, ignore
from placet.schemas.errors import AgentError

_REMOVED_MAX = 1024
_ERROR_CHARS_MAX = 500


class AgentState(StrEnum):
    """The state of an agent and its policy; `AgentStatus` explains the values."""

    IDLE = "idle"
    RUNNING = "running"
    BACKING_OFF = "backing_off"
    SUSPENDED = "suspended"
    GONE = "gone"


class AgentStatus(NamedTuple):
    """Status of an agent and its policy.

    Attributes:
        agent_id: The agent.
        state: `running`: a policy of this process runs; `backing_off`: the policy failed and
            restarts after a pause; `suspended`; `gone`: removed, or never registered; `idle`:
            registered, without a running policy in this process.
        generation: Number of registrations of the name up to this agent.
        failures: Number of failures of the policy.
        error: The last exception of the policy, as text.
        statistics: Batches of the policy; None without a policy.
    """

    agent_id: str
    state: AgentState
    generation: int = 0
    failures: int = 0
    error: str | None = None
    statistics: AgentStatistics | None = None


class AgentEntry(Protocol):
    """The part of an agent's ledger entry that is read here."""

    generation: int
    is_suspended: bool


class _Run:
    """A policy started for one generation of an agent."""

    def __init__(self, actor: AgentActor) -> None:
        self.actor = actor
        self.generation = actor.generation
        self.state = AgentState.RUNNING
        self.failures = 0
        self.error: str | None = None
        self.is_given_up = False
        self._may_act = anyio.Event()
        self._may_act.set()
        self._scope = anyio.CancelScope()

    async def run(self) -> None:
        """Run the policy while its agent is active; called by the supervisor."""
        while True:
            await self._may_act.wait()
            with anyio.CancelScope() as self._scope:
                self.state = AgentState.RUNNING
                try:
                    await self.actor.run()
                except Exception as error:
                    self.note_failure(error)
                    raise
                self.state = AgentState.IDLE
                return

    def note_failure(self, error: Exception) -> None:
        """Record an exception of the policy for `AgentStatus`."""
        self.state = AgentState.BACKING_OFF
        self.failures += 1
        self.error = _repr_of(error)[:_ERROR_CHARS_MAX]

    def pause(self) -> None:
        """Cancel the policy's current call, and wait for `resume`."""
        if self._may_act.is_set():
            self._may_act = anyio.Event()
            self._scope.cancel()

    def resume(self) -> bool:
        """Start the policy again; return whether it was paused."""
        was_paused = not self._may_act.is_set()
        self._may_act.set()
        return was_paused


class PolicySupervisor:
    """The running policies of one world.

    Args:
        supervisor: Owns their tasks.
        agents: The ledger's agents, live.
        suspend: Suspends a generation of an agent whose policy keeps failing.
        on_given_up: Called before `suspend`, with the agent's id and the last error as text.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        agents: Mapping[str, AgentEntry],
        suspend: Callable[[str, int], Awaitable[None]],
        on_given_up: Callable[[str, str | None], None],
    ) -> None:
        self._supervisor = supervisor
        self._agents = agents
        self._suspend = suspend
        self._on_given_up = on_given_up
        self._runs: dict[str, _Run] = {}
        self._removed: OrderedDict[str, _Run] = OrderedDict()

    def run(self, actor: AgentActor) -> None:
        """Start an agent's policy under the supervisor; for a suspended agent, once it is resumed.

        Raises:
            AgentError: The actor's handle is of an agent that was removed.
            ValueError: A policy already runs for the agent.
        """
        agent_id = actor.agent_id
        agent = self._agents.get(agent_id)
        if agent is None or agent.generation != actor.generation:
            raise AgentError(
                f"the handle of {agent_id!r} is of generation {actor.generation}, which was "
                "removed; register the agent and run an actor with its new handle"
            )
        self.sync(agent_id)  # ends the run of an earlier generation
        before = self._runs.get(agent_id)
        if before is not None and before.state is not AgentState.IDLE:
            raise ValueError(
                f"a policy already runs for {agent_id!r}; remove the agent, or wait until it ends"
            )
        run = self._runs[agent_id] = _Run(actor)
        if agent.is_suspended:
            run.pause()
        self._start(run)

    def sync(self, agent_id: str) -> None:
        """Pause, resume or end an agent's policy to match the agent's entry in the ledger."""
        run, agent = self._runs.get(agent_id), self._agents.get(agent_id)
        if run is None:
            return
        if agent is None or agent.generation != run.generation:
            self._finish(agent_id, run)
        elif agent.is_suspended:
            run.pause()
        else:
            if run.resume():
                self._supervisor.forgive(_task(agent_id))
            if run.is_given_up:
                run.is_given_up = False
                self._start(run)

    def sync_all(self) -> None:
        """End, pause or resume every policy by its agent's entry in the ledger. O(policies)."""
        for agent_id in list(self._runs):
            self.sync(agent_id)

    def status(self, agent_id: str) -> AgentStatus:
        """Return the status of an agent.

        Of a removed agent, that of its last run while it is kept.
        """
        self.sync(agent_id)
        agent = self._agents.get(agent_id)
        run = self._runs.get(agent_id) if agent is not None else self._removed.get(agent_id)
        state = AgentState.IDLE if run is None else run.state
        if agent is None:
            state = AgentState.GONE
        elif agent.is_suspended:
            state = AgentState.SUSPENDED
        if run is None:
            return AgentStatus(agent_id, state, 0 if agent is None else agent.generation)
        statistics = run.actor.statistics()
        return AgentStatus(agent_id, state, run.generation, run.failures, run.error, statistics)

    def counts(self) -> dict[str, int]:
        """Return the number of policies by agent state; `gone`: kept runs of removed agents."""
        counts = dict.fromkeys((state.value for state in AgentState), 0)
        counts[AgentState.GONE.value] = len(self._removed)
        for agent_id, run in self._runs.items():
            agent = self._agents.get(agent_id)
            is_suspended = agent is not None and agent.is_suspended
            counts[(AgentState.SUSPENDED if is_suspended else run.state).value] += 1
        return counts

    def _start(self, run: _Run) -> None:
        self._supervisor.start(_task(run.actor.agent_id), run.run, partial(self._give_up, run))

    def _give_up(self, run: _Run, _task_name: str, _error: BaseException) -> None:
        """Suspend an agent whose policy has spent its restart budget."""
        agent_id = run.actor.agent_id
        run.state = AgentState.SUSPENDED
        self._on_given_up(agent_id, run.error)

        async def suspend() -> None:
            await self._suspend(agent_id, run.generation)
            run.is_given_up = True  # only now: a sync before it would start the policy again
            self.sync(agent_id)

        self._supervisor.start(f"suspend {agent_id}", suspend, ignore, restarts=False)

    def _finish(self, agent_id: str, run: _Run) -> None:
        del self._runs[agent_id]
        self._removed[agent_id] = run
        if len(self._removed) > _REMOVED_MAX:
            self._removed.popitem(last=False)
        self._supervisor.cancel(_task(agent_id))
        run.resume()  # a run that waits for a resume would otherwise never end


def _repr_of(error: Exception) -> str:
    try:
        return repr(error)
    except Exception:  # noqa: BLE001  # repr() is the policy's code too
        return type(error).__name__


def _task(agent_id: str) -> str:
    return f"agent {agent_id}"
