"""`Portrayal`: how a player draws the agents of a collection, or the rows of a table.

It belongs to no world: neither the log nor a digest has it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from placet.schemas.keywords import explain_keywords


@explain_keywords
@dataclass(frozen=True, slots=True, kw_only=True)
class Portrayal:
    """How the player draws the entities of a collection, or the rows of a table.

    Attributes:
        color: The field that colors them. Texts, true and false, and numbers of at most eight
            values have a color each; other numbers a scale; two numbers of a table's field are a
            direction. None colors entities by cohort, and rows by the first field.
        names: Names of the values 0, 1, 2, ... of that field, for the legend: a field of small
            whole numbers has categories then. Empty shows the values.
    """

    color: str | None = None
    names: tuple[str, ...] = ()


Portrayals: TypeAlias = Mapping[str, Portrayal]
"""Collection or table -> its portrayal."""
