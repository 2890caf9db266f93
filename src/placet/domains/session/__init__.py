"""The session domain: turns, model calls, approval requests and grants as records of the log.

Agents are never permitted these kinds; their session submits them. So an approval is used once, the
log names the person who gave it, and it covers exactly the shown plan.
"""

from placet.domains.session.domain import Sessions, other_agent, turn_id
from placet.domains.session.payloads import (
    COLLECTIONS,
    KINDS,
    PLAN_CHANGED,
    PROPOSE,
    RECORDER,
    SESSION_CHARS_MAX,
)

__all__ = [
    "COLLECTIONS",
    "KINDS",
    "PLAN_CHANGED",
    "PROPOSE",
    "RECORDER",
    "SESSION_CHARS_MAX",
    "Sessions",
    "other_agent",
    "turn_id",
]
