"""The adapters that come with placet, and the registry for others."""

from placet.agents.adapters.conversion import as_adapter
from placet.agents.adapters.function import FunctionAdapter
from placet.agents.adapters.human import HumanAdapter
from placet.agents.adapters.replay import ReplayAdapter
from placet.agents.adapters.scripted import ScriptedAdapter

__all__ = ["FunctionAdapter", "HumanAdapter", "ReplayAdapter", "ScriptedAdapter", "as_adapter"]
