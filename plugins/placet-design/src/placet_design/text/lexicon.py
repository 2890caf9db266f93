"""Split a text into tokens, and map phrases to the fields and values that they mean.

This module does not guess: a token that is neither number nor word is kept as a symbol, and a
number with two readings is kept unread, so that the parser can ask.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final
from unicodedata import normalize

from placet_design.refinable_fields import RefinableField
from placet_design.units import DIMENSIONS

PERCENT: Final = "%"
NUMBER_CHARS_MAX: Final = 40

_TOKEN: Final = re.compile(
    r"""
      (?P<number>(?:(?<![\w.)%])[+-])?
                 (?:\d+(?:[.,_']\d+)*|\.\d+)
                 (?:e[+-]?\d+)?)
    | (?P<word>[^\W\d_](?:\w|[./'](?=[^\W\d_]))*)
    | (?P<space>\s+|(?<=\w)-(?=[^\W\d_]))
    | (?P<symbol>.)
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
_PLAIN: Final = re.compile(r"[+-]?(?:\d+(?:\.\d+)?|\.\d+)(?:e[+-]?\d+)?", re.IGNORECASE | re.ASCII)
_GROUPED: Final = re.compile(r"[+-]?[1-9]\d{0,2}(?:([,_'])\d{3})(?:\1\d{3})*(?:\.\d+)?")

_SPELLED: Final[Mapping[str, str]] = {
    "meter meters metre metres": "m",
    "foot feet": "ft",
    "inch inches": "in",
    "millimeter millimeters millimetre millimetres": "mm",
    "kilometer kilometers kilometre kilometres": "km",
    "knot knots": "kts",
    "kph kmh": "km/h",
    "watt watts": "W",
    "kilowatt kilowatts": "kW",
    "megawatt megawatts": "MW",
    "horsepower": "hp",
    "degree degrees °": "deg",
    "radian radians": "rad",
    "percent %": PERCENT,
}
_UNIT_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {word: unit for words, unit in _SPELLED.items() for word in words.split()}
)
_SAME: Final[Mapping[str, str]] = MappingProxyType(
    {
        unit: next(u for u in known if known[u] == size)
        for known in DIMENSIONS.values()
        for unit, size in known.items()
    }
)
"""Unit -> the first of its size: kn is kts, nmi is nm."""
_UNIT_PHRASES: Final[Mapping[tuple[str, ...], str]] = MappingProxyType(
    {
        ("nautical", "mile"): "nm",
        ("nautical", "miles"): "nm",
        ("meters", "per", "second"): "m/s",
        ("metres", "per", "second"): "m/s",
        ("per", "cent"): PERCENT,
    }
)


@dataclass(frozen=True, slots=True)
class Token:
    """A number, a word or a symbol.

    Attributes:
        kind: `number`, `word` or `symbol`.
        text: As it was written.
        word: The text in lower case, for comparison.
    """

    kind: str
    text: str
    word: str


@dataclass(frozen=True, slots=True)
class Meaning:
    """The meaning of a phrase: a field, or a value of an enum field."""

    path: str
    value: str | None = None


def tokens_of(text: str) -> list[Token]:
    """Split a text into tokens.

    Compatibility forms (full width, superscript) are normalized first.
    """
    plain = normalize("NFKC", text).replace("\u2019", "'").replace("\u2212", "-")
    return [
        Token(match.lastgroup or "symbol", match.group(), match.group().lower())
        for match in _TOKEN.finditer(plain)
        if match.lastgroup != "space" or "\n" in match.group()
    ]


def number_of(text: str) -> float | None:
    """Read a number; None if it has two readings (`1,5`) or is out of range.

    Groups of three digits may be separated by commas, underscores or apostrophes, all alike.
    """
    if len(text) > NUMBER_CHARS_MAX:
        return None
    plain = re.sub(r"[,_']", "", text) if _GROUPED.fullmatch(text) else text
    if not _PLAIN.fullmatch(plain):
        return None
    if re.fullmatch(r"[+-]?\d{1,18}", plain):
        return int(plain)
    value = float(plain)
    return value if value - value == 0.0 else None


def unit_at(tokens: list[Token]) -> tuple[str, int] | None:
    """Return the unit at the start of the tokens, and its number of tokens; None if none."""
    for length in (3, 2):
        phrase = _UNIT_PHRASES.get(tuple(token.word for token in tokens[:length]))
        if phrase is not None:
            return phrase, length
    unit = _unit(tokens[0]) if tokens else None
    return None if unit is None else (unit, 1)


def _unit(token: Token) -> str | None:
    """Read a unit: as spelled, in one case, or capitalized.

    Case distinguishes units (kN from knot, mW from megawatt), so other mixtures are not read.
    """
    if token.word in _UNIT_WORDS:
        return _UNIT_WORDS[token.word]
    return next((same for unit, same in _SAME.items() if token.text in _cases(unit)), None)


def _cases(unit: str) -> set[str]:
    """Return the spellings of a unit; a single letter (m, t, W) has one."""
    return {unit, unit.lower(), unit.upper(), unit.capitalize()} if unit[1:] else {unit}


class Lexicon:
    """The phrases that name fields and values of enum fields.

    A keyword may follow the name of its section (`hull length`); a plural may be singular (`1
    engine`); an enum's value may have spaces for underscores.

    Attributes:
        keywords: Every keyword and value, with the path of its field.
    """

    def __init__(self, fields: Mapping[str, RefinableField]) -> None:
        self.keywords: dict[str, str] = {}
        self._meanings: dict[tuple[str, ...], list[Meaning]] = {}
        for field in fields.values():
            for name in (*field.keywords, *field.values):
                self.keywords.setdefault(name.lower(), field.path)
            for phrase, meaning in _phrases(field):
                known = self._meanings.setdefault(phrase, [])
                if meaning not in known:
                    known.append(meaning)
        for field in fields.values():
            for phrase in _singulars(field):
                self._meanings.setdefault(phrase, [Meaning(field.path)])
        self._words_max = max(map(len, self._meanings), default=0)

    def match(self, words: list[str]) -> tuple[list[Meaning], int]:
        """Return the meanings of the longest phrase at the start, and its number of words."""
        for length in range(min(self._words_max, len(words)), 0, -1):
            meanings = self._meanings.get(tuple(words[:length]))
            if meanings:
                return meanings, length
        return [], 0

    def called_partly(self, word: str) -> list[str]:
        """Return the paths of fields with a keyword that contains a word of the phrase."""
        paths = (path for name, path in self.keywords.items() if word in name.split())
        return list(dict.fromkeys(paths))


def _phrases(field: RefinableField) -> Iterator[tuple[tuple[str, ...], Meaning]]:
    section = field.section.split("_")
    yield (field.path,), Meaning(field.path)
    for keyword in field.keywords:
        words = keyword.lower().split()
        meaning = Meaning(field.path, keyword if keyword in field.values else None)
        yield tuple(words), meaning
        yield (*section, *words), meaning
    for value in field.values:
        yield (value,), Meaning(field.path, value)
        yield tuple(value.split("_")), Meaning(field.path, value)


def _singulars(field: RefinableField) -> Iterator[tuple[str, ...]]:
    """Return the keywords in the singular; declared ones take precedence (a passenger vessel)."""
    for keyword in field.keywords:
        if field.type == "int" and keyword.endswith("s"):
            yield tuple(keyword.lower().removesuffix("s").split())
