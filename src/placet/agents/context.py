"""The text that a planner receives: kinds, view, history and message, within a token budget."""

from placet.agents.proposal.context_text import ContextText, ContextTooLarge, build

__all__ = ["ContextText", "ContextTooLarge", "build"]
