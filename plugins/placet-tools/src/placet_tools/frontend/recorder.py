"""The recorder of the gate: the intents of plans, which no agent may submit."""

from collections.abc import Sequence
from uuid import uuid4

from placet.runtime.agent_handle import AgentHandle
from placet.runtime.orchestrator import Orchestrator
from placet.schemas.codec import Json
from placet.schemas.intent import Intent
from placet_tools.domain import PLAN, ToolsDomain
from placet_tools.frontend.calls import ToolCall

PLAN_MIN = 2
"""Calls of tools that are recorded as a plan: a single call has no others to undo."""


class Recorder:
    """Makes the intents of a batch: those of an agent's calls, and the gate's own before them.

    Args:
        world: The world, in which it registers agents.
        domain: The domain of the tools.
    """

    def __init__(self, world: Orchestrator, domain: ToolsDomain) -> None:
        self._world = world
        self._domain = domain
        self._handles: dict[str, AgentHandle] = {}

    async def handle(self, agent: str) -> AgentHandle:
        """Return the handle of an agent, which is registered with its first call."""
        if agent not in self._handles:
            self._handles[agent] = await self._world.register_agent(agent)
        return self._handles[agent]

    async def renew(self, agent: str) -> bool:
        """Forget the handle of a removed agent; return whether the name is registered again.

        A removed agent is not registered by its next call: the operator may have excluded it.
        """
        if not await self._world.gateway.is_registered(agent):
            return False
        self._handles.pop(agent, None)
        return True

    async def own(self, kind: str, **payload: Json) -> Intent:
        """Return an intent of one of the domain's own kinds."""
        recorder = await self.handle(self._domain.recorder)
        return recorder.intent(self._domain.prefixed(kind), payload)

    async def batch(self, agent: str, calls: Sequence[ToolCall]) -> tuple[list[Intent], int]:
        """Return the intents of a plan, and the number of the gate's own intents before them."""
        # Each submission has new req_ids: the dedup window keeps refusals without details.
        suffix, seq = uuid4().hex[:12], self._world.seq
        intents = [call.intent(agent, suffix, seq) for call in calls]
        keys = self.keys_of_tools(calls)
        if len(keys) < PLAN_MIN:
            return intents, 0
        return [await self.own(PLAN, keys=keys), *intents], 1

    def keys_of_tools(self, calls: Sequence[ToolCall]) -> list[str]:
        """Return the keys of the calls that are calls of tools."""
        return [call.key for call in calls if self._domain.tool_of(call.kind) is not None]
