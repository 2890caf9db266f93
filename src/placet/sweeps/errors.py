"""The error of a question that cannot be answered."""

from placet.schemas.errors import PlacetError


class LabError(PlacetError):
    """A question about runs cannot be answered; the message says why, and what to change."""
