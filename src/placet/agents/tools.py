"""Kinds as tools of a language model: their definitions, and the way back from a call to an intent.

Definitions are data, never functions: a model that gets them cannot execute anything.
"""

from placet.agents.proposal.tools import ToolDefinition, definitions, parse_intent, to_intent

__all__ = ["ToolDefinition", "definitions", "parse_intent", "to_intent"]
