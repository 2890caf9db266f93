"""Suggests rewordings of an unclear text.

A rewording is a whole text that names the missing field.

It is the user's text with the missing field inserted. It is returned only if the parser
reads it as exactly that field, so there is no second grammar here.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

from placet.schemas.codec import Json
from placet_design.refinable_fields import REFINABLE_SCHEMA, RefinableField
from placet_design.text.lexicon import number_of
from placet_design.text.parser import NOTHING_KNOWN, Clarification, parse_text

_PLACES_MAX: Final = 8
_CANDIDATES_MAX: Final = 8


def rewordings(
    unclear: Clarification,
    *,
    fields: Mapping[str, RefinableField] = REFINABLE_SCHEMA,
    current: Mapping[str, Json] = NOTHING_KNOWN,
) -> tuple[str, ...]:
    """Return one text per candidate field; empty if the question is not about a missing field.

    Args:
        unclear: Result of `parse_text`.
        fields: The `fields` passed to `parse_text`.
        current: The `current` passed to `parse_text`.
    """
    texts: list[str] = []
    for path in unclear.candidates[:_CANDIDATES_MAX]:
        if path in fields:
            known = _worded(unclear, fields[path])
            is_clear = (text for text in known if _is_said(text, path, unclear, fields, current))
            texts += islice(is_clear, 1)
    return tuple(texts)


def _worded(unclear: Clarification, field: RefinableField) -> Iterator[str]:
    """Replace a word by the field's name, or insert the name before a number."""
    text, said = unclear.intent.raw_text, unclear.said
    if not said:
        return
    is_number = number_of(said) is not None
    for place in islice(re.finditer(re.escape(said), text), _PLACES_MAX):
        for name in field.keywords:
            words = f"{name} {said}" if is_number else name
            yield f"{text[: place.start()]}{words}{text[place.end() :]}"


def _is_said(
    text: str,
    path: str,
    unclear: Clarification,
    fields: Mapping[str, RefinableField],
    current: Mapping[str, Json],
) -> bool:
    """Return whether a text keeps the understood part and then names this field."""
    read = parse_text(text, fields=fields, current=current)
    known = read.understood if isinstance(read, Clarification) else read.actions
    count = len(unclear.understood)
    return known[:count] == unclear.understood and [a.path for a in known[count : count + 1]] == [
        path
    ]
