"""Tables for notebooks: rows as HTML, every text escaped."""

from collections.abc import Mapping, Sequence
from typing import Final

from placet.schemas.codec import Json, to_json
from placet.schemas.printable import printable_html

_ROWS_SHOWN: Final = 20


def table_html(caption: str, rows: Sequence[Mapping[str, Json]]) -> str:
    """Return the first rows of a table as HTML; all rows have the keys of the first."""
    if not rows:
        return f"<p>{printable_html(caption)}: none</p>"
    head = "".join(f"<th>{printable_html(name)}</th>" for name in rows[0])
    body = "".join(
        f"<tr>{''.join(f'<td>{printable_html(_shown(value))}</td>' for value in row.values())}</tr>"
        for row in rows[:_ROWS_SHOWN]
    )
    more = len(rows) - _ROWS_SHOWN
    rest = f"<p>... and {more} more</p>" if more > 0 else ""
    return (
        f"<table><caption>{printable_html(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>{rest}"
    )


def _shown(value: Json) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    return value if isinstance(value, str) else to_json(value).decode()
