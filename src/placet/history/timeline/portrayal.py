"""The places and the colors of the rows of tables on a map.

A `RowPortrayal` names the fields that hold both; `portrayals_of` returns one for each table of a
moment. Rows are encoded as arrays, without a Python loop over rows. numpy, an extra, is imported by
the functions that compute.
"""

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from math import isqrt
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from placet.history.timeline.links import LINKS_MAX, LaidOut, encoded_links, lay_out, links_of_rows
from placet.history.timeline.tables import PlayedField, PlayedTable
from placet.schemas.codec import Json
from placet.schemas.portrayal import Portrayal, Portrayals

if TYPE_CHECKING:
    from placet.history.timeline.fold import PlayedState

Colors: TypeAlias = Literal["category", "number", "direction"]
"""Values of a field that colors: categories, of one byte; numbers; angles in radians."""

_DIMENSIONS: Final = ([2], [3])
_OF_ONE_BYTE: Final = ("b1", "i1", "u1")
_GOLDEN: Final = 0.6180339887498949
_PLASTIC: Final = 0.7548776662466927
_AGENT: Final = "who"
_AGENTS: Final = "count"
"""Fields of a cell with its agent, and with the number of its agents; see `CellTable`."""
_NETWORKS: Final[dict[int, tuple[object, LaidOut]]] = {}
"""`id` of a network -> the network, which keeps its id from another, and its layout."""
_SPREAD: Final = 0.8
"""Part of a cell over which the rows that share it are spread."""
_AROUND: Final = 0.25
"""How far from its node an agent is drawn; about 1 is between two nodes."""


@dataclass(frozen=True, slots=True)
class RowPortrayal:
    """How the rows of a table are drawn.

    Attributes:
        place: Fields with the place of a row: one vector of 2 or 3 numbers, two numbers, or the
            number of a cell. Empty: the number of the row is used as the number of its cell.
        side: Cells in a row of the grid, if a place is the number of a cell; 0 if it is not.
        colors: The fields by which rows may be colored, the default first, and their values.
        is_cells: The rows are the cells of the grid, drawn as areas under all else.
        network: The network of which a place is the number of a node; None if it is none.
    """

    place: tuple[str, ...]
    side: int
    colors: Mapping[str, Colors]
    is_cells: bool = False
    network: LaidOut | None = None


def portrayals_of(
    state: "PlayedState", *, has_places: bool, portrayals: Portrayals = MappingProxyType({})
) -> dict[str, RowPortrayal]:
    """Return the portrayal of each table that has one, by the name of the table.

    A field `position` of two or three numbers is the place of a row, else fields `x` and `y`, else
    a field `cell`, where a square grid has as many cells as its bounds or a table `cells` of the
    same domain, or a portrayal has its width. The rows of such a table `cells` are cells, and so
    are those of a table whose portrayal has a width and that has no place. The members of
    populations without any place are drawn in rows, by their number.

    Args:
        state: The state.
        has_places: Entities of other collections are on the map.
        portrayals: The chosen portrayals.
    """
    tables = state.tables
    widths = {name: one.width for name, one in portrayals.items() if one.width is not None}
    found = _of_networks(tables, portrayals)
    found |= {
        name: RowPortrayal(place, side, _colors_of(table, place))
        for name, table in tables.items()
        for place, side in [_place_of(name, tables, widths)]
        if place and name not in found
    }
    for name, table in tables.items():
        width = widths.get(name) or (_side_of(table.count) if name.endswith(".cells") else 0)
        if width and name not in found and table.stem not in state.populations:
            found[name] = RowPortrayal((), width, _colors_of_cells(table), is_cells=True)
    if not found and not has_places:
        found = {
            name: RowPortrayal((), isqrt(max(table.count - 1, 0)) + 1, _colors_of(table, ()))
            for name, table in tables.items()
            if table.stem in state.populations
        }
    return found


def _of_networks(
    tables: Mapping[str, PlayedTable], portrayals: Portrayals
) -> dict[str, RowPortrayal]:
    """Return the portrayals of the tables of nodes, and of the agents of their domain at a node."""
    found = {}
    for name, portrayal in portrayals.items():
        if portrayal.network is None or name not in tables:
            continue
        network = _laid_out(portrayal.network)
        found[name] = RowPortrayal((), 0, _colors_of_cells(tables[name]), network=network)
        domain = name.partition(".")[0]
        for other, table in tables.items():
            if other.partition(".")[0] == domain and other != name and "cell" in table.fields:
                colors = _colors_of(table, ("cell",))
                found[other] = RowPortrayal(("cell",), 0, colors, network=network)
    return found


def _laid_out(network: object) -> LaidOut:
    """Return a network laid out; the work is done once for each network."""
    key = id(network)
    if key not in _NETWORKS:
        _NETWORKS[key] = (network, lay_out(network))  # type: ignore[arg-type]  # checked when given
    return _NETWORKS[key][1]


def layer_of(
    name: str,
    table: PlayedTable,
    portrayal: RowPortrayal,
    color: str | None,
    points_max: int,
    chosen: Portrayal | None = None,
) -> dict[str, Json]:
    """Return the rows of a table as a layer of a map: arrays of f4, little-endian, in base64.

    Args:
        name: Name of the table.
        table: The table.
        portrayal: How its rows are drawn.
        color: Field by which they are colored; None for none.
        points_max: Draw at most so many rows, the first ones.
        chosen: The chosen fields of size, marker and label, where one without one number a row is
            left out, and of links.
    """
    count = min(table.count, points_max)
    layer: dict[str, Json] = {
        "collection": name,
        "stem": table.stem,
        "count": count,
        "total": table.count,
    }
    if portrayal.is_cells:
        layer["width"] = portrayal.side
    else:
        is_shared, x, y = _places(table, portrayal, count)
        layer |= {
            "place": list(portrayal.place),
            "grid": bool(portrayal.side) and not is_shared,
            "x": _encoded(x),
            "y": _encoded(y),
            "laid_out": portrayal.network is not None,
        }
    if portrayal.network is not None and not portrayal.place:
        layer["links"] = encoded_links(portrayal.network.edges[:LINKS_MAX])
    elif chosen is not None and chosen.links in table.fields:
        layer["links"] = links_of_rows(table, chosen.links, count)
    if color is not None:
        form = portrayal.colors[color]
        values = table.column(color)[:count]
        if form == "direction":
            import numpy as np  # noqa: PLC0415  # an extra

            values = np.arctan2(values[:, 1], values[:, 0])
        layer["color"] = {"field": color, "form": form, "values": _encoded(values)}
    for mark, field in () if chosen is None else chosen.marks.items():
        if field in table.fields and not table.fields[field][1]:
            layer[mark] = {"field": field, "values": _encoded(table.column(field)[:count])}
    return layer


def _place_of(
    name: str, tables: Mapping[str, PlayedTable], widths: Mapping[str, int]
) -> tuple[tuple[str, ...], int]:
    """Return the fields with the place of a row, and the side of the grid of its cell."""
    fields = tables[name].fields
    cell = fields.get("cell")
    has_cell = cell is not None and not cell[1] and cell[0][0] in "iu"
    if has_cell and name in widths:
        return ("cell",), widths[name]
    if "position" in fields and fields["position"][1] in _DIMENSIONS:
        return ("position",), 0
    if _is_number(fields.get("x")) and _is_number(fields.get("y")):
        return ("x", "y"), 0
    if cell is None or not has_cell:
        return (), 0
    of_grid = f"{name.partition('.')[0]}.cells"
    grid = tables.get(of_grid)
    *_, low, high = cell
    cells = grid.count if grid is not None else int(high) + 1 if not low and high else 0
    side = widths.get(of_grid) or _side_of(cells)
    return (("cell",), side) if side else ((), 0)


def _side_of(cells: int) -> int:
    """Return the side of a square of cells; 0 if they are none."""
    side = isqrt(cells)
    return side if side * side == cells else 0


def _is_number(field: PlayedField | None) -> bool:
    return field is not None and not field[1]


def _colors_of(table: PlayedTable, place: tuple[str, ...]) -> dict[str, Colors]:
    """Return the fields by which rows may be colored: categories, then numbers, then directions."""
    found: dict[Colors, list[str]] = {"category": [], "number": [], "direction": []}
    for name, (dtype, shape, *_) in table.fields.items():
        if name not in place and not shape:
            found["category" if dtype in _OF_ONE_BYTE else "number"].append(name)
        elif name not in place and shape == [2]:
            found["direction"].append(name)
    return {name: form for form, names in found.items() for name in names}


def _colors_of_cells(table: PlayedTable) -> dict[str, Colors]:
    """Return the fields by which cells may be colored: numbers, categories, the agents' count."""
    colors = _colors_of(table, (_AGENT,))
    layers = [name for name, form in colors.items() if form != "direction"]
    layers.sort(key=lambda name: (name == _AGENTS, colors[name] != "number"))
    return {name: colors[name] for name in layers}


def _places(table: PlayedTable, portrayal: RowPortrayal, count: int) -> tuple[bool, Any, Any]:
    """Return whether rows share a cell, and x and y of the first rows."""
    import numpy as np  # noqa: PLC0415  # an extra

    numbers = np.arange(count)
    if portrayal.network is not None:
        nodes = table.column(portrayal.place[0])[:count] if portrayal.place else numbers
        is_node = (nodes >= 0) & (nodes < len(portrayal.network.x))
        x, y = (
            np.where(is_node, np.asarray(at)[np.where(is_node, nodes, 0)], np.nan)
            for at in (portrayal.network.x, portrayal.network.y)
        )
        if portrayal.place:  # beside the node and the others at it
            x, y = x + _AROUND * np.cos(numbers), y + _AROUND * np.sin(numbers)
        return False, x, y
    if not portrayal.side:
        parts = [table.column(field)[:count] for field in portrayal.place]
        x, y = parts if len(parts) == 2 else (parts[0][:, 0], parts[0][:, 1])  # noqa: PLR2004  # x and y
        return False, x, y
    cells = table.column(portrayal.place[0])[:count] if portrayal.place else numbers
    cells = cells.astype(np.int64)
    y, x = np.divmod(cells, portrayal.side)
    is_shared = len(np.unique(cells)) < count
    if is_shared:  # a row keeps its place within the cell, so that it can be followed
        x = x + _SPREAD * (numbers * _GOLDEN % 1 - 0.5)
        y = y + _SPREAD * (numbers * _PLASTIC % 1 - 0.5)
    return is_shared, x, y


def _encoded(values: Any) -> str:  # noqa: ANN401  # an array of numpy
    return b64encode(values.astype("<f4").tobytes()).decode()
