"""Draws the map of a state as an array of pixels, without a display: the map of the player.

Every entity with a position of two or three numbers is drawn, from above: round and square in
turns, in a color for each collection.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from placet.history.timeline.moments import point_of
from placet.schemas.codec import Json

Pixels = npt.NDArray[np.uint8]
Frame = tuple[float, float, float, float]
"""left, bottom, right, top, in the coordinates of the positions."""

_GROUND: Final = (245, 244, 240)
_COLORS: Final = ((31, 111, 84), (192, 122, 18), (43, 93, 154), (138, 74, 156))
_MARGIN: Final = 14
_RADIUS: Final = 3


def draw_map(
    state: Mapping[str, Mapping[str, Mapping[str, Json]]],
    frame: Frame | None = None,
    *,
    size: tuple[int, int] = (480, 320),
) -> tuple[Pixels, Frame | None]:
    """Draw the entities of a state. O(entities).

    Args:
        state: collection -> entity -> field -> value.
        frame: Smallest extent of the picture; it is widened to all positions.
        size: Width and height, pixels.

    Returns:
        The picture (height x width x 3, uint8), and the frame that it shows; None without any
        position.
    """
    width, height = size
    image = np.full((height, width, 3), _GROUND, np.uint8)
    layers = [
        points for rows in map(state.__getitem__, sorted(state)) if len(points := _points(rows))
    ]
    if not layers:
        return image, frame
    frame = _widened(frame, np.concatenate(layers))
    left, bottom, right, top = frame
    scale = min(
        (width - 2 * _MARGIN) / (right - left or 1), (height - 2 * _MARGIN) / (top - bottom or 1)
    )
    center = np.array([(left + right) / 2, (bottom + top) / 2])
    for number, points in enumerate(layers):
        placed = (points - center) * scale * [1, -1] + [width / 2, height / 2]
        _draw(image, np.rint(placed).astype(int), _mark(number), _COLORS[number % len(_COLORS)])
    return image, frame


def _points(rows: Mapping[str, Mapping[str, Json]]) -> npt.NDArray[np.float64]:
    found = (point_of(fields.get("position")) for fields in rows.values())
    return np.array([point for point in found if point is not None], np.float64).reshape(-1, 2)


def _widened(frame: Frame | None, points: npt.NDArray[np.float64]) -> Frame:
    low, high = points.min(axis=0), points.max(axis=0)
    if frame is not None:
        low, high = np.minimum(low, frame[:2]), np.maximum(high, frame[2:])
    return float(low[0]), float(low[1]), float(high[0]), float(high[1])


def _mark(number: int) -> npt.NDArray[np.int_]:
    """Return the pixels of a mark, (n x 2) around its center."""
    across, down = np.meshgrid(np.arange(-_RADIUS, _RADIUS + 1), np.arange(-_RADIUS, _RADIUS + 1))
    is_in = across**2 + down**2 <= _RADIUS**2
    if number % 2:
        is_in = np.maximum(abs(across), abs(down)) < _RADIUS
    return np.stack([across[is_in], down[is_in]], axis=1)


def _draw(
    image: Pixels,
    centers: npt.NDArray[np.int_],
    mark: npt.NDArray[np.int_],
    color: tuple[int, int, int],
) -> None:
    pixels = (centers[:, None, :] + mark[None, :, :]).reshape(-1, 2)
    height, width, _ = image.shape
    is_inside = (pixels >= 0).all(axis=1) & (pixels < [width, height]).all(axis=1)
    across, down = pixels[is_inside].T
    image[down, across] = color
