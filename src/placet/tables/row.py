"""One row of a table, and the cells that are JSON text."""

from collections.abc import Mapping
from typing import NamedTuple

from placet.schemas.codec import Json


class Row(NamedTuple):
    """One row: its fixed cells, and the open cells of the kind `prefix`."""

    cells: tuple[Json, ...]
    prefix: str = ""
    open_cells: Mapping[str, Json] = {}


class JsonCell(NamedTuple):
    """A value that its column holds as canonical JSON text; None inside it is JSON's null."""

    value: Json
