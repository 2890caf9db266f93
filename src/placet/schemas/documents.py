"""Parsers of the TOML and JSON documents in files: settings, scenarios, tokens, studies.

A file may be damaged, foreign or hostile. Size, nesting and numbers are bounded before a value
leaves this module; each fault is a `DocumentError` of one line, and each value can be printed and
encoded. `codec.py` has the parsers of requests and log records.
"""

import json
import re
from typing import Any, Final, TypeVar

import msgspec

from placet.schemas.codec import Json
from placet.schemas.limits import DOCUMENT_BYTES_MAX, DOCUMENT_DEPTH_MAX

_INTEGER_BITS: Final = 64
_NAMES: Final = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
_DOTTED: Final = re.compile(
    rf"(?<![\w-]){_NAMES}(?:[ \t]*+\.[ \t]*+{_NAMES}){{{DOCUMENT_DEPTH_MAX}}}"
)
"""A key of too many parts: the parser of TOML takes time quadratic in them."""

_Typed = TypeVar("_Typed")


class DocumentError(ValueError):
    """A text that is no document of its format; the message is one line."""


class DocumentTooLarge(DocumentError):  # noqa: N818  # reads as the failure
    """A text that may be a document of its format, and exceeds a bound."""


def parse_toml(text: bytes | str) -> dict[str, Json]:
    """Parse a TOML document.

    Raises:
        DocumentError: The text is not UTF-8, or not TOML.
        DocumentTooLarge: It is larger than `DOCUMENT_BYTES_MAX`, nests deeper than
            `DOCUMENT_DEPTH_MAX`, or has an integer beyond 64 bits.
    """
    import tomllib  # noqa: PLC0415  # most programs read no TOML

    decoded = _decoded(text)
    if _DOTTED.search(decoded):
        raise DocumentTooLarge(f"a key has more than {DOCUMENT_DEPTH_MAX} parts")
    try:
        document: dict[str, Json] = tomllib.loads(decoded)
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:  # not TOML, or an integer of thousands of digits
        raise _fault(error) from None
    _require_bounded(document, _INTEGER_BITS)
    return document


def parse_json(
    text: bytes | str,
    *,
    bytes_max: int = DOCUMENT_BYTES_MAX,
    integer_bits_max: int = _INTEGER_BITS,
) -> Json:
    """Parse a JSON document; `NaN` and `Infinity` are numbers, as Python's own writer has them.

    Raises:
        DocumentError: The text is not UTF-8 or not JSON, or has half a character.
        DocumentTooLarge: It is larger than `bytes_max`, nests deeper than `DOCUMENT_DEPTH_MAX`,
            or has an integer of more than `integer_bits_max` bits.
    """
    try:
        document: Json = json.loads(_decoded(text, bytes_max))
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:  # not JSON, or an integer of thousands of digits
        raise _fault(error, integer_bits_max) from None
    _require_bounded(document, integer_bits_max)
    return document


def typed(document: Json, type_: type[_Typed]) -> _Typed:
    """Return a document as a type of `msgspec`: a struct, a `TypedDict`, a tuple of types.

    Raises:
        DocumentError: A value is of another type, or lacks; the message names its place.
    """
    try:
        return msgspec.convert(document, type_)
    except msgspec.ValidationError as error:
        raise DocumentError(" ".join(str(error).split())) from None


def _decoded(text: bytes | str, bytes_max: int = DOCUMENT_BYTES_MAX) -> str:
    if len(text) > bytes_max:
        raise DocumentTooLarge(f"the document is larger than {bytes_max} bytes")
    if isinstance(text, str):
        return text
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise DocumentError(f"byte {error.start} is not UTF-8") from None


def _require_bounded(document: Json, bits: int) -> None:
    """Check nesting, integers and texts, level by level: a recursion could itself go too deep."""
    level: list[Any] = [document]
    depth = 0
    while level:
        inner: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                inner += value
                inner += value.values()
            elif isinstance(value, list):
                inner += value
            else:
                _require_plain(value, bits)
                continue
            if depth == DOCUMENT_DEPTH_MAX:
                raise _too_deep()
        level, depth = inner, depth + 1


def _require_plain(value: Json, bits: int) -> None:
    if isinstance(value, int) and value.bit_length() > bits:
        raise _too_long(bits)
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise DocumentError(
                "a text has half of a surrogate pair, which is no character"
            ) from None


def _too_deep() -> DocumentTooLarge:
    return DocumentTooLarge(f"the document nests deeper than {DOCUMENT_DEPTH_MAX} levels")


def _too_long(bits: int) -> DocumentTooLarge:
    return DocumentTooLarge(f"an integer is beyond {bits} bits")


def _fault(error: ValueError, bits: int = _INTEGER_BITS) -> DocumentError:
    """Return the error of a parser. An integer of thousands of digits is no fault of syntax."""
    if "integer string conversion" in str(error):
        return _too_long(bits)
    return DocumentError(" ".join(str(error).split()))
