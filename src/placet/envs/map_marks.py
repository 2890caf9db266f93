"""The marks of a drawn map: color, shape, size and label of each entity with a place.

A mark comes from a layer of the player, so entities, rows of tables and portrayals are drawn as
in the player. Where no field colors a collection, each agent has its color and its name.
"""

from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from placet.envs.map_colors import CATEGORIES, QUIET, ColorScales, Legend, Rgb, category
from placet.history.timeline.fold import PlayedState
from placet.history.timeline.moments import map_of
from placet.schemas.portrayal import Portrayal, Portrayals

if TYPE_CHECKING:
    from placet.schemas.codec import Json

SHAPES: Final = 8
"""Shapes of marks: disc, square, triangle, diamond, plus, cross, triangle downwards, ring."""

_DISC, _SQUARE = 0, 1
_LABELS_MAX: Final = 200
_PLAIN: Final = Portrayal()


@dataclass(frozen=True, slots=True)
class MapMark:
    """One entity or row on the map.

    Attributes:
        x: Place, in the coordinates of the positions.
        y: Likewise.
        color: Its color.
        shape: Number of its shape, below `SHAPES`.
        size: Radius as a part of the largest one, 0 to 1; None for a plain mark.
        label: Text beside it; empty for none.
    """

    x: float
    y: float
    color: Rgb
    shape: int
    size: float | None
    label: str


class MapMarks:
    """Makes the marks of the states of one environment.

    Args:
        agents: The agents, which have a color each.
        portrayals: How collections and tables are drawn.
    """

    def __init__(self, agents: Sequence[str], portrayals: Portrayals) -> None:
        self._numbers = {agent: number for number, agent in enumerate(agents)}
        self._portrayals = portrayals
        self._scales = ColorScales()
        self._shapes: dict[str, dict[Json, int]] = {}

    def of(self, state: PlayedState) -> tuple[list[MapMark], Legend, Sequence[str]]:
        """Return the marks of a state, agents last, the legend, and the problems of portrayals."""
        shown = map_of(state, portrayals=self._portrayals)
        layers = [layer for layer in shown["map"] if "x" in layer]  # cells are drawn by the player
        has_labels = sum(len(_numbers_in(layer["x"])) for layer in layers) <= _LABELS_MAX
        marks: list[MapMark] = []
        legend: list[tuple[Rgb, str]] = []
        for layer in sorted(layers, key=self._is_of_agents):
            colors, keys = self._colors(layer)
            legend += keys
            marks += self._marks(layer, colors, has_labels=has_labels)
        return marks, legend, shown["unknown"]

    def _is_of_agents(self, layer: Mapping[str, Any]) -> bool:
        return any(name in self._numbers for name in _names_in(layer)[:1])

    def _marks(
        self, layer: Mapping[str, Any], colors: Sequence[Rgb], *, has_labels: bool
    ) -> Iterator[MapMark]:
        names = _names_in(layer)
        sizes, shapes = self._sizes(layer, len(names)), self._shapes_of(layer, names)
        labels = self._labels(layer, names) if has_labels else [""] * len(names)
        places = _numbers_in(layer["x"]), _numbers_in(layer["y"])
        marks = map(MapMark, *places, colors, shapes, sizes, labels)
        yield from (mark for mark in marks if mark.x == mark.x)  # else at no node of a network

    def _portrayal(self, layer: Mapping[str, Any]) -> Portrayal:
        return self._portrayals.get(layer["collection"], _PLAIN)

    def _colors(self, layer: Mapping[str, Any]) -> tuple[Sequence[Rgb], Legend]:
        if self._portrayal(layer).color is None or "color" not in layer:
            return [self._own_color(name) for name in _names_in(layer)], ()
        color = layer["color"]
        key = f"{layer['collection']}/{color['field']}"
        values = _numbers_in(color["values"])
        return self._scales.colored(key, color["form"], values, color.get("names", ()))

    def _own_color(self, name: str) -> Rgb:
        number = self._numbers.get(name)
        return QUIET if number is None else category(number % len(CATEGORIES))

    def _shapes_of(self, layer: Mapping[str, Any], names: Sequence[str]) -> Sequence[int]:
        if "marker" in layer:
            marker = layer["marker"]
            shapes = self._shapes.setdefault(f"{layer['collection']}/{marker['field']}", {})
            values = _numbers_in(marker["values"])
            for value in sorted({value for value in values if value is not None}, key=str):
                shapes.setdefault(value, min(len(shapes), SHAPES - 1))
            return [shapes.get(value, SHAPES - 1) for value in values]
        if self._portrayal(layer).color is not None:
            return [_DISC] * len(names)
        return [self._own_shape(name) for name in names]

    def _own_shape(self, name: str) -> int:
        """Return the shape of an agent: a color that comes again has another one."""
        number = self._numbers.get(name)
        return _SQUARE if number is None else number // len(CATEGORIES) % SHAPES

    def _sizes(self, layer: Mapping[str, Any], count: int) -> Sequence[float | None]:
        if "size" not in layer:
            return [None] * count
        values = _numbers_in(layer["size"]["values"])
        key = f"size of {layer['collection']}/{layer['size']['field']}"
        low, high = self._scales.range_of(key, [0, *(v for v in values if v is not None)])
        wide = high - low or 1
        return [0.0 if value is None else sqrt((value - low) / wide) for value in values]

    def _labels(self, layer: Mapping[str, Any], names: Sequence[str]) -> Sequence[str]:
        if "label" in layer:
            values = _numbers_in(layer["label"]["values"])
            return ["" if value is None else str(value) for value in values]
        return [name if name in self._numbers else "" for name in names]


def _names_in(layer: Mapping[str, Any]) -> Sequence[str]:
    names: Sequence[str] | None = layer.get("ids")
    return names or [f"{layer['stem']}:{number}" for number in range(layer["count"])]


def _numbers_in(values: str | Sequence[Any]) -> Sequence[Any]:
    """Return the values of a layer; those of a table are arrays of f4 in base64."""
    if not isinstance(values, str):
        return values
    array = np.frombuffer(b64decode(values), "<f4")
    is_whole = bool((array == np.rint(array)).all())
    numbers: list[Any] = (array.astype(np.int64) if is_whole else array).tolist()
    return numbers
