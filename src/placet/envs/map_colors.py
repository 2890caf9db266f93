"""The colors of a drawn map, which are the colors of the player, and of the values of fields.

A value keeps its color along all pictures of an environment: categories are added, and a scale only
widens, as in the player.
"""

from collections.abc import Mapping, Sequence
from math import pi
from typing import Any, Final, TypeAlias

import numpy as np

from placet.schemas.codec import Json

Rgb: TypeAlias = tuple[int, int, int]
Legend: TypeAlias = Sequence[tuple[Rgb, str]]
"""Colors and what each of them means."""

GROUND: Final[Rgb] = (245, 244, 240)
PANEL: Final[Rgb] = (255, 255, 255)
LINE: Final[Rgb] = (224, 221, 212)
INK: Final[Rgb] = (30, 31, 28)
QUIET: Final[Rgb] = (98, 99, 92)
CATEGORIES: Final[Sequence[Rgb]] = (
    (5, 50, 111),
    (255, 128, 5),
    (104, 194, 223),
    (201, 15, 0),
    (109, 31, 199),
    (169, 146, 117),
    (85, 116, 195),
    (99, 31, 56),
)
"""Colors that stay apart with each kind of color blindness: `--kind-1` to `--kind-8` of
`server/dashboard/player.css`, on light ground."""

SCALE: Final[Sequence[Rgb]] = (
    (195, 214, 180),
    (111, 174, 131),
    (31, 111, 84),
    (29, 74, 110),
    (42, 23, 69),
)
"""The stops of a scale of numbers, low to high: `SCALE.light` of `player_colors.js`."""

_LIGHTNESS, _CHROMA = 0.42, 0.3


class ColorScales:
    """Colors the values of fields; each field has a scale."""

    def __init__(self) -> None:
        self._known: dict[str, dict[Json, None]] = {}
        self._ranges: dict[str, tuple[float, float]] = {}

    def colored(
        self, key: str, form: str, values: Sequence[Any], names: Sequence[str]
    ) -> tuple[Sequence[Rgb], Legend]:
        """Return the color of each value, and the legend of the field.

        Args:
            key: Name of the field.
            form: `category`, `number` or `direction` (angles in radians).
            values: The values; None has no value.
            names: Names of the values 0, 1, 2, ...; or texts in the order of their colors.
        """
        if form == "direction":
            return [_of_angle(value) for value in values], ()
        if form == "category":
            known = self._known.setdefault(key, {})
            new = {value for value in values if value is not None} - known.keys()
            order = {name: number for number, name in enumerate(names)}
            known |= dict.fromkeys(
                sorted(new, key=lambda value: (order.get(value, len(order)), _rank(value)))
            )
            if len(known) <= len(CATEGORIES) or not all(map(_is_number, known)):
                return _by_category(known, values, names)
        return self._by_number(key, values)

    def range_of(self, key: str, numbers: Sequence[float]) -> tuple[float, float]:
        """Return the lowest and highest number of a field so far, these ones included."""
        low, high = self._ranges.get(key, (numbers[0], numbers[0]))
        self._ranges[key] = min(low, *numbers), max(high, *numbers)
        return self._ranges[key]

    def _by_number(self, key: str, values: Sequence[Any]) -> tuple[Sequence[Rgb], Legend]:
        low, high = self.range_of(key, [value for value in values if value is not None])
        wide = high - low or 1
        colors = [QUIET if value is None else _of_scale((value - low) / wide) for value in values]
        return colors, [(SCALE[0], f"{low:g}"), (SCALE[-1], f"{high:g}")]


def category(number: int) -> Rgb:
    """Return the color of a category; those beyond the last color are gray."""
    return CATEGORIES[number] if number < len(CATEGORIES) else QUIET


def _by_category(
    known: Mapping[Json, None], values: Sequence[Any], names: Sequence[str]
) -> tuple[Sequence[Rgb], Legend]:
    is_plain = all(_is_number(value) and value in range(len(CATEGORIES)) for value in known)
    number_of = {value: int(value) if is_plain else at for at, value in enumerate(known)}
    legend = [
        (category(number), names[number] if is_plain and number < len(names) else str(value))
        for value, number in sorted(number_of.items(), key=lambda item: item[1])
    ]
    colors = [QUIET if value is None else category(number_of[value]) for value in values]
    return colors, legend


def _rank(value: Json) -> tuple[bool, Any]:
    return isinstance(value, str), value


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _of_scale(part: float) -> Rgb:
    place = part * (len(SCALE) - 1)
    stop = min(len(SCALE) - 2, int(place))
    low, high = np.array(SCALE[stop]), np.array(SCALE[stop + 1])
    red, green, blue = np.rint(low + (high - low) * (place - stop)).astype(int).tolist()
    return red, green, blue


def _of_angle(angle: float) -> Rgb:
    turn = 12 * (angle / (2 * pi) % 1)
    at = [(offset + turn) % 12 for offset in (0, 8, 4)]
    red, green, blue = (
        round(255 * (_LIGHTNESS - _CHROMA * max(-1, min(one - 3, 9 - one, 1)))) for one in at
    )
    return red, green, blue
