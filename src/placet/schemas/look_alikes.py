"""Remarks about texts that look like other texts, for a person who decides by their look.

`printable` writes characters that a reader does not see as escapes. A Cyrillic letter among Latin
ones, a no-break space or an accent that is a separate character is seen, and taken for another
character. The pages of the server (`values.js`) have remarks about the same letters and accents;
spaces and characters without a shape they write as escapes, without a remark.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from unicodedata import category, is_normalized, name, normalize

from placet.schemas.codec import Json

_ALPHABETS: Final = frozenset(
    {"LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "COPTIC", "CHEROKEE", "LISU", "DESERET", "OSAGE"}
)
"""First words of the names of letters in alphabets that have letters of the same shape."""

_LIKE_LATIN: Final = frozenset(
    "аеорсухіјѕԁһӏԛԝҽьАВЕКМНОРСТУХІЈЅԌԚԜοανρυικηωχΑΒΕΖΗΙΚΜΝΟΡΤΥΧϲϳօսոհցԁզԼՕՍ"
)
_LISTED_MAX: Final = 4


def remarks(value: Json) -> list[str]:
    """Return remarks about the texts and names in a value, each remark once."""
    return list(dict.fromkeys(one for text in _texts(value) for one in _remarks(text)))


def _texts(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield key
            yield from _texts(inner)
    elif isinstance(value, Sequence):
        for inner in value:
            yield from _texts(inner)


def _remarks(text: str) -> Iterator[str]:
    if text.isascii():
        return
    letters: dict[str, list[str]] = {}
    for one in text:
        alphabet = name(one, "").partition(" ")[0] if one.isalpha() else ""
        if alphabet in _ALPHABETS:
            letters.setdefault(alphabet, []).append(one)
    if len(letters) > 1:
        _, *others = sorted(letters.values(), key=len, reverse=True)
        names = " and ".join(alphabet.title() for alphabet in letters)
        yield f"letters of {names}: {_pointed([one for found in others for one in found])}"
    elif letters and "LATIN" not in letters and _LIKE_LATIN.issuperset(*letters.values()):
        [(alphabet, found)] = letters.items()
        yield f"{alphabet.title()} letters that look like Latin ones: {_pointed(found)}"
    forms = [one for one in text if not one.isascii() and normalize("NFKC", one).isascii()]
    if found := [one for one in forms if one.isalpha() or category(one) == "Nd"]:
        yield f"characters that are no plain letters or digits: {_pointed(found)}"
    if found := [one for one in text if one != " " and category(one) in {"Zs", "Co", "Cn"}]:
        yield f"characters that look like a space, or have no shape: {_pointed(found)}"
    if not is_normalized("NFC", text):
        yield "composed in another way than usual, not in Unicode NFC"


def _pointed(characters: Sequence[str]) -> str:
    """Return some characters with their code points."""
    different = list(dict.fromkeys(characters))
    listed = ", ".join(f"{one} U+{ord(one):04X}" for one in different[:_LISTED_MAX])
    more = len(different) - _LISTED_MAX
    return f"{listed} and {more} more" if more > 0 else listed
