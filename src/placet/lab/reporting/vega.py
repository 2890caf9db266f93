"""Draw the charts of a report with Vega-Altair, as SVG: they print sharply, and need no script.

It needs altair and vl-convert-python, which a user installs; placet does not depend on them.
"""

from collections.abc import Sequence
from dataclasses import replace
from re import sub
from typing import Any, Final

from placet.lab.reporting.figures import Figure, Page
from placet.schemas.codec import Json
from placet.sweeps.errors import LabError

_COLORS: Final = [f"var(--s{number})" for number in range(1, 9)]
"""Variables of the page, so that lines follow its light and its dark colors."""

_AXIS: Final = {
    **dict.fromkeys(("gridColor", "domainColor", "tickColor"), "var(--line)"),
    **dict.fromkeys(("labelColor", "titleColor"), "var(--quiet)"),
}


def with_vega(page: Page) -> Page:
    """Return a page in which each line chart is an SVG drawing of Vega-Altair.

    Raises:
        LabError: altair or vl-convert is not installed.
    """
    try:
        import altair  # noqa: PLC0415  # the user's library
        import vl_convert  # noqa: PLC0415  # likewise
    except ImportError as error:
        raise LabError(
            f"--vega needs altair and vl-convert: pip install altair vl-convert-python ({error})"
        ) from None
    number = 0
    sections = []
    for section in page.sections:
        figures = []
        for figure in section.figures:
            number += 1
            figures.append(_drawn(figure, number, altair, vl_convert) if figure.lines else figure)
        sections.append(replace(section, figures=figures))
    return replace(page, sections=sections)


def _drawn(figure: Figure, number: int, altair: Any, vl_convert: Any) -> Figure:  # noqa: ANN401  # modules
    x, *names = figure.data
    rows = [
        {"x": at, "y": value, "line": name}
        for name in names
        for at, value in zip(figure.data[x], figure.data[name], strict=True)
    ]
    y: dict[str, Any] = {"title": None}
    if figure.y_range is not None:
        y["scale"] = altair.Scale(domain=list(figure.y_range))
    color = altair.Color(
        "line:N", title=None, sort=None, scale=altair.Scale(domain=names, range=_range(names))
    )
    chart = (
        altair.Chart(altair.Data(values=rows), width=420, height=190)
        .mark_line(interpolate="step-after" if figure.steps else "linear", strokeWidth=1.5)
        .encode(x=altair.X("x:Q", title=x), y=altair.Y("y:Q", **y), color=color)
        .configure(background="transparent")
        .configure_view(stroke=None)
        .configure_axis(**_AXIS)
        .configure_legend(orient="bottom", columns=3, labelColor="var(--ink)", labelLimit=200)
    )
    svg = vl_convert.vegalite_to_svg(chart.to_dict())
    # The ids of the clipping paths begin anew in each drawing, and a page has one space of ids.
    unique = sub(r'(id="|url\(#)', rf"\g<1>figure{number}-", svg)
    return replace(figure, drawing=unique, lines=False)


def _range(names: Sequence[str]) -> list[Json]:
    return [_COLORS[number % len(_COLORS)] for number in range(len(names))]
