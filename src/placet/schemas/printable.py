"""How texts of others are shown: characters that a reader does not see are written as escapes.

Ids, payloads, messages and names in a log are not trusted. A control character may drive a terminal
or forge a line, and a bidirectional or zero-width one reorders or hides the text beside it. So each
way out for people has its function here: `printable` for lines of text, `printable_json` for JSON,
`printable_html` for markup. Files of data keep texts as they are, and `defused` makes
a text for a spreadsheet.
"""

import re
from html import escape
from typing import Final

from placet.schemas.codec import Json, to_json

UNSEEN: Final = (
    r"\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    r"\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb"
)
"""Inside of a character class, for regular expressions of Python, ECMAScript and JSON Schema.

Controls (C0, DEL, C1), bidirectional controls, zero-width characters, line and paragraph
separators, fillers and variation selectors. Spaces are no part of it, nor are the selectors U+FE0E
and U+FE0F, which choose between a letter and an emoji. It is a list, because the categories differ
among versions of Unicode, that is, of Python."""

_UNSEEN_BEYOND: Final = "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
"""More of them beyond U+FFFF: format controls, tags, variation selectors."""

_UNSEEN: Final = re.compile(f"[{UNSEEN}\ud800-\udfff{_UNSEEN_BEYOND}]")
"""Lone surrogates stand for bytes of an argument that are not UTF-8."""

_FORMULA: Final = re.compile(r"['=+\-@\t\r\n]")
"""First characters of a text that a spreadsheet may run, and the `'` that is put before them."""


def unseen_characters(text: str) -> str:
    """Return the characters of a text that a reader does not see, in their order."""
    return "".join(_UNSEEN.findall(text))


def printable(text: str) -> str:
    r"""Return a text as one line that is safe to print: an unseen character becomes `\u202e`."""
    return text if text.isascii() and text.isprintable() else _UNSEEN.sub(_python_escape, text)


def printable_json(value: Json) -> str:
    r"""Return plain values as JSON text in which an unseen character of a string is `\u202e`.

    Raises:
        ValueError: A string cannot be written as UTF-8.
    """
    return escaped_json(to_json(value).decode())


def escaped_json(text: str) -> str:
    r"""Return JSON text, written on one line, in which an unseen character is `\u202e`."""
    return text if text.isascii() and text.isprintable() else _UNSEEN.sub(_json_escape, text)


def printable_html(text: str) -> str:
    """Return a text for HTML, as content or as a quoted attribute: neither markup nor unseen."""
    return escape(printable(text))


def defused(text: str) -> str:
    """Return a text that a spreadsheet does not take for a formula.

    A `'` is put before a text that begins like a formula, or with a `'`. So removal of one `'` at
    the beginning of a text that has one returns every text as it was.
    """
    return f"'{text}" if _FORMULA.match(text) else text


def _python_escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


def _json_escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
