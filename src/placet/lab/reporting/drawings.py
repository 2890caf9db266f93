"""Small SVG drawings. Colors are variables of the page, so that they follow light and dark."""

from collections.abc import Sequence
from math import floor, log10
from typing import Final, NamedTuple

from placet.lab.intervals import Interval
from placet.schemas.printable import printable_html

_WIDTH: Final = 340
_HEIGHT: Final = 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 12, 12, 40
_BAR_HEIGHT: Final = 36
_BAR_LABEL: Final = 52
"""Largest number of characters of the label of a bar, which has a line of its own."""


class Estimate(NamedTuple):
    """A mean with its interval, and the values behind it.

    Attributes:
        label: Label on the x axis.
        mean: The mean.
        interval: Its interval; of no length if there is one value, None if none is drawn.
        values: The single values.
    """

    label: str
    mean: float
    interval: Interval | None
    values: Sequence[float]


def lorenz(shares: Sequence[float], of: str) -> str:
    """Return a Lorenz curve: the share of all that the lowest share of agents has.

    Args:
        shares: A value of each agent, not negative, in any order.
        of: The noun of the values.
    """
    ordered, total = sorted(shares), sum(shares)
    points, sum_so_far = [(0.0, 0.0)], 0.0
    for number, share in enumerate(ordered, 1):
        sum_so_far += share
        points.append((number / len(ordered), sum_so_far / total if total else 0.0))
    step = max(1, len(points) // 200)
    shown = [*points[:-1:step], points[-1]]
    frame = _Frame((0.0, 1.0), (0.0, 1.0))
    curve = " ".join(f"{frame.x(x):.1f},{frame.y(y):.1f}" for x, y in shown)
    ends = f"{frame.x(0):.1f},{frame.y(0):.1f} {frame.x(1):.1f},{frame.y(1):.1f}"
    body = [
        *frame.axes([(n / 4, f"{n * 25} %") for n in range(5)], "share of the agents"),
        f'<polyline class="faint" points="{ends}"/>',
        f'<polyline class="curve" points="{curve}"/>',
    ]
    return _svg(body, f"Lorenz curve of {of} over {len(ordered)} agents")


def estimates(
    rows: Sequence[Estimate], name: str, x_label: str, y_range: tuple[float, float]
) -> str:
    """Return the dots of all values for each label, and the mean with its interval, if given.

    Args:
        rows: The estimates, in their order on the x axis.
        name: Name of the measured value.
        x_label: Name of the x axis.
        y_range: Lowest and highest value of the y axis.
    """
    frame = _Frame((0.0, float(len(rows))), y_range)
    ticks = [(place + 0.5, row.label) for place, row in enumerate(rows)]
    body = frame.axes(ticks, x_label)
    for place, row in enumerate(rows):
        center = frame.x(place + 0.5)
        spread = min(14.0, (frame.x(1) - frame.x(0)) * 0.3)
        for number, value in enumerate(row.values):
            shift = ((number * 7) % 11 - 5) / 5 * spread
            body.append(
                f'<circle class="dot" cx="{center + shift:.1f}" cy="{frame.y(value):.1f}" r="2.4"/>'
            )
        if row.interval is None:
            continue
        body.append(
            f'<line class="bar" x1="{center:.1f}" y1="{frame.y(row.interval.low):.1f}" '
            f'x2="{center:.1f}" y2="{frame.y(row.interval.high):.1f}"/>'
            f'<circle class="mean" cx="{center:.1f}" cy="{frame.y(row.mean):.1f}" r="4"/>'
        )
    shown = "; ".join(f"{row.label}: {number_text(row.mean)}" for row in rows[:8])
    return _svg(body, f"{name} by {x_label}: {shown}")


def lines_of_means(
    lines: Sequence[tuple[str, Sequence[Estimate]]],
    name: str,
    x_label: str,
    y_range: tuple[float, float],
) -> str:
    """Return a line through the means of each group, with their intervals, and a legend below.

    Args:
        lines: By group its label and its estimates, in their order on the x axis; a group may lack
            some.
        name: Name of the measured value.
        x_label: Name of the x axis.
        y_range: Lowest and highest value of the y axis.
    """
    labels = list(dict.fromkeys(row.label for _, rows in lines for row in rows))
    frame = _Frame((0.0, float(len(labels))), y_range)
    body = frame.axes([(place + 0.5, label) for place, label in enumerate(labels)], x_label)
    for number, (_, rows) in enumerate(lines):
        shift = (number - (len(lines) - 1) / 2) * 0.06  # intervals at one place stay readable
        color = f"var(--s{number % 8 + 1})"
        places = [frame.x(labels.index(row.label) + 0.5 + shift) for row in rows]
        points = " ".join(
            f"{x:.1f},{frame.y(row.mean):.1f}" for x, row in zip(places, rows, strict=True)
        )
        body.append(f'<polyline class="curve" style="stroke:{color}" points="{points}"/>')
        for x, row in zip(places, rows, strict=True):
            low, high = row.interval or (row.mean, row.mean)
            body.append(
                f'<line class="bar" style="stroke:{color}" x1="{x:.1f}" y1="{frame.y(low):.1f}" '
                f'x2="{x:.1f}" y2="{frame.y(high):.1f}"/><circle class="mean" '
                f'style="fill:{color}" cx="{x:.1f}" cy="{frame.y(row.mean):.1f}" r="3.5"/>'
            )
    legend = "".join(
        f'<li><i style="background:var(--s{number % 8 + 1})"></i>{printable_html(label)}</li>'
        for number, (label, _) in enumerate(lines)
    )
    shown = f"{name} by {x_label}: a line for each of {', '.join(label for label, _ in lines)}"
    return f'{_svg(body, shown)}<ul class="legend">{legend}</ul>'


class ShareBar(NamedTuple):
    """A share of a whole.

    Attributes:
        label: Label above the bar.
        share: The share, from 0 to 1.
        mark: A share to compare it with, as a thin line; None for none.
        is_quiet: Whether the bar is gray, for shares of less interest.
    """

    label: str
    share: float
    mark: float | None = None
    is_quiet: bool = False


def bars(rows: Sequence[ShareBar], name: str) -> str:
    """Return a horizontal bar for each share, with its percentage.

    Args:
        rows: The shares, from top to bottom.
        name: Name of the whole.
    """
    left, width, body = 2.0, _WIDTH - 56.0, []
    for place, row in enumerate(rows):
        y = place * _BAR_HEIGHT + 17
        kind = "share quiet" if row.is_quiet else "share"
        body.append(
            f'<text class="name" x="{left}" y="{y - 5}">{_bar_label(row.label)}</text>'
            f'<rect class="track" x="{left}" y="{y}" width="{width}" height="11"/>'
            f'<rect class="{kind}" x="{left}" y="{y}" width="{width * row.share:.1f}" height="11"/>'
            f'<text x="{left + width + 8}" y="{y + 9}">{percent(row.share)}</text>'
        )
        if row.mark is not None:
            x = left + width * row.mark
            body.append(
                f'<line class="mark" x1="{x:.1f}" y1="{y - 2}" x2="{x:.1f}" y2="{y + 13}"/>'
            )
    shown = ", ".join(f"{row.label} {percent(row.share)}" for row in rows)
    return _svg(body, f"{name}: {shown}", _BAR_HEIGHT * len(rows))


class Quotient(NamedTuple):
    """A quotient of two measurements with its range.

    Attributes:
        label: Label above the range.
        low: Lower end, above 0.
        middle: The quotient.
        high: Upper end.
        kind: `better`, `worse` or `unclear`, which chooses the color.
    """

    label: str
    low: float
    middle: float
    high: float
    kind: str


def quotients(rows: Sequence[Quotient], name: str) -> str:
    """Return the range of each quotient on a logarithmic scale, beside a line at 1.

    Args:
        rows: The quotients, from top to bottom.
        name: Name of the quotients.
    """
    left, width = 8.0, _WIDTH - 62.0
    far = max(1.1, *(max(row.high, 1 / row.low) for row in rows))

    def at(value: float) -> float:
        return left + width * (0.5 + log10(value) / log10(far) / 2)

    height = _BAR_HEIGHT * len(rows)
    body = [
        f'<line class="grid" x1="{at(value):.1f}" y1="0" x2="{at(value):.1f}" y2="{height}"/>'
        f'<text x="{at(value):.1f}" y="{height + 13}" text-anchor="{place}">{value:.3g}</text>'
        for value, place in ((1 / far, "start"), (1.0, "middle"), (far, "end"))
    ]
    for place, row in enumerate(rows):
        y = place * _BAR_HEIGHT + 24
        body.append(
            f'<text class="name" x="0" y="{y - 11}">{_bar_label(row.label)}</text>'
            f'<g class="quotient {row.kind}"><line x1="{at(row.low):.1f}" y1="{y}" '
            f'x2="{at(row.high):.1f}" y2="{y}"/>'
            f'<circle cx="{at(row.middle):.1f}" cy="{y}" r="4"/></g>'
            f'<text x="{left + width + 12}" y="{y + 4}">{row.middle:.2f}</text>'
        )
    shown = ", ".join(f"{row.label} {row.middle:.2f}, {row.kind}" for row in rows)
    return _svg(body, f"{name}: {shown}", height + 18)


def _bar_label(label: str) -> str:
    shown = label if len(label) <= _BAR_LABEL else f"{label[: _BAR_LABEL - 1]}…"
    return printable_html(shown)


def percent(share: float) -> str:
    """Return a share for people, in whole percent; `0 %` means none."""
    return "< 1 %" if 0 < share < 0.005 else f"{100 * share:.0f} %"  # noqa: PLR2004  # half of it


def number_text(value: float) -> str:
    """Return a number for people: four digits, and k or M for large ones."""
    if (value and abs(value) >= 1e9) or 0 < abs(value) < 1e-3:  # noqa: PLR2004  # rare
        return f"{value:.2e}"
    for limit, suffix in ((1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            return f"{value / (1e6 if suffix == 'M' else 1e3):.3g}{suffix}"
    return f"{value:.4g}"


class _Frame:
    """The area of a drawing, and its scales."""

    def __init__(self, x_range: tuple[float, float], y_range: tuple[float, float]) -> None:
        self._x, self._y = x_range, y_range

    def x(self, value: float) -> float:
        low, high = self._x
        return _LEFT + (value - low) / (high - low) * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        low, high = self._y
        return _HEIGHT - _BOTTOM - (value - low) / (high - low) * (_HEIGHT - _TOP - _BOTTOM)

    def axes(self, x_ticks: Sequence[tuple[float, str]], x_label: str) -> list[str]:
        """Return grid lines, the labels of both axes, and the name of the x axis."""
        left, right, bottom = _LEFT, _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
        parts = []
        for value in round_values(*self._y):
            y = self.y(value)
            parts.append(
                f'<line class="grid" x1="{left}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>'
                f'<text x="{left - 6}" y="{y + 3.5:.1f}" text-anchor="end">'
                f"{printable_html(number_text(value))}</text>"
            )
        room = max(1, int((right - left) / max(1, len(x_ticks)) / 6))
        for value, label in x_ticks:
            shown = label if len(label) <= room else f"{label[: room - 1]}…"
            parts.append(
                f'<text x="{self.x(value):.1f}" y="{bottom + 15}" text-anchor="middle">'
                f"{printable_html(shown)}</text>"
            )
        middle = (left + right) / 2
        parts.append(
            f'<text class="name" x="{middle:.1f}" y="{_HEIGHT - 6}" text-anchor="middle">'
            f"{printable_html(x_label)}</text>"
        )
        return parts


def round_values(low: float, high: float, count: int = 7) -> list[float]:
    """Return about `count` round values between two values, both ends allowed."""
    raw = (high - low) / count
    size = 10.0 ** floor(log10(raw))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= raw)
    first = floor(low / step)
    values = [(first + number) * step for number in range(2 * count + 4)]
    return [value for value in values if low <= value <= high + step * 1e-9]


def _svg(body: Sequence[str], label: str, height: int = _HEIGHT) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{printable_html(label)}">'
        f"{''.join(body)}</svg>"
    )
