"""Make the page of a report: one HTML file, which loads nothing.

Every text is escaped, and the data is JSON in which no `<` occurs. A content security policy allows
the page's own scripts, by their hashes, and nothing else; so a name in a log is never run.
"""

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from math import isfinite
from re import sub
from typing import Final

from placet.lab.reporting.drawings import number_text
from placet.lab.reporting.figures import Figure, Page, ReportSection, y_range_of
from placet.schemas.codec import Json
from placet.schemas.printable import printable_html, printable_json

MARK: Final = "<!-- placet report -->"
"""In the first line of every report, by which a file is recognized that may be replaced."""

_ASSETS: Final = files("placet.lab.reporting") / "assets"
_FOOTER: Final = (
    "Made by placet; drawn with uPlot (MIT license, Copyright (c) 2022 Leon Sorokin). The page "
    "needs no network."
)
_LONG_CHARACTERS: Final = 16
_NARROW_COLUMNS_MAX: Final = 3
_DIGITS: Final = 7


def render(page: Page) -> str:
    """Return a report as an HTML document; sections without figures come last."""
    scripts = [_asset("uPlot.iife.min.js"), _asset("report.js")]
    hashes = " ".join(f"'sha256-{_hash(script)}'" for script in scripts)
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src {hashes}; img-src data:"
    sections = sorted(page.sections, key=lambda section: not section.figures)
    figures = [figure for section in sections for figure in section.figures]
    body = [
        f"<header><h1>{printable_html(page.title)}</h1>",
        f'<p class="quiet">{printable_html(page.subtitle)}</p>' if page.subtitle else "",
        '<dl class="facts">',
        *(_fact(label, value) for label, value in page.facts),
        "</dl></header><main>",
        *_sections(sections),
        "</main>",
        f"<footer>{_FOOTER}</footer>",
        "<noscript><p>Without scripts the charts and their data are not shown.</p></noscript>",
    ]
    return "\n".join(
        [
            f"<!doctype html>{MARK}",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{printable_html(policy)}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{printable_html(page.title)}</title>",
            f"<style>{_asset('uPlot.min.css')}{_asset('report.css')}</style></head><body>",
            *body,
            f'<script type="application/json" id="data">{_data(figures)}</script>',
            *(f"<script>{script}</script>" for script in scripts),
            "</body></html>\n",
        ]
    )


def _fact(label: str, value: str) -> str:
    kind = ' class="long"' if len(value) > _LONG_CHARACTERS else ""
    return f"<div><dt>{printable_html(label)}</dt><dd{kind}>{printable_html(value)}</dd></div>"


def _sections(sections: Sequence[ReportSection]) -> Iterator[str]:
    number = 0
    for section in sections:
        yield f"<section><h2>{printable_html(section.title)}</h2>"
        if text := section.note if section.figures else section.empty:
            yield f'<p class="quiet lead">{printable_html(text)}</p>'
        yield '<div class="figures">'
        for figure in section.figures:
            yield _figure(figure, number)
            number += 1
        yield "</div></section>"


def _figure(figure: Figure, number: int) -> str:
    has_picture = figure.x is not None or figure.drawing
    name = sub(r"[^a-z0-9]+", "-", figure.title.lower()).strip("-") or "figure"
    columns = figure.table
    rows = len(columns[0][1]) if columns else 0
    label = f"{figure.title}: line chart of {', '.join(figure.data)}"
    chart = (
        f'<div class="chart lines" role="img" aria-label="{printable_html(label)}"></div>'
        if figure.x is not None
        else f'<div class="chart">{figure.drawing}</div>'
    )
    opened = "" if has_picture else " open"
    is_wide = not has_picture and len(columns) > _NARROW_COLUMNS_MAX
    wide = ' class="wide"' if is_wide else ""
    unit = f' <span class="note">{printable_html(figure.unit)}</span>' if figure.unit else ""
    title = printable_html(figure.title)
    note = f'<p class="note">{printable_html(text)}</p>' if (text := _note(figure)) else ""
    count = "1 row" if rows == 1 else f"{rows} rows"
    return (
        f'<figure{wide} data-figure="{number}" data-name="{name}">'
        f"<figcaption><h3>{title}{unit}</h3>{note}</figcaption>"
        f"{chart if has_picture else ''}"
        f'<div class="tools"><details{opened}><summary>Data ({count})</summary>'
        '<div class="scroll" tabindex="0"></div></details>'
        f'<button type="button" aria-label="Download {title} as CSV">CSV</button>'
        "</div></figure>"
    )


def _data(figures: list[Figure]) -> str:
    """Return the data of all figures as JSON that is safe inside a script element."""
    plain: list[Json] = [
        {
            "names": [_writable(name) for name, _ in figure.table],
            "columns": [[_shown(value) for value in column] for _, column in figure.table],
            "steps": figure.steps,
            "band": figure.band,
            "range": None if (y_range := _y_range(figure)) is None else list(y_range),
        }
        for figure in figures
    ]
    return printable_json(plain).replace("<", "\\u003c")


def _y_range(figure: Figure) -> tuple[float, float] | None:
    if figure.y_range is not None or figure.x is None:
        return figure.y_range
    return y_range_of([value for column in figure.data.values() for value in column])


def _note(figure: Figure) -> str:
    """Return the note of a figure, which says where its y axis does not begin at 0."""
    y_range = _y_range(figure)
    if y_range is None or y_range[0] <= 0:
        return figure.note
    mark = f"The y axis begins at {number_text(y_range[0])}."
    return f"{figure.note.removesuffix('.')}. {mark}" if figure.note else mark


def _writable(text: str) -> str:
    """Return a text that UTF-8 can encode: a lone surrogate becomes an escape."""
    return text.encode("utf-8", "backslashreplace").decode()


def _shown(value: Json) -> Json:
    """Return a value of a cell with rounded numbers, and texts as they are.

    NaN and the infinities, which JSON lacks, are their names.
    """
    if isinstance(value, float):
        if isfinite(value):
            return float(f"{value:.{_DIGITS}g}")
        return str(value)
    if isinstance(value, str):
        return _writable(value)
    if isinstance(value, list | tuple):
        return [_shown(item) for item in value]
    if isinstance(value, Mapping):
        return {_writable(name): _shown(item) for name, item in value.items()}
    return value


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    return b64encode(sha256(script.encode()).digest()).decode()
