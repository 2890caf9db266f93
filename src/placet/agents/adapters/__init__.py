"""The adapters that come with placet, and the registry for others."""

from inspect import iscoroutinefunction

from placet.agents.adapters.function import FunctionAdapter
from placet.agents.adapters.human import HumanAdapter
from placet.agents.adapters.legacy import Subclassed
from placet.agents.adapters.replay import ReplayAdapter
from placet.agents.adapters.scripted import ScriptedAdapter
from placet.agents.proposal.adapter import Adapter
from placet.agents.proposal.legacy import AgentAdapter

__all__ = ["FunctionAdapter", "HumanAdapter", "ReplayAdapter", "ScriptedAdapter", "as_adapter"]


def as_adapter(adapter: object) -> Adapter:
    """Convert an adapter, a subclass of `AgentAdapter` or a function to an adapter.

    Raises:
        TypeError: The argument is none of these.
    """
    if isinstance(adapter, AgentAdapter):
        return Subclassed(adapter)
    if iscoroutinefunction(getattr(adapter, "propose", None)) and isinstance(adapter, Adapter):
        return adapter
    if callable(adapter):
        return FunctionAdapter(adapter)
    raise TypeError(
        "an adapter has `async def propose(context)`, subclasses AgentAdapter, or is a function of "
        f"a context; got {type(adapter).__name__}"
    )
