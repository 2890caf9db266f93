"""The domain `approvals`: requests for a person's approval of intents, and decisions about them."""

from placet.domains.approvals.domain import Approvals

__all__ = ["Approvals"]
