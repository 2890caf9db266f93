"""The error of a Ray that cannot be used."""

from placet.schemas.errors import PlacetError


class RayUnusable(PlacetError):  # noqa: N818  # the name states the fault
    """Ray is not installed, cannot be started or reached, or its workers lack code."""
