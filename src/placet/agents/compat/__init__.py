"""The faces of older contracts over the one that there is.

A face translates, and judges nothing: what it lets through is read by
`placet.agents.proposal.contract` and decided by the gate like anything else. Nothing here guesses.

    plan_v1   the planner contract of seed 001: `version`, `goal`, `actions`, `stop_reason`, `notes`
    codi      ACTION_INTENT_CONTRACT_v1 of seed 004: intents, actions, tools
"""

from placet.agents.compat import codi, plan_v1

__all__ = ["codi", "plan_v1"]
