"""Read one clause of a text: its actions, or the question to ask.

A clause is an optional verb and items: measures (`9 m`), fields, values of enum fields, and linking
words. Words without meaning for a design are ignored only if they are listed here; the parser asks
about any other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, TypeAlias

from placet.schemas.errors import PlacetError
from placet_design.refinable_fields import Step
from placet_design.text.lexicon import Lexicon, Meaning, Token, number_of, unit_at
from placet_design.units import UnitConverter

_LINKS: Final = frozenset({"to", "=", ":", "at", "as", "be", "is", "of", "from"})
_NOISE: Final = frozenset(
    {"please", "the", "a", "an", "it", "its", "our", "my", "this", "that", "design", "with", "hull"}
)
_NOUNS: Final = frozenset({"ship", "vessel", "boat", "craft"})
_STEPS: Final[Mapping[tuple[str, ...], str]] = {
    ("a", "bit"): Step.A_BIT.value,
    ("a", "little"): Step.A_BIT.value,
    ("slightly",): Step.A_BIT.value,
    ("a", "lot"): Step.WAY.value,
    ("way",): Step.WAY.value,
    ("much",): Step.WAY.value,
}


class UnclearError(PlacetError, ValueError):
    """Raised for a clause that has several readings or none; the message is a question.

    Attributes:
        candidates: Possible answers to the question.
        said: The words that should have named the field, if it is missing.
    """

    def __init__(self, question: str, candidates: Sequence[str] = (), said: str = "") -> None:
        super().__init__(question)
        self.candidates = tuple(candidates)
        self.said = said


@dataclass(frozen=True, slots=True)
class Measure:
    """A number in a sentence, with its unit if one was stated."""

    number: float
    unit: str | None
    text: str
    said: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """A word between a field and its value; `by` precedes an amount."""

    text: str


@dataclass(frozen=True, slots=True)
class Noun:
    """A word in a sentence that means the vessel itself."""

    text: str


@dataclass(frozen=True, slots=True)
class Amount:
    """A named step in a sentence, such as `a_bit`, instead of a number."""

    text: str


Item: TypeAlias = Measure | Link | Noun | Amount | Meaning


def items_of(tokens: Sequence[Token], lexicon: Lexicon, *, has_steps: bool = False) -> list[Item]:
    """Read the tokens of a clause after its verb.

    Args:
        tokens: Tokens of the clause.
        lexicon: Meanings of phrases.
        has_steps: Named steps (`a bit`) are allowed in this clause.

    Raises:
        UnclearError: A token has no meaning, or two.
    """
    items: list[Item] = []
    rest = list(tokens)
    while rest:
        item, length = _item(rest, lexicon, has_steps=has_steps)
        if item is not None:
            items.append(item)
        rest = rest[length:]
    return items


def step_at(tokens: Sequence[Token]) -> tuple[str | None, int]:
    """Return the step at the start of the tokens and its number of tokens; None and 0 if none."""
    for phrase, step in _STEPS.items():
        if tuple(token.word for token in tokens[: len(phrase)]) == phrase:
            return step, len(phrase)
    return None, 0


def _item(rest: list[Token], lexicon: Lexicon, *, has_steps: bool) -> tuple[Item | None, int]:
    token = rest[0]
    if token.kind == "number":
        return _measure(rest, lexicon)
    step, length = step_at(rest) if has_steps else (None, 0)
    if step is not None:
        return Amount(step), length
    meanings, length = lexicon.match([other.word for other in rest])
    if len(meanings) > 1:
        paths = [meaning.path for meaning in meanings]
        said = " ".join(other.text for other in rest[:length])
        raise UnclearError(f"{said!r} could be {either(paths)}; say which", paths, said)
    if meanings:
        return meanings[0], length
    if token.word in _LINKS or token.word == "by":
        return Link(token.word), 1
    if token.word in _NOUNS:
        return Noun(token.word), 1
    if token.word in _NOISE:
        return None, 1
    raise unknown(token, lexicon)


def _measure(rest: list[Token], lexicon: Lexicon) -> tuple[Measure, int]:
    token = rest[0]
    number = number_of(token.text)
    if number is None:
        raise UnclearError(
            f"{token.text[:40]!r} can be read as more than one number, or as none; write it with a "
            "decimal point, and separate groups of three digits by commas or not at all"
        )
    found = unit_at(rest[1:])
    if found is not None:
        unit, length = found
        return Measure(number, unit, f"{token.text} {unit}", token.text), 1 + length
    if rest[1:]:
        _refuse_strange_unit(token, rest[1:], lexicon)
    return Measure(number, None, token.text, token.text), 1


def _refuse_strange_unit(number: Token, rest: list[Token], lexicon: Lexicon) -> None:
    """Ask about a word after a number that is unknown, or is a unit except for its case."""
    text, word = rest[0].text, rest[0].word
    units = [unit for unit in UnitConverter.get_supported_units() if unit.lower() == word]
    is_known = word in _LINKS | _NOISE | _NOUNS or word == "by" or rest[0].kind == "number"
    if units or not (is_known or lexicon.match([token.word for token in rest])[1]):
        near = f"did you mean {either(units)}?" if units else "say it in a known unit"
        raise UnclearError(f"{text[:40]!r} after {number.text} is no known unit; {near}", units)


def unknown(token: Token, lexicon: Lexicon) -> UnclearError:
    """Return the error for an unknown word, with the fields of the same or a similar name."""
    paths = lexicon.called_partly(token.word)
    if paths:
        question = f"{token.text[:40]!r} could be {either(paths)}; say which"
        return UnclearError(question, paths, token.text)
    phrases = lexicon.keywords
    near = get_close_matches(token.word[:40], phrases, 3)
    hint = f"did you mean {either(near)}?" if near else "use other words"
    paths = list(dict.fromkeys(phrases[phrase] for phrase in near))
    return UnclearError(f"{token.text[:40]!r} is not known here; {hint}", paths, token.text)


def either(names: Sequence[str]) -> str:
    """Join names to a text of alternatives, such as `a, b or c`."""
    return " or ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)
