"""The domain `approvals`: requests for a person's approval of intents, and decisions about them."""

from placet.domains.approvals.domain import Approvals
from placet.domains.approvals.payloads import ASK, COLLECTIONS, DECIDE, PREVIEW, RECORDER

__all__ = ["ASK", "COLLECTIONS", "DECIDE", "PREVIEW", "RECORDER", "Approvals"]
