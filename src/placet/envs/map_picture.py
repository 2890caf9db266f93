"""Draws the picture of an environment's world, without a display: marks, cells, a caption.

Needs pygame (extra `render`). A picture is drawn at twice its size and scaled down, which smooths
the edges of marks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import cos, floor, pi, sin, sqrt
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from placet.envs.map_colors import GROUND, INK, LINE, PANEL, Legend, Rgb
from placet.envs.map_marks import MapMark
from placet.schemas.printable import printable

if TYPE_CHECKING:
    import pygame

Pixels: TypeAlias = npt.NDArray[np.uint8]
Frame: TypeAlias = tuple[float, float, float, float]
"""left, bottom, right, top, in the coordinates of the positions."""
Place: TypeAlias = tuple[float, float]

WIDTH: Final = 640
HEIGHT: Final = 480
"""Size of every picture, pixels."""
_FINE: Final = 2
"""Pixels drawn for one of the picture, in each direction."""
_MARGIN, _CAPTION, _LEGEND = 12, 30, 24
_TEXT, _LABEL = 20, 17
_RADIUS, _RADIUS_MAX, _OF_CELL = 5.0, 16.0, 0.3
_LINES_MAX: Final = 200
"""Cells along a side, beyond which grid lines would cover the map."""
_GOAL: Final[Rgb] = (31, 111, 84)
_GOAL_SOFT: Final[Rgb] = (214, 232, 220)
_BLOCKED: Final[Rgb] = (60, 61, 57)
_GOLDEN_RAD: Final = 2.399963
"""Between neighbors of a spiral: marks that share a place."""


@dataclass(frozen=True, slots=True)
class MapCells:
    """The ground under the marks.

    Attributes:
        side: Side of a cell, around whole multiples of itself; None draws no grid lines.
        goals: Centers of the cells that are goals.
        blocked: Centers of the cells that nothing can enter.
    """

    side: float | None
    goals: Sequence[Place]
    blocked: Sequence[Place]

    @property
    def places(self) -> Sequence[Place]:
        """Centers of all cells that are drawn."""
        return [*self.goals, *self.blocked]


def draw_picture(
    marks: Sequence[MapMark], cells: MapCells, frame: Frame, legend: Legend, caption: str
) -> "pygame.Surface":
    """Draw a map with its caption, `WIDTH` x `HEIGHT` pixels. O(marks).

    Args:
        marks: The marks on the map; later ones cover earlier ones.
        cells: The ground.
        frame: The extent that is shown, between the centers of the outermost cells.
        legend: Meaning of the colors; empty for none.
        caption: The line below the map, cut to the width.
    """
    import pygame  # noqa: PLC0415  # an extra

    pygame.font.init()
    surface = pygame.Surface((WIDTH * _FINE, HEIGHT * _FINE), depth=32)
    surface.fill(GROUND)
    top = _LEGEND if legend else 0
    drawing = _Drawing(pygame, surface, cells, frame, top)
    drawing.draw_cells()
    drawing.draw_marks(marks)
    drawing.draw_legend(legend)
    drawing.draw_caption(caption)
    return pygame.transform.smoothscale(surface, (WIDTH, HEIGHT))


def pixels_of(surface: "pygame.Surface") -> Pixels:
    """Return a picture as an array, height x width x 3, uint8."""
    import pygame  # noqa: PLC0415  # an extra

    return np.ascontiguousarray(pygame.surfarray.array3d(surface).swapaxes(0, 1))


class _Drawing:
    """One picture while it is drawn; lengths are pixels of the fine surface."""

    def __init__(
        self,
        library: Any,  # noqa: ANN401  # a module
        surface: "pygame.Surface",
        cells: MapCells,
        frame: Frame,
        top: int,
    ) -> None:
        self._pygame, self._surface, self._cells = library, surface, cells
        self._fonts = {size: library.font.Font(None, size * _FINE) for size in (_TEXT, _LABEL)}
        half = (cells.side or 0.0) / 2
        left, bottom, right, upper = frame
        self._left, self._bottom = left - half, bottom - half
        self._wide, self._high = (
            right + half - self._left or 1.0,
            upper + half - self._bottom or 1.0,
        )
        width = (WIDTH - 2 * _MARGIN) * _FINE
        height = (HEIGHT - _CAPTION - _MARGIN - top) * _FINE
        self._scale = min(width / self._wide, height / self._high)
        self._ox = _MARGIN * _FINE + (width - self._wide * self._scale) / 2
        self._oy = (_MARGIN + top) * _FINE + (height + self._high * self._scale) / 2
        self._cell_px = (cells.side or 0.0) * self._scale

    def _at(self, x: float, y: float) -> Place:
        return self._ox + (x - self._left) * self._scale, self._oy - (
            y - self._bottom
        ) * self._scale

    def draw_cells(self) -> None:
        """Draw the extent, goals, blocked cells and grid lines."""
        draw, surface, side = self._pygame.draw, self._surface, self._cells.side
        left, below = self._at(self._left, self._bottom)
        right, above = self._at(self._left + self._wide, self._bottom + self._high)
        draw.rect(surface, PANEL, (left, above, right - left, below - above))
        for place in self._cells.goals:
            draw.rect(surface, _GOAL_SOFT, self._cell(place))
        for place in self._cells.blocked:
            draw.rect(surface, _BLOCKED, self._cell(place))
        if side is not None and max(self._wide, self._high) / side <= _LINES_MAX:
            for number in range(floor(self._wide / side + 0.5) + 1):
                x, _ = self._at(self._left + number * side, 0)
                draw.line(surface, LINE, (x, above), (x, below), _FINE)
            for number in range(floor(self._high / side + 0.5) + 1):
                _, y = self._at(0, self._bottom + number * side)
                draw.line(surface, LINE, (left, y), (right, y), _FINE)
        for place in self._cells.goals:
            draw.rect(surface, _GOAL, self._cell(place), 2 * _FINE)

    def _cell(self, place: Place) -> tuple[float, float, float, float]:
        x, y = self._at(*place)
        side = self._cell_px or 2 * _RADIUS_MAX * _FINE
        return x - side / 2, y - side / 2, side, side

    def draw_marks(self, marks: Sequence[MapMark]) -> None:
        """Draw the marks, those of one place beside each other, and then their labels."""
        largest = _RADIUS_MAX * _FINE
        plain = _RADIUS * _FINE
        if self._cell_px:
            largest = min(largest, 0.45 * self._cell_px)
            plain = min(max(_OF_CELL * self._cell_px, 2 * _FINE), largest)
        drawn: dict[Place, list[str]] = {}
        for mark in marks:
            x, y = self._at(mark.x, mark.y)
            labels = drawn.setdefault((x, y), [])
            away = plain * sqrt(len(labels))
            turn = len(labels) * _GOLDEN_RAD
            radius = plain if mark.size is None else max(2.0 * _FINE, largest * mark.size)
            self._draw_mark(mark, x + away * cos(turn), y + away * sin(turn), radius)
            labels.append(mark.label)
        self._draw_labels(drawn, plain)

    def _draw_labels(self, drawn: Mapping[Place, Sequence[str]], below: float) -> None:
        """Write the labels, but for one that would cover another."""
        written: list[Any] = []
        font = self._fonts[_LABEL]
        for (x, y), labels in drawn.items():
            text = ", ".join(label for label in labels if label)
            if not text:
                continue
            text = _cut(font, printable(text), (WIDTH - 4) * _FINE)
            width, height = font.size(text)
            left = min(max(x - width / 2, 2 * _FINE), (WIDTH - 2) * _FINE - width)
            place = self._pygame.Rect(left, y + below + _FINE, width, height)
            if place.collidelist(written) < 0:
                written.append(place)
                for color, off in ((PANEL, -_FINE), (PANEL, _FINE), (INK, 0)):
                    self._surface.blit(font.render(text, True, color), place.move(off, 0))

    def _draw_mark(self, mark: MapMark, x: float, y: float, radius: float) -> None:
        draw, surface = self._pygame.draw, self._surface
        corners = _CORNERS.get(mark.shape)
        if corners is None:
            draw.circle(surface, PANEL, (x, y), radius + _FINE)
            draw.circle(surface, mark.color, (x, y), radius)
            if mark.shape == _RING:
                draw.circle(surface, PANEL, (x, y), radius / 2)
            return
        outline = [(x + radius * across, y + radius * down) for across, down in corners]
        draw.polygon(surface, mark.color, outline)
        draw.polygon(surface, PANEL, outline, _FINE)

    def draw_legend(self, legend: Legend) -> None:
        """Draw the meaning of the colors, as far as there is room."""
        x, y = float(_MARGIN * _FINE), (_MARGIN + _LEGEND / 2 - 4) * _FINE
        for color, meaning in legend:
            self._pygame.draw.circle(self._surface, color, (x + 6 * _FINE, y), 6 * _FINE)
            x = self._write(meaning, x + 16 * _FINE, y, _LABEL) + 14 * _FINE
            if x > (WIDTH - 5 * _MARGIN) * _FINE:
                return

    def draw_caption(self, caption: str) -> None:
        """Write the caption below the map."""
        self._write(caption, _MARGIN * _FINE, (HEIGHT - _CAPTION / 2) * _FINE, _TEXT)

    def _write(self, text: str, x: float, y: float, size: int) -> float:
        """Write a text with its middle at a height, as far as there is room; return its end."""
        font = self._fonts[size]
        shown = _cut(font, printable(text), (WIDTH - 2) * _FINE - x)
        width, height = font.size(shown)
        self._surface.blit(font.render(shown, True, INK), (x, y - height / 2))
        return float(x + width)


def _cut(font: "pygame.font.Font", text: str, room: float) -> str:
    if font.size(text)[0] <= room:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (
            (middle, high) if font.size(f"{text[:middle]}…")[0] <= room else (low, middle - 1)
        )
    return f"{text[:low]}…"


def _polygon(corners: int, turned: float) -> Sequence[Place]:
    angles = [turned + 2 * pi * number / corners for number in range(corners)]
    return [(1.2 * cos(angle), 1.2 * sin(angle)) for angle in angles]


def _bars(turned: float) -> Sequence[Place]:
    """Return the outline of two bars across each other."""
    corner = ((0.35, 1.1), (0.35, 0.35), (1.1, 0.35))
    turns = [turned + quarter * pi / 2 for quarter in range(4)]
    return [
        (x * cos(turn) - y * sin(turn), x * sin(turn) + y * cos(turn))
        for turn in turns
        for x, y in corner
    ]


_RING: Final = 7
_CORNERS: Final[Mapping[int, Sequence[Place]]] = {
    1: [(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
    2: _polygon(3, -pi / 2),
    3: _polygon(4, 0.0),
    4: _bars(0.0),
    5: _bars(pi / 4),
    6: _polygon(3, pi / 2),
}
"""Corners of the shapes of marks that are no circles; down is positive."""
