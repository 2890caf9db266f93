"""The exceptions by which a draft ends a rule; the gate makes refusals of them."""

from placet.schemas.portable_error import PortableError


class WorkExceeded(Exception):  # noqa: N818  # control flow between a rule and the gate
    """Raised when a batch uses more units of work than it may; a rule must not catch it."""


class ToolUnregistered(Exception):  # noqa: N818  # control flow between a rule and the gate
    """Raised when a rule emits an effect of a kind that has no registered executor."""


class AgentRefused(PortableError):  # noqa: N818  # control flow between a rule and the gate
    """Raised when an agent cannot be registered or removed; a rule must not catch it.

    Attributes:
        refusal: The refusal of the intent, as a rule would return it.
        domain: Name of the domain that refuses; empty for the domain of the rule.
    """

    def __init__(self, refusal: object, message: str, domain: str = "") -> None:
        super().__init__(message)
        self.refusal = refusal
        self.domain = domain
