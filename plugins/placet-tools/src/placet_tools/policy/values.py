"""Checks the plain values of a policy: a table, a list, a text, a count."""

from collections.abc import Mapping, Sequence
from typing import Final

from placet.schemas.codec import Json
from placet_tools.policy.errors import fault

_TEXT_CHARS_MAX: Final = 1_000


def table_of(value: object, place: str) -> Mapping[str, Json]:
    """Return a value as a table.

    Raises:
        ToolPolicyError: It is none.
    """
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise fault(place, f"expected a table, got {value!r:.120}")
    return value


def list_of(value: object, place: str) -> Sequence[Json]:
    """Return a value as a list.

    Raises:
        ToolPolicyError: It is none.
    """
    if not isinstance(value, list | tuple):
        raise fault(place, f"expected a list in [ ], got {value!r:.120}")
    return value


def text_of(value: object, place: str) -> str:
    """Return a value as a text that is not empty.

    Raises:
        ToolPolicyError: It is none, or too long.
    """
    if not isinstance(value, str) or not 1 <= len(value) <= _TEXT_CHARS_MAX:
        expected = f"expected a text of 1 to {_TEXT_CHARS_MAX} characters"
        raise fault(place, f"{expected}, got {value!r:.120}")
    return value


def positive(value: object, place: str) -> int:
    """Return a value as a positive integer.

    Raises:
        ToolPolicyError: It is none.
    """
    if type(value) is not int or value < 1:
        raise fault(place, f"expected an integer of at least 1, got {value!r:.120}")
    return value
