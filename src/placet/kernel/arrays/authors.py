"""The numbers by which the stamps of tables name the authors of changes."""

from placet.schemas.batch import sequence_form
from placet.schemas.identity import OPERATOR, SYSTEM

SEVERAL, NAMED, BY_SYSTEM, BY_OPERATOR = -1, -2, -3, -4
"""Authors of a row that are no members: several agents at once, an agent whose name is kept by row,
the hooks of domains, and the operator. A member is its number among all members, from 0."""


class Authors:
    """The numbers of all members of populations, by which the stamps of tables name authors.

    Attributes:
        populations: `(name, first number, count)` of each population, in order.
    """

    __slots__ = ("populations",)

    def __init__(self) -> None:
        self.populations: list[tuple[str, int, int]] = []

    def add(self, name: str, count: int) -> int:
        """Add a population; return the number of its first member."""
        first = sum(count for _, _, count in self.populations)
        self.populations.append((name, first, count))
        return first

    def drop(self, name: str) -> None:
        """Take back the latest population, if it has this name."""
        if self.populations and self.populations[-1][0] == name:
            self.populations.pop()

    def number_of(self, name: str) -> int:
        """Return the number of an author; `NAMED` of one that is no member."""
        if name == SYSTEM:
            return BY_SYSTEM
        if name == OPERATOR:
            return BY_OPERATOR
        form = sequence_form(name)
        for population, first, count in self.populations if form is not None else ():
            if form is not None and form[0] == population and form[1] < count:
                return first + form[1]
        return NAMED

    def name_of(self, number: int) -> str:
        """Return the name of an author that is not `NAMED`; empty of several."""
        if number < 0:
            return {BY_SYSTEM: SYSTEM, BY_OPERATOR: OPERATOR}.get(number, "")
        for population, first, count in self.populations:
            if number < first + count:
                return f"{population}:{number - first}"
        raise IndexError(f"there is no member {number}")
