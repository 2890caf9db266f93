"""The planner contract as a library: parse an answer of a planner against a domain's kinds.

`parse` never guesses: it returns a plan, or the issues that say how to repair the answer.
"""

from placet.agents.proposal.plan import Issue, Plan
from placet.agents.proposal.plan_parser import parse

__all__ = ["Issue", "Plan", "parse"]
