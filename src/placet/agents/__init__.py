"""The agent layer: anything that proposes - model, script, policy, person, recording - and no more.

A proposal is parsed strictly, passed through the one gate, and answered with what happened. No
field of it grants anything. See `docs/agents.md`.
"""

from placet.agents.adapter import Adapter, Context, Raw, Usage
from placet.agents.adapters import Callable, Human, Replay, Scripted
from placet.agents.chat_intent import AgentAdapter, ChatIntent, ExecutionPlan
from placet.agents.limits import AgentLimits
from placet.agents.record import Hold, Turn
from placet.agents.session import Session

__all__ = [
    "Adapter",
    "AgentAdapter",
    "AgentLimits",
    "Callable",
    "ChatIntent",
    "Context",
    "ExecutionPlan",
    "Hold",
    "Human",
    "Raw",
    "Replay",
    "Scripted",
    "Session",
    "Turn",
    "Usage",
]
