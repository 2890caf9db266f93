"""The session domain: turns, model calls and grants as records of the log.

Agents are never permitted these kinds; their session submits them. The domain `approvals` holds the
plans that wait for a person.
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
