"""`Portrayal`: how a player draws the agents of a collection, or the rows of a table.

It belongs to no world: neither the log nor a digest has it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from placet.schemas.keywords import explain_keywords

Mark: TypeAlias = Literal["size", "marker", "label"]
"""What a field sets of a mark on the map, besides its color."""


@explain_keywords
@dataclass(frozen=True, slots=True, kw_only=True)
class Portrayal:
    """How the player draws the entities of a collection, or the rows of a table.

        Portrayal(color="state", names=("susceptible", "infectious", "recovered"), size="age")

    In a scenario file it is the table `[portrayal."sir.people"]`.

    Attributes:
        color: The field that colors them. Texts, true and false, and numbers of at most eight
            values have a color each; other numbers a scale; two numbers of a table's field are a
            direction. None colors entities by cohort, and rows by the first field.
        names: Names of the values 0, 1, 2, ... of that field, for the legend: a field of small
            whole numbers has categories then. Of a field of texts: the texts in the order of
            their colors and shapes, which is else that of the alphabet. Empty shows the values.
        size: A field of numbers: the area of a mark grows with it.
        marker: A field whose values have a shape each.
        label: A field whose value is written beside each mark.
        width: Cells in a row of the grid, for a table whose rows are its cells, or a collection or
            a table whose field `cell` has the number of a cell, row by row. None: the grid of a
            table `cells` of the same domain is a square.
        links: A field with the other ends of links, which are drawn as lines: the id of an entity
            of the collection, or a list of ids; of a table the number of a row, or several, where
            a negative one is none.
        network: The `Network` of which the rows of a table are the nodes, or `module:NAME` of it.
            Nodes, and agents whose field `cell` has the number of one, are laid out by its links.

    Raises:
        ValueError: The width is no int above 0.
    """

    color: str | None = None
    names: tuple[str, ...] = ()
    size: str | None = None
    marker: str | None = None
    label: str | None = None
    width: int | None = None
    links: str | None = None
    network: object = None

    def __post_init__(self) -> None:
        if self.width is not None and (type(self.width) is not int or self.width < 1):
            raise ValueError(f"the width of a grid is an int of cells above 0, got {self.width!r}")

    @property
    def marks(self) -> dict[Mark, str]:
        """The chosen fields besides that of the color."""
        chosen: dict[Mark, str | None] = {
            "size": self.size,
            "marker": self.marker,
            "label": self.label,
        }
        return {mark: field for mark, field in chosen.items() if field is not None}


Portrayals: TypeAlias = Mapping[str, Portrayal]
"""Collection or table -> its portrayal."""
