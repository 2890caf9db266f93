"""Who is run by a policy here, and how it fares: policies come, pause, go on, and go.

A policy lives as long as the generation it was started for. While its agent is suspended it is
stopped, whatever it was thinking of; resumed, it goes on. A policy that keeps failing spends the
supervisor's budget: then its agent is suspended, and resuming it is a new budget.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from functools import partial
from typing import NamedTuple, Protocol

import anyio

from placet.actors.policies.agent import AgentActor, AgentStatistics
from placet.actors.supervisor import Supervisor
from placet.schemas.errors import AgentError

_GONE_MAX = 1024
_ERROR_CHARS_MAX = 500


class AgentState(StrEnum):
    """How an agent fares."""

    IDLE = "idle"
    RUNNING = "running"
    BACKING_OFF = "backing_off"
    SUSPENDED = "suspended"
    GONE = "gone"


class AgentStatus(NamedTuple):
    """What is known of an agent and its policy.

    Attributes:
        agent_id: The agent.
        state: `running` by a policy of this program; `backing_off`: the policy failed and is
            started again after a pause; `suspended`; `gone`: removed, or never registered; `idle`:
            registered, and no policy runs for it here, or it has come to its end.
        generation: How often the name was registered.
        failures: How often the policy failed.
        error: What the policy raised last, as text.
        statistics: What the policy has done; None where there is none.
    """

    agent_id: str
    state: AgentState
    generation: int = 0
    failures: int = 0
    error: str | None = None
    statistics: AgentStatistics | None = None


class Standing(Protocol):
    """What the ledger knows of an agent."""

    generation: int
    is_suspended: bool


class _Run:
    """A policy that was started for one generation of an agent."""

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

    async def live(self) -> None:
        """Run the policy while its agent may act; the supervisor calls this."""
        while True:
            await self._may_act.wait()
            with anyio.CancelScope() as self._scope:
                self.state = AgentState.RUNNING
                try:
                    await self.actor.run()
                except Exception as error:
                    self.note(error)
                    raise
                self.state = AgentState.IDLE
                return

    def note(self, error: Exception) -> None:
        """Keep what the policy raised, for whoever asks how it fares."""
        self.state = AgentState.BACKING_OFF
        self.failures += 1
        self.error = _printed(error)[:_ERROR_CHARS_MAX]

    def pause(self) -> None:
        """Stop the policy until `go_on`; what it was thinking of is lost."""
        if self._may_act.is_set():
            self._may_act = anyio.Event()
            self._scope.cancel()

    def go_on(self) -> bool:
        """Let the policy think again; tell whether it was stopped."""
        was_stopped = not self._may_act.is_set()
        self._may_act.set()
        return was_stopped


class PolicySupervisor:
    """The policies that run in one world.

    Args:
        supervisor: Owns their tasks.
        agents: The ledger's agents, as they are now.
        suspend: Suspends an generation of an agent; told of those whose policies keep failing.
        on_given_up: Told that one is suspended for it, and of the last error, as text.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        agents: Mapping[str, Standing],
        suspend: Callable[[str, int], Awaitable[None]],
        on_given_up: Callable[[str, str | None], None],
    ) -> None:
        self._supervisor = supervisor
        self._agents = agents
        self._suspend = suspend
        self._on_given_up = on_given_up
        self._runs: dict[str, _Run] = {}
        self._gone: OrderedDict[str, _Run] = OrderedDict()

    def run(self, actor: AgentActor) -> None:
        """Run a policy under the supervisor; that of a suspended agent waits until it is resumed.

        Raises:
            AgentError: The actor's handle is of an agent that was removed.
            ValueError: A policy runs for the agent already.
        """
        agent_id = actor.agent_id
        agent = self._agents.get(agent_id)
        if agent is None or agent.generation != actor.generation:
            raise AgentError(
                f"the handle of {agent_id!r} is of generation {actor.generation}, which was "
                "removed; register the agent and run an actor with its new handle"
            )
        self.look(agent_id)  # a run of an earlier generation ends first
        before = self._runs.get(agent_id)
        if before is not None and before.state is not AgentState.IDLE:
            raise ValueError(f"a policy runs for {agent_id!r} already; remove the agent, or wait")
        run = self._runs[agent_id] = _Run(actor)
        if agent.is_suspended:
            run.pause()
        self._start(run)

    def look(self, agent_id: str) -> None:
        """Bring the run of an agent in line with the agent's standing, if there is one."""
        run, agent = self._runs.get(agent_id), self._agents.get(agent_id)
        if run is None:
            return
        if agent is None or agent.generation != run.generation:
            self._end(agent_id, run)
        elif agent.is_suspended:
            run.pause()
        else:
            if run.go_on():
                self._supervisor.forgive(_task(agent_id))
            if run.is_given_up:
                run.is_given_up = False
                self._start(run)

    def status(self, agent_id: str) -> AgentStatus:
        """Return how an agent fares; of one that is gone, its last run is told while it is known."""
        self.look(agent_id)
        agent = self._agents.get(agent_id)
        run = self._runs.get(agent_id) if agent is not None else self._gone.get(agent_id)
        state = AgentState.IDLE if run is None else run.state
        if agent is None:
            state = AgentState.GONE
        elif agent.is_suspended:
            state = AgentState.SUSPENDED
        if run is None:
            return AgentStatus(agent_id, state, 0 if agent is None else agent.generation)
        done = run.actor.statistics()
        return AgentStatus(agent_id, state, run.generation, run.failures, run.error, done)

    def counts(self) -> dict[str, int]:
        """Count the policies by how their agents fare; of those that are gone, the latest."""
        counts = dict.fromkeys((state.value for state in AgentState), 0)
        counts[AgentState.GONE.value] = len(self._gone)
        for agent_id, run in self._runs.items():
            agent = self._agents.get(agent_id)
            is_suspended = agent is not None and agent.is_suspended
            counts[(AgentState.SUSPENDED if is_suspended else run.state).value] += 1
        return counts

    def _start(self, run: _Run) -> None:
        self._supervisor.start(_task(run.actor.agent_id), run.live, partial(self._give_up, run))

    def _give_up(self, run: _Run, _task_name: str, _error: BaseException) -> None:
        """Suspend an agent whose policy has spent its budget."""
        agent_id = run.actor.agent_id
        run.state = AgentState.SUSPENDED
        self._on_given_up(agent_id, run.error)

        async def suspend() -> None:
            await self._suspend(agent_id, run.generation)
            run.is_given_up = True  # not before: else a look in between would start it again
            self.look(agent_id)

        self._supervisor.start(f"suspend {agent_id}", suspend, _ignore, restarts=False)

    def _end(self, agent_id: str, run: _Run) -> None:
        del self._runs[agent_id]
        self._gone[agent_id] = run
        if len(self._gone) > _GONE_MAX:
            self._gone.popitem(last=False)
        self._supervisor.cancel(_task(agent_id))
        run.go_on()  # if it has not begun, its handle is refused, and it does not wait for a resume


def _printed(error: Exception) -> str:
    try:
        return repr(error)
    except Exception:  # noqa: BLE001  # the policy's own, as the error is: what cannot be printed has a type
        return type(error).__name__


def _task(agent_id: str) -> str:
    return f"agent {agent_id}"


def _ignore(name: str, error: BaseException) -> None:
    """Escalate no further: the world has failed or is closed, and the supervisor has said so."""
