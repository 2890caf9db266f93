"""The agent layer: models, scripts, policies, people and recordings propose; the gate decides.

A proposal is parsed strictly, passed through the one gate, and answered with what happened. No
field of it grants anything. See `docs/concepts/agents.md`.
"""

from typing import TYPE_CHECKING

from placet.agents.adapters import FunctionAdapter, HumanAdapter, ReplayAdapter, ScriptedAdapter
from placet.agents.loop.recorder import SessionError
from placet.agents.proposal.adapter import Adapter, PlannerInput, PlannerOutput, Usage
from placet.agents.proposal.legacy import AgentAdapter, ChatIntent, ExecutionPlan
from placet.agents.proposal.limits import AgentLimits
from placet.agents.proposal.turn_result import ApprovalRequest, Turn
from placet.agents.session.session import Session

if TYPE_CHECKING:
    from placet.agents.adapters.llm import Llm, Prices

__all__ = [
    "Adapter",
    "AgentAdapter",
    "AgentLimits",
    "ApprovalRequest",
    "ChatIntent",
    "ExecutionPlan",
    "FunctionAdapter",
    "HumanAdapter",
    "Llm",
    "PlannerInput",
    "PlannerOutput",
    "Prices",
    "ReplayAdapter",
    "ScriptedAdapter",
    "Session",
    "SessionError",
    "Turn",
    "Usage",
]


def __getattr__(name: str) -> object:
    """Load what speaks with models when it is asked for: it needs the extra `llm`."""
    if name in {"Llm", "Prices"}:
        from placet.agents.adapters import llm  # noqa: PLC0415  # the extra

        return getattr(llm, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
