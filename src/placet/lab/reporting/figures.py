"""The parts of a report: facts, and figures with their data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Final, NamedTuple, TypeAlias

from placet.lab.intervals import is_finite
from placet.schemas.codec import Json, to_json

Columns: TypeAlias = Mapping[str, Sequence[Json]]
"""A table by column: all columns have the same length."""

_FROM_ZERO: Final = 0.8
"""Largest share of the lowest to the highest value with which an axis begins at 0."""

_PAD: Final = 0.06
"""Room beyond the values, as a share of their range."""


class Axis(NamedTuple):
    """The x axis of a line chart, apart from its lines, which may have any name, also that of x."""

    name: str
    values: Sequence[Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure of a report.

    Attributes:
        title: Short title.
        note: A sentence on how to read it; may be empty.
        data: Its data: a table that the page shows and offers as CSV.
        x: The x axis of a line chart of the columns of `data`; None: they are no lines.
        drawing: An SVG document that shows the data; empty if there is none.
        unit: Unit of the y axis; may be empty.
        steps: Draw lines as steps, for counts.
        band: Shade the area between the first and the last of three lines.
        y_range: Range of the y axis, shared by small multiples; None fits the lines.
    """

    title: str
    note: str = ""
    data: Columns
    x: Axis | None = None
    drawing: str = ""
    unit: str = ""
    steps: bool = False
    band: bool = False
    y_range: tuple[float, float] | None = None

    @property
    def table(self) -> list[tuple[str, Sequence[Json]]]:
        """The names and columns to show, the x axis first; no two have one name."""
        table: dict[str, Sequence[Json]] = {} if self.x is None else {self.x.name: self.x.values}
        for name, column in self.data.items():
            distinct = name
            while distinct in table:
                distinct = f"{distinct} (series)"
            table[distinct] = column
        return list(table.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSection:
    """A titled group of figures.

    Attributes:
        title: Short title.
        figures: The figures.
        empty: The sentence to show if there are none.
        note: Sentences on how to read them all; may be empty.
    """

    title: str
    figures: Sequence[Figure]
    empty: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The content of a report.

    Attributes:
        title: Title of the page.
        subtitle: A sentence below it; may be empty.
        facts: `(label, value)` pairs, shown at the top.
        sections: The sections, in order.
    """

    title: str
    subtitle: str
    facts: Sequence[tuple[str, str]]
    sections: Sequence[ReportSection]


def y_range_of(values: Sequence[Json]) -> tuple[float, float] | None:
    """Return the range of an axis, from 0 where that keeps the differences readable.

    None if no value is a finite number, or they are farther apart than the largest double.
    """
    found = [float(value) for value in values if is_finite(value)]
    if not found:
        return None
    low, high = min(found), max(found)
    if low >= 0 and (low == high or low <= high * _FROM_ZERO):
        y_range = 0.0, high * (1 + _PAD) or 1.0
    else:
        pad = (high - low) * _PAD or abs(high) * _PAD
        y_range = low - pad, high + pad
    return y_range if isfinite(y_range[1] - y_range[0]) else None


def table_of(rows: Sequence[Mapping[str, Json]]) -> dict[str, list[Json]]:
    """Return rows as columns; a column that a row lacks is None there."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def listed(title: str, rows: Sequence[Mapping[str, Json]], note: str = "") -> list[Figure]:
    """Return rows as the figure of a table; no figure without rows."""
    return [Figure(title=title, note=note, data=table_of(rows))] if rows else []


def text_of(value: Json) -> str:
    """Return a value of an option as text: JSON, unless it is text already."""
    return value if isinstance(value, str) else to_json(value).decode()
