"""Converts integrations and functions to adapters."""

from inspect import iscoroutinefunction

from placet.agents.adapters.function import FunctionAdapter
from placet.agents.adapters.legacy import Subclassed
from placet.agents.proposal.adapter import Adapter
from placet.agents.proposal.legacy import AgentAdapter


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
