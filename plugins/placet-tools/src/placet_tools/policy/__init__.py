"""A policy over the calls of tools: parsed from plain values, checked, and judged.

errors, values, json_types > expressions > rules > marks, parse > judge, counting > enforcement; all
are pure.
"""

from placet_tools.policy.errors import ToolPolicyError
from placet_tools.policy.parse import APPROVE_FROM, parse_policy

__all__ = ["APPROVE_FROM", "ToolPolicyError", "parse_policy"]
