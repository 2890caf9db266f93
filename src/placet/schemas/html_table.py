"""Small tables for notebooks: `_repr_html_` of values that people meet there."""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

from placet.schemas.printable import printable_html

ROWS_MAX: Final = 20
_CHARS_MAX: Final = 200


def html_table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table as HTML: at most `ROWS_MAX` rows, every text escaped and shortened.

    Args:
        caption: Caption of the table.
        heads: Headings of the columns.
        rows: The cells of each row, shown by `str`.
    """
    shown = list(islice(iter(rows), ROWS_MAX + 1))
    body = "".join(_row("td", row) for row in shown[:ROWS_MAX])
    if len(shown) > ROWS_MAX:
        body += _row("td", ["…"])
    return (
        f"<table><caption>{_text(caption)}</caption><thead>{_row('th', heads)}</thead>"
        f"<tbody>{body}</tbody></table>"
    )


def _row(tag: str, cells: Iterable[object]) -> str:
    return f"<tr>{''.join(f'<{tag}>{_text(cell)}</{tag}>' for cell in cells)}</tr>"


def _text(value: object) -> str:
    text = str(value)
    return printable_html(text if len(text) <= _CHARS_MAX else f"{text[:_CHARS_MAX]}…")
