"""Older contracts of planners and tools, translated to the present one.

A compatibility layer translates and decides nothing: its output is read by
`placet.agents.proposal.plan_parser` and decided by the gate like any other plan. It never guesses.

    plan_v1   the planner contract of seed 001: `version`, `goal`, `actions`, `stop_reason`, `notes`
    codi      ACTION_INTENT_CONTRACT_v1 of seed 004: intents, actions, tools
"""

from placet.agents.compat import codi, plan_v1

__all__ = ["codi", "plan_v1"]
