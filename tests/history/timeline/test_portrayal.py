"""Where the rows of a table stand on a map, and by which field they are colored, by default."""

from base64 import b64decode
from typing import Any

import numpy as np
import pytest

from placet.history.timeline.fold import PlayedState
from placet.history.timeline.portrayal import RowPortrayal, layer_of, portrayals_of
from placet.history.timeline.tables import PlayedPopulation, PlayedTable
from placet.schemas.portrayal import Portrayal

ROWS = 6
PLACES = {"position": ("f8", [2], 0), "heading": ("f8", [2], 0), "energy": ("i4", [], 0)}


def table(fields: dict[str, Any], count: int = ROWS, **columns: Any) -> PlayedTable:
    whole = {name: (*spec, None, None) if len(spec) == 3 else spec for name, spec in fields.items()}
    arrays = {
        name: bytearray(
            np.asarray(
                columns.get(name, np.zeros((count, *shape))),
                dtype,
            ).tobytes()
        )
        for name, (dtype, shape, *_) in whole.items()
    }
    return PlayedTable("rows", count, whole, arrays)


def state_of(**tables: PlayedTable) -> PlayedState:
    named = {f"lab.{name}": one for name, one in tables.items()}
    return PlayedState(tables=named, populations={"rows": PlayedPopulation("ann", None, ROWS)})


def decoded(column: str) -> list[float]:
    return list(map(float, np.frombuffer(b64decode(column), "<f4")))


def cell(high: int | None) -> tuple[Any, ...]:
    return ("i4", [], 0, 0, high)


@pytest.mark.parametrize(
    ("fields", "place", "side"),
    [
        (PLACES, ("position",), 0),
        ({"position": ("f4", [3], 0)}, ("position",), 0),
        ({"x": ("f8", [], 0), "y": ("i2", [], 0)}, ("x", "y"), 0),
        ({"cell": cell(24)}, ("cell",), 5),
        ({"cell": cell(None)}, (), 3),
        ({"cell": cell(23)}, (), 3),  # no square: how wide the grid is, is not known
        ({"cell": ("f8", [], 0, 0, 24)}, (), 3),
        ({"position": ("f8", [], 0)}, (), 3),
        ({"coins": ("i4", [], 0)}, (), 3),
    ],
)
def test_the_place_is_found_by_the_names_and_bounds_of_fields(fields, place, side):
    found = portrayals_of(state_of(agents=table(fields)), has_places=False)["lab.agents"]
    assert (found.place, found.side) == (place, side)


def test_a_cell_is_one_of_the_table_of_cells():
    cells = table({"who": ("i4", [], -1)}, 49)
    found = portrayals_of(
        state_of(agents=table({"cell": cell(None)}), cells=cells), has_places=False
    )
    assert (found["lab.agents"].place, found["lab.agents"].side) == (("cell",), 7)


CELLS = {"count": ("i4", [], 0), "state": ("u1", [], 0), "flow": ("f4", [2], 0)}


def test_cells_are_areas_colored_by_a_layer_and_not_by_the_number_of_their_agent():
    fields = {"who": ("i4", [], -1), **CELLS, "sugar": ("f8", [], 0)}
    cells = table(fields, 49)
    cells.stem = "cells"
    (found,) = portrayals_of(state_of(cells=cells), has_places=False).values()
    assert (found.is_cells, found.side) == (True, 7)
    assert list(found.colors) == ["sugar", "state", "count"]
    layer: Any = layer_of("lab.cells", cells, found, "sugar", 100)
    assert (layer["width"], layer["count"], len(decoded(layer["color"]["values"]))) == (7, 49, 49)
    assert "x" not in layer


@pytest.mark.parametrize(
    ("name", "count", "width", "side"),
    [
        ("cells", 48, None, None),  # no square
        ("cells", 48, 8, 8),
        ("cells", 49, 7, 7),
        ("soil", 49, None, None),  # of no such name
        ("soil", 50, 10, 10),
    ],
)
def test_the_grid_of_cells_is_a_square_or_has_a_width(name, count, width, side):
    cells = table(CELLS, count)
    cells.stem = "cells"
    portrayals = {f"lab.{name}": Portrayal(width=width)}
    found = portrayals_of(state_of(**{name: cells}), has_places=True, portrayals=portrayals)
    assert [one.side for one in found.values()] == ([] if side is None else [side])


@pytest.mark.parametrize("named", ["lab.cells", "lab.agents"])
def test_the_width_of_a_grid_places_the_rows_in_its_cells(named):
    cells, agents = table(CELLS, 48), table({"cell": cell(47), "x": ("f4", [], 0)}, 2, cell=[9, 47])
    cells.stem = "cells"
    agents.fields.pop("x")
    state = state_of(cells=cells, agents=agents)
    found = portrayals_of(state, has_places=False, portrayals={named: Portrayal(width=8)})
    layer: Any = layer_of("lab.agents", agents, found["lab.agents"], None, 2)
    assert (decoded(layer["x"]), decoded(layer["y"])) == ([1, 7], [1, 5])


def test_rows_without_a_place_are_not_drawn_where_others_have_one():
    without = table({"coins": ("i4", [], 0)})
    assert not portrayals_of(state_of(agents=without), has_places=True)
    assert list(portrayals_of(state_of(agents=without, birds=table(PLACES)), has_places=False)) == [
        "lab.birds"
    ]


def test_categories_come_before_numbers_and_directions():
    fields = {"wind": ("f8", [2], 0), "coins": ("i4", [], 0), "state": ("u1", [], 0), **PLACES}
    (found,) = portrayals_of(state_of(agents=table(fields)), has_places=False).values()
    assert list(found.colors.items()) == [
        ("state", "category"),
        ("coins", "number"),
        ("energy", "number"),
        ("wind", "direction"),
        ("heading", "direction"),
    ]


def test_a_layer_has_places_and_colors_as_arrays():
    heading = [[1, 0], [0, 1], [-1, 0], [0, -1], [2, 2], [0, 0]]
    position = np.arange(12).reshape(6, 2)
    drawn = table(PLACES, position=position, heading=heading)
    portrayal = RowPortrayal(("position",), 0, {"heading": "direction", "energy": "number"})
    layer: Any = layer_of("lab.agents", drawn, portrayal, "heading", 5)
    assert (layer["count"], layer["total"], layer["grid"]) == (5, 6, False)
    assert decoded(layer["x"]) == [0, 2, 4, 6, 8]
    assert decoded(layer["y"]) == [1, 3, 5, 7, 9]
    assert layer["color"]["form"] == "direction"
    assert decoded(layer["color"]["values"]) == pytest.approx(
        [0, np.pi / 2, np.pi, -np.pi / 2, np.pi / 4]
    )
    assert "color" not in layer_of("lab.agents", drawn, portrayal, None, 5)


def test_the_marks_of_rows_are_arrays_and_those_of_vectors_are_left_out():
    drawn = table(PLACES, position=np.zeros((6, 2)), energy=2 * np.arange(6))
    portrayal = RowPortrayal(("position",), 0, {"energy": "number"})
    layer: Any = layer_of(
        "lab.agents", drawn, portrayal, None, 5, Portrayal(size="energy", label="position")
    )
    assert (layer["size"]["field"], decoded(layer["size"]["values"])) == (
        "energy",
        [0, 2, 4, 6, 8],
    )
    assert "label" not in layer


def test_cells_of_one_row_each_make_a_grid_and_shared_ones_are_spread():
    portrayal = RowPortrayal(("cell",), 3, {})
    alone: Any = layer_of(
        "lab.agents", table({"cell": cell(8)}, cell=[8, 1, 2, 3, 4, 5]), portrayal, None, ROWS
    )
    assert alone["grid"]
    assert decoded(alone["x"]) == [2, 1, 2, 0, 1, 2]
    assert decoded(alone["y"]) == [2, 0, 0, 1, 1, 1]
    shared: Any = layer_of(
        "lab.agents", table({"cell": cell(8)}, cell=[4, 4, 4, 4, 4, 5]), portrayal, None, ROWS
    )
    assert not shared["grid"]
    places = list(zip(decoded(shared["x"]), decoded(shared["y"]), strict=True))
    assert len(set(places)) == ROWS
    assert all(0.6 - 1e-6 <= x <= 1.4 + 1e-6 and 0.6 - 1e-6 <= y <= 1.4 for x, y in places[:5])
