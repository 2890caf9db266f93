"""The common interface of grids and networks: the number of places; and a check of capacities."""

from typing import Protocol


class Space(Protocol):
    """Cells or nodes with the numbers 0 to `count - 1`."""

    @property
    def count(self) -> int:
        """Number of cells or nodes."""


def require_capacity(capacity: object) -> None:
    """Check the capacity of a cell.

    Raises:
        ValueError: It is neither None nor an int >= 1.
    """
    if capacity is not None and (type(capacity) is not int or capacity < 1):
        raise ValueError(
            f"the capacity of a cell is an int >= 1, or None for no bound, got {capacity!r}"
        )
