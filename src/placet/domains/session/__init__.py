"""The session domain: turns, model calls and grants as records of the log.

Agents are never permitted these kinds; their session submits them. Plans wait for a person in the
domain `approvals`.
"""

from placet.domains.session.domain import Sessions, other_agent, turn_id
from placet.domains.session.payloads import (
    COLLECTIONS,
    KINDS,
    PROPOSE,
    RECORDER,
    SESSION_CHARS_MAX,
)

__all__ = [
    "COLLECTIONS",
    "KINDS",
    "PROPOSE",
    "RECORDER",
    "SESSION_CHARS_MAX",
    "Sessions",
    "other_agent",
    "turn_id",
]
