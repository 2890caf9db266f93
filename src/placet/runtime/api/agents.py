"""The face by which agents come and go: suspended, resumed, removed, and run by a policy."""

from placet.actors.policies.agent import AgentActor
from placet.actors.policies.runner import AgentStatus
from placet.runtime.world import WorldRuntime


class RunsAgents:
    """Registration and policies of agents, for the holder of an open world."""

    __slots__ = ()

    @property
    def _open(self) -> WorldRuntime:
        """The world, if it is open."""
        raise NotImplementedError

    async def suspend_agent(self, agent_id: str) -> None:
        """Refuse the agent's batches until it is resumed; its policy is stopped meanwhile.

        Raises:
            AgentError: There is no such agent.
        """
        await self._open.change_agent(agent_id, "suspended")

    async def resume_agent(self, agent_id: str) -> None:
        """End a suspension.

        A policy that was run for the agent continues, with a new failure budget.

        Raises:
            AgentError: There is no such agent.
        """
        await self._open.change_agent(agent_id, "resumed")

    async def remove_agent(self, agent_id: str) -> None:
        """Strike an agent out: its handles are no longer valid, its policy is stopped for good.

        Raises:
            AgentError: There is no such agent.
        """
        await self._open.change_agent(agent_id, "removed")

    def run_agent(self, agent: AgentActor) -> None:
        """Run an agent actor under this world's supervisor; if it keeps failing it is suspended.

        The policy of an agent that is suspended waits until it is resumed.

        Raises:
            AgentError: The agent was removed since its handle was given.
            ValueError: A policy runs for the agent already.
        """
        self._open.policy_supervisor.run(agent)

    def agent_status(self, agent_id: str) -> AgentStatus:
        """Return how an agent and its policy fare; `gone` is also what never was."""
        return self._open.policy_supervisor.status(agent_id)
